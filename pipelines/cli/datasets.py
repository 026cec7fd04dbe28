"""``hiertree datasets`` lists, checks and downloads benchmarks; ``hiertree split`` divides a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hiertree as ht
from hiertree.errors import OptionError, TableError, spelled_remedy

from .checked_paths import (
    GROWING_FOLDER,
    INPUT_FILE,
    INPUT_PATH,
    NAME,
    OUTPUT_FILE,
    CheckedGroup,
    command,
    spell_option,
)
from .options import NAMES, SEED, choice, flag, json_option, option, print_json

if TYPE_CHECKING:
    from hiertree.datasets import Benchmark, SplitReport
    from hiertree.datasets.splits import HoldoutBy
    from hiertree.options import Uneven

_SHOWN = ("name", "title", "levels", "protocol", "splits", "license", "url", "steps", "downloads")
split_option = click.option(
    "--split", "splits", type=NAME, multiple=True, help="One split; may be repeated. Default: all."
)
structure_option = flag("--structure", "Do not compare sizes with the published ones: for a part of a benchmark.")


@click.group(cls=CheckedGroup)
def datasets() -> None:
    """Benchmarks, read in their published formats."""


@datasets.command("list", example="hiertree datasets list")
@json_option
def list_all(as_json: bool) -> None:
    """List the benchmarks: levels, published sizes, license, address."""
    cards = [ht.datasets.describe(name) for name in ht.datasets.available()]
    print_json(list(map(_card, cards))) if as_json else click.echo("\n\n".join(map(_card_text, cards)))


@datasets.command(example="hiertree datasets check sop ~/data/Stanford_Online_Products")
@click.argument("name")
@click.argument("root", type=INPUT_PATH)
@split_option
@structure_option
@flag("--decode", "Also decode every image.")
@json_option
def check(name: str, root: Path, splits: tuple[str, ...], structure: bool, decode: bool, as_json: bool) -> None:
    """Look for every list and every image of benchmark NAME in ROOT, and compare sizes with the published ones.

    Ends with status 1 if anything is missing. imagededup finds copies of an image under other names.
    """
    verify: Any = "structure" if structure else "published"
    reports = ht.datasets.check(name, root, splits=splits, verify=verify, decode=decode)
    if as_json:
        print_json([{**asdict(report), "sound": report.sound} for report in reports])
    else:
        rows = [("split", "images", "nodes by level", "found")]
        for report in reports:
            sizes = " → ".join(f"{size:,}" for size in report.level_sizes)
            rows.append((report.split, f"{report.images:,}", sizes, _found(report)))
        click.echo(_aligned(rows, right=(1,)))
        spell = partial(spell_option, click.get_current_context().command)
        remedies = (spelled_remedy(report.remedy, report.choose, spell) for report in reports)
        for remedy in filter(None, dict.fromkeys(remedies)):
            click.echo(f"remedy: {remedy}")
    if not all(report.sound for report in reports):
        click.get_current_context().exit(1)


@datasets.command(example="hiertree datasets download sop ~/data")
@click.argument("name")
@click.argument("root", type=GROWING_FOLDER)
@click.option("--mirror", help="Another address with files of the same names; the checksums stay the published ones.")
def download(name: str, root: Path, mirror: str | None) -> None:
    """Download NAME into ROOT if its license and a stable address allow it; else print how to get it.

    An interrupted download goes on where it stopped. No other command downloads data sets.
    """
    card = ht.datasets.describe(name)
    click.echo(f"{card.title}: {card.url}\nlicense: {card.license}")
    if not card.downloads:
        click.echo(_numbered(card.steps))
        return
    for path, state in ht.datasets.download(card, root, mirror=mirror):
        hint = f", unpacked earlier; to fetch it again, remove {root / f'.{path.name}.unpacked'}"
        click.echo(f"{path}{hint if state == 'unpacked' else f': {state}, its MD5 as published'}")
    if card.by_hand:
        click.echo("left to do by hand:\n" + _numbered(card.by_hand))
    click.echo(f"to look for every image: hiertree datasets check {name} {root}")


def _card(card: Benchmark) -> dict[str, Any]:
    splits = {split: asdict(counts) for split, counts in card.splits.items()}
    fields = {name: getattr(card, name) for name in _SHOWN}
    return {**fields, "splits": splits, "downloads": [asdict(file) for file in card.downloads]}


def _found(report: SplitReport) -> str:
    """The problem with three examples, or that everything is there."""
    if report.problem:
        return report.problem
    if report.bad_images:
        return f"{len(report.bad_images):,} images bad: {', '.join(report.bad_images[:3])}"
    return "all"


def _card_text(card: Benchmark) -> str:
    """A few lines about a benchmark; ≈ stands before what was published in thousands."""
    sizes = []
    for split, counts in card.splits.items():
        images = "" if counts.images is None else f"{'≈ ' * bool(counts.within)}{counts.images:,} images"
        classes = "" if counts.classes is None else f"{counts.classes:,} classes"
        sizes.append(f"{split} {' of '.join(filter(None, (images, classes)))}".rstrip())
    fetched = "hiertree datasets download" if card.downloads else "by hand"
    lines = (
        f"{card.name}: {card.title}, {' → '.join(card.levels)}",
        f"  splits   {'; '.join(sizes)}",
        f"  license  {card.license}",
        f"  from     {card.url} ({fetched})",
    )
    return "\n".join(lines)


def _aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int]) -> str:
    """Rows in columns of equal width; the named columns are right-aligned."""
    columns = [
        [cell.rjust(width) if index in right else cell.ljust(width) for cell in column]
        for index, column in enumerate(zip(*rows, strict=True))
        for width in [max(map(len, column))]
    ]
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))


def _numbered(steps: Sequence[str]) -> str:
    return "\n".join(f"{count}. {step}" for count, step in enumerate(steps, start=1))


@command(example="hiertree split images.csv --levels kind,landmark --val 0.1 --out images-split.csv")
@click.argument("table", type=INPUT_FILE)
@option("--levels", NAMES, "The columns of labels, coarse → fine.", required=True)
@option("--test", float, "Share of the test split.", default=0.5)
@option("--val", float, "Share of the val split, for a validation.")
@choice("--by", ("classes", "images"), "Shares of the classes, or of the images of each class.", default="classes")
@choice("--uneven", ["error", "pad", "truncate", "unknown"], "What empty last labels mean.", default="error")
@option("--column", NAME, "The column to write.", default="split")
@option("--seed", SEED, "Seed of the draw.", default=0)
@option("--out", OUTPUT_FILE, "CSV file to write: the table with that column.", required=True)
def split(
    table: Path,
    levels: tuple[str, ...],
    test: float,
    val: float | None,
    by: HoldoutBy,
    uneven: Uneven,
    column: str,
    seed: int,
    out: Path,
) -> None:
    """Write TABLE with a column that says train, val or test of every row.

    TABLE is a CSV or Parquet file of images. By classes, no class is in two splits, as in retrieval of classes that
    were never seen in training. By images, every class is divided, and train holds some of its images. What training
    refuses, such as an empty label, is refused here.
    """
    from hiertree.datasets.splits import draw_splits
    from hiertree.io.tables import line_names, read_table, write_table
    from hiertree.tree.label_rows import plain_label
    from hiertree.tree.label_tree import label_paths

    if out.suffix.lower() != ".csv":
        raise OptionError(f"out={str(out)!r}", expected="a name that ends in .csv")
    frame = read_table(table, required=levels, needs_rows=True)
    if column in frame.columns:
        problem = f"{table} has a column {column!r}"
        raise TableError(problem, expected="a new column name", remedy="choose another with --column")
    columns = [frame[level].to_numpy(dtype=object) for level in levels]
    label_paths(columns, levels, line_names(frame, table), leaf="path", uneven=uneven)
    classes = [tuple(map(plain_label, row)) for row in zip(*columns, strict=True)]
    splits = draw_splits(classes, {"test": test} | ({} if val is None else {"val": val}), by=by, seed=seed)
    rows = ((*cells, name) for cells, name in zip(frame.itertuples(index=False), splits, strict=True))
    write_table(out, [*frame.columns, column], rows)
    images, class_counts = Counter(splits), Counter(name for name, _ in set(zip(splits, classes, strict=True)))
    for name in ("train", *(("val",) if val is not None else ()), "test"):
        click.echo(f"{name}: {images[name]} images of {class_counts[name]} classes")
