"""``python -m hiertree``: the command line."""

from hiertree.pipelines.cli.application import main

main()
