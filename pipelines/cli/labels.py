"""``hiertree labels``: from landmark ids to types, and from types to a hierarchy, in the order of work."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from hiertree.errors import IncompleteScrapeError, OptionError

from ..hub import upload
from ..labels import check_packages
from ..labels.settings import (
    CleanSettings,
    ClusterSettings,
    ColumnNames,
    ExportSettings,
    FillSettings,
    ImageFolderSettings,
    ImagesSettings,
    ScrapeSettings,
    TreeSettings,
)
from .checked_paths import (
    GROWING_FILE,
    INPUT_FILE,
    INPUT_FOLDER,
    INPUT_PATH,
    LOG_FILE,
    NO_NEXT,
    OUTPUT_FILE,
    OUTPUT_FOLDER,
    CheckedGroup,
    DeclaredPath,
)
from .options import (
    hub_option,
    json_option,
    no_browser_option,
    port_option,
    print_report,
    settings_options,
    typed_options,
)

TABLE = click.option("--table", type=OUTPUT_FILE, help="CSV to write for 'labels build --instances'.")
STORE = click.option("--store", type=GROWING_FILE, required=True, help="SQLite file; made if it does not exist.")
LOG = click.option("--json-lines", "log", type=LOG_FILE, help="Log to append to; - for the terminal.")
OUT = click.option("--out", type=OUTPUT_FOLDER, required=True, help="Folder to make; an earlier one is replaced.")
INSTANCES = click.option(
    "--instances", type=INPUT_FILE, help="Table of scraped 'instance of' values; default: LANDMARKS itself."
)
PAGE = DeclaredPath("output", "file", siblings=(".svg",))
FAILED = 3  # the status with which a command ends that left landmarks without an answer


@click.group(cls=CheckedGroup)
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""


command = partial(labels.command, check_packages=check_packages)


@command(
    example="hiertree labels scrape train_label_to_category.csv --store store.sqlite --contact you@university.edu",
    then="hiertree labels clean {landmarks} --store {store} --out cleaned",
)
@click.argument("landmarks", type=INPUT_FILE)
@STORE
@settings_options("columns", ColumnNames, leave_out=("instance_of", "item_ids"))
@TABLE
@settings_options("settings", ScrapeSettings)
@LOG
def scrape(**options: Any) -> None:
    """Ask Wikimedia what the landmarks of LANDMARKS are instances of; an interrupted run continues where it stopped.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    _scrape(**options)


@command(
    example="hiertree labels hypernyms cleaned --store store.sqlite --contact you@university.edu",
    then="hiertree labels cluster {landmarks} --hypernyms {store} --out clustered",
)
@click.argument("landmarks", metavar="CLEANED", type=INPUT_FOLDER)
@STORE
@settings_options("settings", ScrapeSettings, leave_out=("source",))
@LOG
def hypernyms(**options: Any) -> None:
    """Ask Wikidata what stands above the labels of CLEANED, as far as STORE does not know: what they are subclasses of.

    CLEANED is a folder that 'labels clean' made of a table with Wikidata ids; 'labels scrape' asks for this by itself.
    """
    _scrape(**options)


@command(example="hiertree labels status store.sqlite")
@click.argument("store", type=INPUT_FILE)
@TABLE
@json_option
def status(store: Path, table: Path | None, as_json: bool) -> None:
    """Report how far the scrape in STORE has come, even while it runs, and why landmarks have no label."""
    from ..labels import scrape as pipeline

    print_report(pipeline.status(store, table=table), pipeline.describe_status, as_json=as_json)


@command(example="hiertree labels retry store.sqlite --contact you@university.edu")
@click.argument("store", type=GROWING_FILE)
@TABLE
@settings_options("settings", ScrapeSettings, leave_out=("refresh_older_than",))
@LOG
def retry(**options: Any) -> None:
    """Ask again for what failed in STORE, and for what it still lacks."""
    _scrape(None, failed_too=True, **options)


@command(
    example="hiertree labels clean landmarks.csv --out cleaned", then="hiertree labels cluster {out} --out clustered"
)
@click.argument("landmarks", type=INPUT_FILE)
@INSTANCES
@click.option("--store", type=INPUT_FILE, help="Store of 'labels scrape' instead of a table.")
@OUT
@settings_options("settings", CleanSettings)
@settings_options("columns", ColumnNames)
@json_option
def clean(as_json: bool, landmarks: Path, **inputs: Any) -> None:
    """Keep the landmarks of LANDMARKS that have a label, and say why the others have none.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from ..labels.cleaning import check_kept, clean_step, describe_cleaning

    report = clean_step(landmarks, **inputs)
    print_report(report, describe_cleaning, as_json=as_json)
    check_kept(report, inputs["out"])


@command(
    example="hiertree labels fill cleaned --images photos --out filled",
    then="hiertree labels cluster {out} --out clustered",
)
@click.argument("cleaned", type=INPUT_PATH)
@OUT
@settings_options("settings", FillSettings)
@json_option
def fill(cleaned: Path, out: Path, settings: FillSettings, as_json: bool) -> None:
    """Give labels to the landmarks of CLEANED that have none, from what their images show.

    CLEANED is a folder made by 'labels clean'; the folder made is one for 'labels cluster'. All images of a landmark
    vote together, whatever split they are in.
    """
    from ..labels.filling import describe_filling, fill_step

    print_report(fill_step(cleaned, out=out, settings=settings), describe_filling, as_json=as_json)


@command(
    example="hiertree labels cluster cleaned --clusters 78 --out clustered",
    then="hiertree labels review {out} --annotator NAME",
)
@click.argument("cleaned", type=INPUT_PATH)
@OUT
@settings_options("settings", ClusterSettings)
@json_option
def cluster(cleaned: Path, out: Path, settings: ClusterSettings, as_json: bool) -> None:
    """Propose supercategories for the labels of CLEANED, a folder made by 'labels clean', for people to review."""
    from ..labels.cluster.step import cluster_step, describe_clustered

    clusters = cluster_step(cleaned, out=out, settings=settings)
    print_report(clusters.quality, lambda _: describe_clustered(clusters), as_json=as_json)


@command(
    example="hiertree labels review clustered --annotator anna",
    then="hiertree labels export {clustered} --{outcome} {log} --out exported",
)
@click.argument("clustered", type=INPUT_PATH)
@click.option("--annotator", required=True, help="Name of the reviewer; each has a log.")
@click.option("--log", type=GROWING_FILE, help="JSON lines to append to; default: CLUSTERED-review-ANNOTATOR.jsonl.")
@settings_options("photos", ImageFolderSettings)
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    help="Certain labels to check first in a new log; as many as show, if none is wrong, that at most 5 % are.",
)
@click.option("--table", type=OUTPUT_FILE, help="CSV to write instead of the page, for 'labels export --edited'.")
@port_option
@no_browser_option
def review(
    clustered: Path,
    photos: ImageFolderSettings,
    port: int,
    no_browser: bool,
    table: Path | None,
    **options: Any,
) -> None:
    """Rename, merge, split and approve the clusters in CLUSTERED on a local page, until Ctrl-C.

    CLUSTERED is a folder that 'labels cluster' made. Every action is on the disk before the page shows it; the same
    command goes on where the log ends.
    """
    from ..labels.landmark_images import image_folder
    from ..labels.review.serving import open_review, serve, write_table_of

    if table is not None:
        click.echo(write_table_of(clustered, table, log=options["log"], sample=options["sample"]))
        click.get_current_context().params |= {"outcome": "edited", "log": table, "table": None}
        return
    cluster_review = open_review(clustered, images=image_folder(photos), **options)
    serve(cluster_review, port=port, open_browser=not no_browser, say=click.echo)
    log = cluster_review.session.log.path  # the default one is named, too
    click.get_current_context().params |= {"outcome": "review", "log": log}


@command(example="hiertree labels agreement clustered review-anna.jsonl review-ben.jsonl")
@click.argument("clustered", type=INPUT_PATH)
@click.argument("log_a", type=INPUT_FILE)
@click.argument("log_b", type=INPUT_FILE)
@json_option
@click.option("--out", type=OUTPUT_FILE, help="JSON file for the numbers, the differences and their provenance.")
def agreement(clustered: Path, log_a: Path, log_b: Path, as_json: bool, out: Path | None) -> None:
    """Say how far the reviews in LOG_A and LOG_B, logs or edited tables, agree, and list what they differ in."""
    from ..labels.review.agreement import agreement_report, describe_agreement

    print_report(agreement_report(clustered, log_a, log_b, out=out), describe_agreement, as_json=as_json)


@command(
    example="hiertree labels export clustered --review clustered-review-anna.jsonl --out exported",
    then="hiertree labels tree {out} --out tree.html",
)
@click.argument("clustered", type=INPUT_FOLDER)
@click.option("--review", type=INPUT_FILE, help="Log of a review; default: the proposal as it is.")
@click.option("--edited", type=INPUT_FILE, help="Table of 'labels review --table' as people left it, instead of a log.")
@settings_options("settings", ExportSettings)
@OUT
@hub_option
def export(
    clustered: Path,
    review: Path | None,
    edited: Path | None,
    settings: ExportSettings,
    out: Path,
    push_to_hub: str | None,
) -> None:
    """Write CLUSTERED, a folder made by 'labels cluster', as a data set: table, tree, provenance, data card."""
    from ..labels.export.step import describe_exported, export_step

    if review and edited:
        raise OptionError("--review with --edited", expected="the log of a review or an edited table")
    review = review or edited
    click.echo(describe_exported(export_step(clustered, out=out, review=review, settings=settings)))
    if push_to_hub:
        click.echo(upload(out, push_to_hub, kind="dataset", message="Add labels by hiertree"))


@command(example="hiertree labels tree exported --out tree.html")
@click.argument("export", type=INPUT_FOLDER)
@click.option("--out", type=PAGE, required=True, help="HTML file; a drawing, .svg, is put beside it.")
@settings_options("settings", TreeSettings)
def tree(export: Path, out: Path, settings: TreeSettings) -> None:
    """Show the tree of EXPORT as a page to explore and search, and as a drawing.

    EXPORT is a folder made by 'labels export' or 'labels build'. The page is one file that needs nothing else.
    """
    from ..labels.export.tree_page import show_tree

    show_tree(export, out=out, settings=settings)


@command(example="hiertree labels images exported --images photos --image-table train.csv --out listed")
@click.argument("export", type=INPUT_PATH)
@settings_options("settings", ImagesSettings)
@OUT
def images(export: Path, settings: ImagesSettings, out: Path) -> None:
    """List images with their labels from EXPORT and a split: a table to train on ('data: {name: table}').

    EXPORT is a folder made by 'labels export' or 'labels build', or a table in GLDv2's published columns. Whole
    landmarks are held out, some of every supercategory.
    """
    from ..labels.export.images import describe_images, images_step

    click.echo(describe_images(images_step(export, out=out, settings=settings)))


@command(
    example="hiertree labels build landmarks.csv --out labels",
    then="hiertree labels review {out}/clustered --annotator NAME",
)
@click.argument("source", metavar="LANDMARKS|PLAN", type=INPUT_FILE)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    help="Folder to make; an earlier build there is brought up to date. Default for labels.yaml: labels, beside it.",
)
@INSTANCES
@settings_options("cluster", ClusterSettings)
@settings_options("clean", CleanSettings)
@settings_options("export", ExportSettings)
@settings_options("columns", ColumnNames)
def build(source: Path, out: Path | None, **settings: Any) -> None:
    """Run every step from LANDMARKS to a tree in H-GLDv2's columns, or those of PLAN, into one folder.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.

    PLAN is a YAML file (labels.yaml) that names landmarks, settings and the log of a review. All settings but --out
    stand in it. Steps whose inputs have not changed are not run again.
    """
    from ..labels.plan import LabelsPlan, read_plan
    from ..labels.plan import build as run_plan

    if source.suffix in (".yaml", ".yml"):
        if conflicts := [name for name in typed_options() if name not in ("source", "out")]:
            raise OptionError(f"the option {conflicts[0]} with a plan", expected="this setting in the plan itself")
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


def _scrape(landmarks: Path | None, store: Path, **options: Any) -> None:
    """Scrape, print landmarks by status and reason, or what a store without them holds; status 3 if some failed."""
    from ..labels import scrape as pipeline

    if outcomes := pipeline.scrape(landmarks, store=store, **options):
        (failed, total), summary = pipeline.count_failed(outcomes), pipeline.describe_outcomes(outcomes)
        subject = f"{total} landmarks"
        click.get_current_context().meta[NO_NEXT] = not any(status == "labeled" for status, _ in outcomes)
    else:
        report = pipeline.status(store)
        failed, summary = report["to_retry"]["class"], pipeline.describe_status(report)
        subject = f"{failed + report['rows']['classes']} classes"
    click.echo(summary)
    if failed:
        click.echo(f"{failed} of {subject} failed: ask again with 'hiertree labels retry'", err=True)
        click.get_current_context().exit(FAILED)
