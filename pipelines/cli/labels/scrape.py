"""``hiertree labels scrape``, ``status`` and ``retry``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO

import click

from ...labels import scrape as pipeline
from ...labels.landmarks import ColumnNames
from ...labels.scrape.settings import ScrapeSettings
from ..checked_paths import GROWING_FILE, INPUT_FILE, LOG_FILE, OUTPUT_FILE, command
from ..options import json_option, print_json, settings_options

STORE = click.argument("store", type=GROWING_FILE)
TABLE = click.option("--table", type=OUTPUT_FILE, help="CSV to write for 'labels build --instances'.")
LOG = click.option("--json-lines", "log", type=LOG_FILE, help="Log to append to; - for the terminal.")
FAILED = 3  # the status with which a command ends that left landmarks without an answer


def _report(found: Counter[tuple[str, str]], *more: str) -> None:
    """Print landmarks by status and reason; end with status 3 if some failed."""
    click.echo("\n".join([pipeline.describe_outcomes(found), *more]))
    failed, landmarks = pipeline.count_failed(found)
    if failed:
        click.echo(f"{failed} of {landmarks} landmarks failed: ask again with 'hiertree labels retry'", err=True)
        click.get_current_context().exit(FAILED)


@command(
    example="hiertree labels scrape train_label_to_category.csv --store store.sqlite --contact you@university.edu",
    then="hiertree labels clean {landmarks} --store {store} --out cleaned",
)
@click.argument("landmarks", type=INPUT_FILE)
@click.option("--store", type=GROWING_FILE, required=True, help="SQLite file; made, or gone on with.")
@settings_options("columns", ColumnNames, leave_out=("instance_of", "item_ids"))
@TABLE
@settings_options("settings", ScrapeSettings)
@LOG
def scrape(
    landmarks: Path,
    store: Path,
    columns: ColumnNames,
    table: Path | None,
    settings: ScrapeSettings,
    log: IO[str] | None,
) -> None:
    """Ask Wikimedia what the landmarks of LANDMARKS are instances of; an interrupted run goes on where it was.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    if settings.dump is not None:
        found, reading = pipeline.scrape_dump(landmarks, store=store, settings=settings, columns=columns, table=table)
        _report(found, str(reading))
    else:
        found = pipeline.scrape(landmarks, store=store, settings=settings, columns=columns, table=table, log=log)
        _report(found)


@command(example="hiertree labels retry store.sqlite --contact you@university.edu")
@STORE
@TABLE
@settings_options("settings", ScrapeSettings, leave_out=("refresh_older_than", "dump", "processes"))
@LOG
def retry(store: Path, table: Path | None, settings: ScrapeSettings, log: IO[str] | None) -> None:
    """Ask again for what failed in STORE, and for what it still lacks."""
    _report(pipeline.scrape(None, store=store, settings=settings, table=table, failed_too=True, log=log))


@command(example="hiertree labels status store.sqlite")
@click.argument("store", type=INPUT_FILE)
@TABLE
@json_option
def status(store: Path, table: Path | None, as_json: bool) -> None:
    """Say how far the scrape in STORE is, and why landmarks have no label; it may be running."""
    report = pipeline.status(store, table=table)
    print_json(report) if as_json else click.echo(pipeline.describe_status(report))
