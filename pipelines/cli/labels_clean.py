"""``hiertree labels clean``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from .checked_paths import INPUT_FILE, OUTPUT_FOLDER, command
from .options import (
    ColumnOptions,
    column_options,
    json_option,
    multi_option,
    separator_option,
)


@command()
@click.argument("landmarks", type=INPUT_FILE)
@click.option("--instances", type=INPUT_FILE, help="Table of scraped 'instance of' values; default: LANDMARKS itself.")
@click.option("--store", type=INPUT_FILE, help="Store of 'labels scrape' instead of a table.")
@click.option("--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier one is replaced.")
@multi_option
@separator_option
@column_options
@json_option
def clean(
    landmarks: Path,
    instances: Path | None,
    store: Path | None,
    out: Path,
    multi: Any,
    separator: str,
    columns: ColumnOptions,
    as_json: bool,
) -> None:
    """Keep the landmarks of LANDMARKS that have a label, and say why the others have none.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from ..labels import describe_cleaning, steps

    settings = steps.CleanSettings(multi, separator, columns.columns())
    report = steps.clean_step(landmarks, out=out, instances=instances, store=store, settings=settings)
    click.echo(json.dumps(report, indent=2, ensure_ascii=False) if as_json else describe_cleaning(report))
