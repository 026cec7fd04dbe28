"""``hiertree labels scrape``, ``status`` and ``retry``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO

import click

from ...labels.scrape.settings import ScrapeSettings
from ..checked_paths import GROWING_FILE, INPUT_FILE, LOG_FILE, OUTPUT_FILE, command
from ..options import category_column, id_column, json_option, print_json, settings_options

STORE = click.argument("store", type=GROWING_FILE)
TABLE = click.option("--table", type=OUTPUT_FILE, help="CSV to write for 'labels build --instances'.")
LOG = click.option("--json-lines", "log", type=LOG_FILE, help="Log to append to; - for the terminal.")
FAILED = 3  # the status with which a command ends that left landmarks without an answer


def _report(found: Counter[tuple[str, str]], *more: str) -> None:
    """Print landmarks by status and reason; end with status 3 if some failed."""
    from ...labels.scrape import count_failed, describe_outcomes

    click.echo("\n".join([describe_outcomes(found), *more]))
    failed, landmarks = count_failed(found)
    if failed:
        click.echo(f"{failed} of {landmarks} landmarks failed: ask again with 'hiertree labels retry'", err=True)
        click.get_current_context().exit(FAILED)


@command(
    example="hiertree labels scrape train_label_to_category.csv --store store.sqlite --contact you@university.edu",
    then="hiertree labels clean {landmarks} --store {store} --out cleaned",
)
@click.argument("landmarks", type=INPUT_FILE)
@click.option("--store", type=GROWING_FILE, required=True, help="SQLite file; made, or gone on with.")
@id_column
@category_column
@TABLE
@settings_options("settings", ScrapeSettings)
@LOG
def scrape(
    landmarks: Path,
    store: Path,
    id_column: str,
    category_column: str,
    table: Path | None,
    settings: ScrapeSettings,
    log: IO[str] | None,
) -> None:
    """Ask Wikimedia what the landmarks of LANDMARKS are instances of; an interrupted run goes on where it was.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from ...labels import ColumnNames
    from ...labels import scrape as pipeline

    columns = ColumnNames(landmark_id=id_column, category=category_column)
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
    from ...labels import scrape as pipeline

    _report(pipeline.scrape(None, store=store, settings=settings, table=table, failed_too=True, log=log))


@command(example="hiertree labels status store.sqlite")
@STORE
@TABLE
@json_option
def status(store: Path, table: Path | None, as_json: bool) -> None:
    """Say how far the scrape in STORE is, and why landmarks have no label; it may be running."""
    from ...labels import scrape as pipeline

    report = pipeline.status(store, table=table)
    print_json(report) if as_json else click.echo(pipeline.describe_status(report))
