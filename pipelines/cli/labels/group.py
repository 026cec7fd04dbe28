"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

from importlib import import_module

import click
from typing_extensions import override

from ..checked_paths import CheckedGroup

_MODULES = {  # in the order of work
    "scrape": "scrape",
    "status": "scrape",
    "retry": "scrape",
    "clean": "steps",
    "fill": "steps",
    "cluster": "steps",
    "review": "review",
    "agreement": "review",
    "export": "steps",
    "diff": "views",
    "tree": "views",
    "images": "steps",
    "build": "steps",
}


class LabelsGroup(CheckedGroup):
    """Commands whose modules load when one of them is named, so that ``hiertree --help`` need not wait for them."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(_MODULES)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        if cmd_name not in _MODULES:
            return None
        command: click.Command = getattr(import_module(f".{_MODULES[cmd_name]}", __package__), cmd_name)
        return command


@click.group(cls=LabelsGroup)
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""
