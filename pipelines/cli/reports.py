"""The commands that make or serve a page: ``hiertree report``, ``browse`` and ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hiertree.errors import require_package
from hiertree.evaluation_options import Conventions

from .checked_paths import GROWING_FOLDER, INPUT_FOLDER, INPUT_PATH, NAME, OUTPUT_FILE, command
from .evaluation import gallery_labels_option, gallery_option, labels_option, levels_option, uneven_option
from .options import COUNT, SEED, field_options, flag, no_browser_option, option, port_option, set_option


@command(example="hiertree report runs/first runs/second --out report.html")
@click.argument("sources", nargs=-1, required=True, type=INPUT_PATH)
@option("--out", OUTPUT_FILE, "The HTML file.", default=Path("report.html"))
@click.option("--title", default="Retrieval report", help="Title of the page.")
@set_option("data.root=PATH where a run's images have moved.")
@option("--queries", COUNT, "How many of the worst, median and best queries to show, each.", default=3)
@option("--hits", COUNT, "Images to show of each ranking.", default=8)
@click.option(
    "--map",
    "projection",
    type=click.Choice(["pca", "t-sne", "class-means"]),
    default="pca",
    help="What the map shows: the queries by PCA or t-SNE, or the mean of each class by t-SNE.",
)
@labels_option
@levels_option
@uneven_option
@gallery_option
@gallery_labels_option
@option("--ids", NAME, "No query retrieves an item with the same value there.", metavar="COLUMN")
@option("--images", INPUT_FOLDER, "Folder in which the ids are names of image files.")
@field_options(Conventions, "protocol")
def report(sources: tuple[Path, ...], out: Path, **options: Any) -> None:
    """Make one self-contained HTML page of SOURCES: metrics, queries, classes, errors, map, retrievals, learning.

    SOURCES are folders of finished runs or of comparisons, on the same images, or one file or folder of embeddings,
    as for evaluate. Where the images are not there, the page says so and shows the rest.
    """
    from ..report import EmbeddingsOptions, make_report

    of_embeddings: Any = {name: options.pop(name) for name in EmbeddingsOptions.__annotations__ if name in options}
    make_report(sources, out, options=of_embeddings, **options)


@command(example="hiertree browse embedded")
@click.argument("sources", nargs=-1, required=True, type=INPUT_PATH)
@option("--images", INPUT_FOLDER, "Folder of the images; default: where they were embedded from.")
@port_option
@no_browser_option
def browse(sources: tuple[Path, ...], images: Path | None, port: int, no_browser: bool) -> None:
    """Click an image and see its nearest neighbors, colored by level, on a local page, until Ctrl-C.

    SOURCES are runs, folders that embed wrote, or files of embeddings, one for each model, all of the same images.
    """
    require_package("starlette", "uvicorn", extra="labels")
    from ..browse.embedded_images import read_embedded
    from ..browse.server import serve

    serve(read_embedded(sources, images=images), port=port, open_browser=not no_browser, say=click.echo)


@command(example="hiertree demo")
@option("--out", GROWING_FOLDER, "Folder for everything it makes.", default=Path("hiertree-demo"))
@option("--data", INPUT_PATH, "Omniglot (zip, npz or folder) instead of the drawn images.")
@option("--seed", SEED, "Seed of the clusters, the images and both trainings.", default=0)
@flag("--quick", "A few steps only: to see that everything runs.")
@flag("--fresh", "Train again even if a finished run exists.")
def demo(out: Path, data: Path | None, seed: int, quick: bool, fresh: bool) -> None:
    """Landmark ids to labels, images to a trained HAPPIER model, and a page that shows both. Offline, in minutes."""
    require_package("faiss", "lightning_fabric", "matplotlib", "sklearn", "timm", "torch", "torchvision", extra="all")
    from ..demo import run_demo

    run_demo(out, data=data, seed=seed, quick=quick, fresh=fresh)
