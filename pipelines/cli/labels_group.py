"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

from importlib import import_module

import click

from .checked_paths import CheckedGroup, group

_MODULES = {
    "labels_steps": ("build", "clean", "fill", "cluster", "export", "images"),
    "labels_views": ("diff", "tree"),
    "labels_review": ("review", "agreement"),
    "labels_scrape": ("scrape", "retry", "status"),
}


class LabelsGroup(CheckedGroup):
    """Commands whose modules load when one of them is named, so that ``hiertree --help`` need not wait for them."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands."""
        return sorted(name for names in _MODULES.values() for name in names)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name, or None."""
        for module, names in _MODULES.items():
            if name in names:
                command: click.Command = getattr(import_module(f".{module}", __package__), name)
                return command
        return None


@group(cls=LabelsGroup)
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""
