"""The command that makes a page of what was measured: ``hiertree report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hiertree.cli_evaluate import labels_option, levels_option
from hiertree.cli_options import ANY_PATH, FILE, listed


@click.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=FILE, default=Path("report.html"), show_default=True, help="The HTML file.")
@click.option("--title", default="Retrieval report", show_default=True, help="Of the page.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="data.root=PATH where a run's images have moved."
)
@click.option("--queries", default=3, show_default=True, help="Of the best, the middling and the worst, each.")
@click.option("--hits", default=8, show_default=True, help="Images shown of each ranking.")
@labels_option
@levels_option
@click.option("--gallery", type=FILE, help="Embeddings of a separate gallery.")
@click.option("--gallery-labels", type=FILE, help="Their table of labels.")
@click.option("--ids", metavar="COLUMN", help="No query retrieves an item with the same value there.")
@click.option("--images", type=ANY_PATH, help="Folder in which the ids are names of image files.")
@click.option(
    "--protocol",
    type=click.Choice(["sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "inshop"]),
    help="A benchmark: its metrics and its rules, for embeddings.",
)
def report(
    sources: tuple[Path, ...],
    out: Path,
    title: str,
    overrides: tuple[str, ...],
    queries: int,
    hits: int,
    levels: str,
    **given: Any,
) -> None:
    """Make one self-contained HTML page of SOURCES: metrics, queries, classes, retrievals, learning curves.

    SOURCES are folders of finished runs or of comparisons, on the same images, or one file of embeddings, with labels
    as for evaluate. Where the images are not there, the page says so and shows the rest.
    """
    from hiertree.pipelines.report import Beside
    from hiertree.pipelines.report import report as run

    beside = Beside(levels=tuple(listed(levels)), **given)
    click.echo(run(sources, out, title=title, overrides=overrides, beside=beside, queries=queries, hits=hits))
