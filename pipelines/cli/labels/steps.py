"""The steps of ``hiertree labels``, each from a folder to a folder, and ``build``, all of them in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hiertree.errors import IncompleteScrapeError, OptionError

from ...labels.cleaning import CleanSettings, clean_step, describe_cleaning
from ...labels.cluster.step import ClusterSettings, cluster_step, describe_clustered
from ...labels.export.images import ImagesSettings, describe_images, images_step
from ...labels.export.step import ExportSettings, describe_exported, export_step
from ...labels.filling import FillSettings, describe_filling, fill_step
from ...labels.landmarks import ColumnNames
from ...labels.plan import LabelsPlan, read_plan
from ...labels.plan import build as run_plan
from ..checked_paths import INPUT_FILE, INPUT_FOLDER, INPUT_PATH, OUTPUT_FOLDER, command
from ..options import json_option, print_json, settings_options
from .scrape import FAILED

out_option = click.option(
    "--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier one is replaced."
)
instances_option = click.option(
    "--instances", type=INPUT_FILE, help="Table of scraped 'instance of' values; default: LANDMARKS itself."
)


@command(
    example="hiertree labels clean landmarks.csv --out cleaned", then="hiertree labels cluster {out} --out clustered"
)
@click.argument("landmarks", type=INPUT_FILE)
@instances_option
@click.option("--store", type=INPUT_FILE, help="Store of 'labels scrape' instead of a table.")
@out_option
@settings_options("settings", CleanSettings)
@settings_options("columns", ColumnNames)
@json_option
def clean(as_json: bool, landmarks: Path, **inputs: Any) -> None:
    """Keep the landmarks of LANDMARKS that have a label, and say why the others have none.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    _print(clean_step(landmarks, **inputs), describe_cleaning, as_json=as_json)


@command(
    example="hiertree labels fill cleaned --images photos --out filled",
    then="hiertree labels cluster {out} --out clustered",
)
@click.argument("cleaned", type=INPUT_FOLDER)
@out_option
@settings_options("settings", FillSettings)
@json_option
def fill(cleaned: Path, out: Path, settings: FillSettings, as_json: bool) -> None:
    """Give labels to the landmarks of CLEANED that have none, from what their images show.

    CLEANED is a folder made by 'labels clean'; the folder made is one for 'labels cluster'. All images of a landmark
    vote together, whatever split they are in.
    """
    _print(fill_step(cleaned, out=out, settings=settings), describe_filling, as_json=as_json)


@command(
    example="hiertree labels cluster cleaned --clusters 78 --out clustered",
    then="hiertree labels review {out} --annotator NAME",
)
@click.argument("cleaned", type=INPUT_FOLDER)
@out_option
@settings_options("settings", ClusterSettings)
@json_option
def cluster(cleaned: Path, out: Path, settings: ClusterSettings, as_json: bool) -> None:
    """Propose supercategories for the labels of CLEANED, a folder made by 'labels clean', for people to review."""
    found = cluster_step(cleaned, out=out, settings=settings)
    _print(found.quality, lambda _: describe_clustered(found), as_json=as_json)


@command(
    example="hiertree labels export clustered --review clustered-review-anna.jsonl --out exported",
    then="hiertree labels tree {out} --out tree.html",
)
@click.argument("clustered", type=INPUT_FOLDER)
@click.option("--review", type=INPUT_FILE, help="Log of a review or an adjudication; default: the proposal as it is.")
@settings_options("settings", ExportSettings)
@out_option
def export(clustered: Path, review: Path | None, settings: ExportSettings, out: Path) -> None:
    """Write CLUSTERED, a folder made by 'labels cluster', as a data set: table, tree, provenance, data card."""
    click.echo(describe_exported(export_step(clustered, out=out, review=review, settings=settings)))


@command(example="hiertree labels images exported --images photos --image-table train.csv --out listed")
@click.argument("export", type=INPUT_PATH)
@settings_options("settings", ImagesSettings)
@out_option
def images(export: Path, settings: ImagesSettings, out: Path) -> None:
    """List images with their labels of EXPORT and a split: a table to train on ('data: {name: table}').

    EXPORT is a folder made by 'labels export' or 'labels build', or a table in GLDv2's published columns. Whole
    landmarks are held out, some of every supercategory.
    """
    click.echo(describe_images(images_step(export, out=out, settings=settings)))


@command(
    example="hiertree labels build landmarks.csv --out labels",
    then="hiertree labels review {out}/clustered --annotator NAME",
)
@click.argument("source", metavar="LANDMARKS|PLAN", type=INPUT_FILE)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    help="Folder to make; an earlier build there is brought up to date. For labels.yaml the default is labels, beside "
    "it.",
)
@instances_option
@settings_options("cluster", ClusterSettings)
@settings_options("clean", CleanSettings)
@settings_options("columns", ColumnNames)
def build(source: Path, out: Path | None, **settings: Any) -> None:
    """Run every step from LANDMARKS to a tree in H-GLDv2's columns, or those of PLAN, into one folder.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.

    PLAN is a YAML file (labels.yaml) that names landmarks, settings and the log of a review. All settings but --out
    stand in it. Steps whose inputs have not changed are not run again.
    """
    if source.suffix in (".yaml", ".yml"):
        _refuse_settings()
        plan, out = read_plan(source), out or source.with_suffix("")
    elif out is None:
        raise click.UsageError("Missing option '--out'.")
    else:
        plan = LabelsPlan(landmarks=source, **settings)
    try:
        run_plan(plan, out=out, say=click.echo)
    except IncompleteScrapeError as error:
        click.echo(f"error: {error}", err=True)
        click.get_current_context().exit(FAILED)


def _refuse_settings() -> None:
    """Refuse options beside a plan, which would have no effect."""
    context = click.get_current_context()
    typed = (name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    lost = [name for name in typed if name not in ("source", "out")]
    if lost:
        raise OptionError(f"the option {lost[0]} beside a plan", expected="settings in the plan itself")


def _print(report: Mapping[str, Any], describe: Callable[[Mapping[str, Any]], str], *, as_json: bool) -> None:
    print_json(report) if as_json else click.echo(describe(report))
