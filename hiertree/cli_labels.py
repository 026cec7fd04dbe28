"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

import click

from hiertree.cli_build import build
from hiertree.cli_clean import clean
from hiertree.cli_cluster import cluster
from hiertree.cli_export import diff, export
from hiertree.cli_fill import fill
from hiertree.cli_images import images
from hiertree.cli_review import agreement, review
from hiertree.cli_scrape import retry, scrape, status
from hiertree.cli_tree import tree


@click.group()
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""


for command in (build, clean, fill, cluster, review, agreement, scrape, retry, status, export, images, diff, tree):
    labels.add_command(command)
