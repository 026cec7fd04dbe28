"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

from importlib import import_module

import click

from ..checked_paths import CheckedGroup, group

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

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands."""
        return list(_MODULES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name, or None."""
        if name not in _MODULES:
            return None
        command: click.Command = getattr(import_module(f".{_MODULES[name]}", __package__), name)
        return command


@group(cls=LabelsGroup)
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""
