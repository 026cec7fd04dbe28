"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

from importlib import import_module

import click

from .checked_paths import CheckedGroup, group

MODULES = {
    "build": "labels_build",
    "clean": "labels_clean",
    "fill": "labels_fill",
    "cluster": "labels_cluster",
    "review": "labels_review",
    "agreement": "labels_review",
    "scrape": "labels_scrape",
    "retry": "labels_scrape",
    "status": "labels_scrape",
    "export": "labels_export",
    "images": "labels_images",
    "diff": "labels_export",
    "tree": "labels_tree",
}


class LabelsGroup(CheckedGroup):
    """Imports the module of a command only when the command is needed, so that other commands start fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, sorted."""
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name."""
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(import_module(f".{MODULES[cmd_name]}", __package__), cmd_name)
        return command


@group(cls=LabelsGroup)
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""
