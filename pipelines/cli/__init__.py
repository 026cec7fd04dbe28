"""The command line: ``hiertree`` and its commands."""

from .application import main

__all__ = ["main"]
