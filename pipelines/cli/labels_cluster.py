"""``hiertree labels cluster``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .checked_paths import INPUT_FOLDER, OUTPUT_FOLDER, TABLE_COLUMN, command
from .options import (
    EncoderOptions,
    clusters_option,
    encoder_options,
    json_option,
    number_or_auto,
    seed_option,
)


@command()
@click.argument("cleaned", type=INPUT_FOLDER)
@click.option("--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier one is replaced.")
@encoder_options
@clusters_option
@seed_option
@click.option("--restarts", type=int, default=20, show_default=True, help="Of k-means; the best is taken.")
@click.option("--levels", type=int, default=0, show_default=True, help="Levels of groups above the clusters.")
@click.option("--scan", is_flag=True, help="Compare numbers of clusters by silhouette and stability, and draw both.")
@click.option(
    "--reference",
    "references",
    type=TABLE_COLUMN,
    multiple=True,
    metavar="TABLE:COLUMN",
    help="Classes of labels to compare with.",
)
@json_option
def cluster(
    cleaned: Path,
    out: Path,
    embedding: EncoderOptions,
    clusters: str,
    seed: int,
    restarts: int,
    levels: int,
    scan: bool,
    references: tuple[str, ...],
    as_json: bool,
) -> None:
    """Propose supercategories for the labels of CLEANED, a folder made by 'labels clean', for people to review."""
    from ..labels import describe_clustered, steps

    settings = steps.ClusterSettings(
        clusters=number_or_auto("--clusters", clusters), seed=seed, restarts=restarts, levels=levels, scan=scan
    )
    found = steps.cluster_step(cleaned, out=out, encoder=embedding.build(), settings=settings, references=references)
    click.echo(json.dumps(found.quality, indent=2, ensure_ascii=False) if as_json else describe_clustered(found))
