"""The group ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

import click

from .labels_build import build
from .labels_clean import clean
from .labels_cluster import cluster
from .labels_export import diff, export
from .labels_fill import fill
from .labels_images import images
from .labels_review import agreement, review
from .labels_scrape import retry, scrape, status
from .labels_tree import tree


@click.group()
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""


for command in (build, clean, fill, cluster, review, agreement, scrape, retry, status, export, images, diff, tree):
    labels.add_command(command)
