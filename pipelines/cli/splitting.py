"""``hiertree split``: a column of splits for a table that has none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiertree.errors import OptionError, TableError

from .checked_paths import INPUT_FILE, NAME, OUTPUT_FILE, command
from .options import NAMES, SEED, choice

if TYPE_CHECKING:
    from hiertree.datasets.split_rows import HoldoutBy


@command(example="hiertree split images.csv --levels kind,landmark --val 0.1 --out images-split.csv")
@click.argument("table", type=INPUT_FILE)
@click.option("--levels", type=NAMES, required=True, help="The columns of labels, coarse → fine.")
@click.option("--test", type=float, default=0.5, help="The share that test holds.")
@click.option("--val", type=float, help="The share that val holds, for a validation.")
@choice("--by", ("classes", "images"), "Shares of the classes, or of the images of each class.", default="classes")
@click.option("--column", type=NAME, default="split", help="The column to write.")
@click.option("--seed", type=SEED, default=0, help="Of the draw.")
@click.option("--out", type=OUTPUT_FILE, required=True, help="The table with that column, a CSV file.")
def split(
    table: Path,
    levels: tuple[str, ...],
    test: float,
    val: float | None,
    by: HoldoutBy,
    column: str,
    seed: int,
    out: Path,
) -> None:
    """Write TABLE with a column that says train, val or test of every row.

    TABLE is a CSV or Parquet file of images. By classes, no class is in two splits, as in retrieval of classes that
    were never seen in training. By images, every class is divided, and train holds some of its images.
    """
    from hiertree.datasets.split_rows import draw_parts
    from hiertree.io.tables import read_table, write_table

    if out.suffix.lower() != ".csv":
        raise OptionError(f"out={str(out)!r}", expected="a name that ends in .csv")
    read = read_table(table, required=levels, needs_rows=True)
    if column in read.columns:
        given = f"{table} has a column {column!r}"
        raise TableError(given, expected="none", remedy="name another by --column")
    classes = list(zip(*(read[level] for level in levels), strict=True))
    parts = draw_parts(classes, {"test": test} | ({} if val is None else {"val": val}), by=by, seed=seed)
    rows = ((*cells, part) for cells, part in zip(read.itertuples(index=False), parts, strict=True))
    write_table(out, [*read.columns, column], rows)
    images, present = Counter(parts), Counter(part for part, _ in set(zip(parts, classes, strict=True)))
    for part in ("train", *(("val",) if val is not None else ()), "test"):
        click.echo(f"{part}: {images[part]} images of {present[part]} classes")
