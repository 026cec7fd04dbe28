"""``python -m hiertree``: the command line."""

from hiertree.cli import main

main()
