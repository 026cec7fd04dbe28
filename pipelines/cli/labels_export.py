"""``hiertree labels export`` and ``diff``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .checked_paths import INPUT_FILE, INPUT_FOLDER, INPUT_PATH, OUTPUT_FILE, OUTPUT_FOLDER, command
from .options import json_option


@command()
@click.argument("clustered", type=INPUT_FOLDER)
@click.option("--review", type=INPUT_FILE, help="Log of a review or an adjudication; default: the proposal as it is.")
@click.option("--split", default="", help="Call the table SPLIT_label_to_hierarchical.csv, as GLDv2 does.")
@click.option("--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier export there is replaced.")
def export(clustered: Path, review: Path | None, split: str, out: Path) -> None:
    """Write CLUSTERED, a folder made by 'labels cluster', as a data set: table, tree, provenance, data card."""
    from ..labels import describe_exported, steps

    click.echo(describe_exported(steps.export_step(clustered, out=out, review=review, split=split)))


@command()
@click.argument("a", type=INPUT_PATH)
@click.argument("b", type=INPUT_PATH)
@click.option("--out", type=OUTPUT_FILE, help="CSV of the landmarks that differ.")
@json_option
def diff(a: Path, b: Path, out: Path | None, as_json: bool) -> None:
    """Say what changed from A to B, two exports: landmarks, labels, supercategories, kinds.

    A and B are folders made by 'labels export' or 'labels build', or tables in GLDv2's published columns.
    """
    from ..labels.export.differences import compare, describe_differences

    found = compare(a, b, table=out)
    click.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else describe_differences(found))
