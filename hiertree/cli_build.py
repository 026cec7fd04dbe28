"""``hiertree labels build``: every step in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hiertree.cli_options import (
    FILE,
    OUT_FOLDER,
    ColumnOptions,
    EncoderOptions,
    clusters_option,
    column_options,
    encoder_options,
    multi_option,
    number_or_auto,
    seed_option,
    separator_option,
)


@click.command()
@click.argument("landmarks", type=FILE)
@click.option("--out", type=OUT_FOLDER, required=True, help="Folder to make; an earlier build there is replaced.")
@click.option("--instances", type=FILE, help="Table of scraped 'instance of' values; default: LANDMARKS itself.")
@encoder_options
@clusters_option
@seed_option
@multi_option
@separator_option
@column_options
def build(
    landmarks: Path,
    out: Path,
    instances: Path | None,
    embedding: EncoderOptions,
    clusters: str,
    seed: int,
    multi: Any,
    separator: str,
    columns: ColumnOptions,
) -> None:
    """Clean, embed, cluster and name the types of LANDMARKS; write them as a tree in H-GLDv2's columns.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from hiertree.pipelines import labels as pipeline

    result = pipeline.build(
        landmarks,
        out=out,
        instances=instances,
        encoder=embedding.build(),
        clusters=number_or_auto("--clusters", clusters),
        seed=seed,
        multi=multi,
        separator=separator,
        columns=columns.columns(),
    )
    click.echo(pipeline.describe(result))
