"""The command line: ``hiertree`` and its commands."""

from .entry import main

__all__ = ["main"]
