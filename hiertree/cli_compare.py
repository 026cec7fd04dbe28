"""The command that trains several recipes and tabulates them: ``hiertree compare``."""

from __future__ import annotations

from pathlib import Path

import click

from hiertree.cli_options import OUT_FOLDER, listed
from hiertree.errors import OptionError


@click.command()
@click.argument("recipes", nargs=-1, required=True)
@click.option("--seeds", default="0", show_default=True, help="Seeds, separated by commas.")
@click.option("--out", type=OUT_FOLDER, required=True, help="Folder of the runs and the table.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, for every recipe.")
@click.option(
    "--grid", multiple=True, metavar="KEY=V1,V2,…", help="Values to try; several grids: every combination, a row each."
)
@click.option(
    "--against", metavar="ROW", help="Recipe or row that the others are tested against; default: the first row."
)
@click.option(
    "--published/--no-published",
    default=True,
    show_default=True,
    help="What papers report for a built-in recipe, below its rows.",
)
def compare(
    recipes: tuple[str, ...],
    seeds: str,
    out: Path,
    overrides: tuple[str, ...],
    grid: tuple[str, ...],
    against: str | None,
    published: bool,
) -> None:
    """Train RECIPES with each seed and tabulate mean ± standard deviation; finished runs are not run again.

    The table is written as Markdown, LaTeX, HTML and JSON, with the runs as CSV; rows that differ from a reference by a
    paired test on the values of the queries are marked.
    """
    from hiertree.pipelines.compare import compare as run
    from hiertree.pipelines.comparison.grid import read_grid

    run(
        recipes,
        seeds=_integers("--seeds", seeds),
        out=out,
        overrides=overrides,
        grid=read_grid(grid),
        against=against,
        published=published,
    )
    click.echo((out / "comparison.md").read_text(encoding="utf-8").rstrip())


def _integers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in listed(text)]
    except ValueError:
        raise OptionError(f"{option} {text}", expected="integers separated by commas") from None
