"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

import ast
from functools import cached_property
from importlib import import_module
from importlib.resources import files

import click
from typing_extensions import override

from .checked_paths import CheckedGroup

_MODULE = "labels_commands"


class LabelsGroup(CheckedGroup):
    """The commands of :mod:`hiertree.pipelines.cli.labels_commands`, which is imported when one of them is named.

    So their list needs neither the time nor the packages that they need: it is read from the text of the module.
    """

    @cached_property
    def _docstrings(self) -> dict[str, str]:
        source = files(__package__).joinpath(f"{_MODULE}.py").read_text(encoding="utf-8")
        public = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name[0] != "_")
        return {node.name: ast.get_docstring(node) or "" for node in public}

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._docstrings)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._docstrings:
            return None
        command: click.Command = getattr(import_module(f".{_MODULE}", __package__), cmd_name)
        return command

    @override
    def described(self, name: str) -> click.Command:
        return click.Command(name, help=self._docstrings[name])


@click.group(cls=LabelsGroup)
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""
