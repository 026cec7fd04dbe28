"""``python -m hiertree``: the command line."""

from hiertree.pipelines.cli.entry import main

main()
