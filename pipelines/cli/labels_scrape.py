"""``hiertree labels scrape``, ``status`` and ``retry``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from hiertree.errors import OptionError

from .options import FILE, category_column, id_column, together

if TYPE_CHECKING:
    from ..labels.scrape import Web

TABLE = click.option("--table", type=FILE, help="CSV to write for 'labels build --instances'.")
ENDPOINT = "default: Wikimedia's; a loopback address is allowed."


@dataclass(frozen=True)
class WebOptions:
    """How Wikimedia is asked."""

    contact: str | None
    source: Any
    requests_per_minute: float
    max_retries: int
    backoff: float
    commons_api: str | None
    wikidata_api: str | None
    commons_site: str | None
    json_lines: IO[str] | None

    def web(self) -> Web:
        """As the pipeline takes it.

        Raises:
            OptionError: no contact, or what the pipeline refuses.
        """
        from ..labels import scrape as pipeline

        if not self.contact:
            raise OptionError("no --contact", expected="your mail address or web page, for Wikimedia's operators")
        endpoints = {name: getattr(self, name) for name in ("commons_api", "wikidata_api", "commons_site")}
        etiquette = pipeline.Etiquette(
            requests_per_minute=self.requests_per_minute, max_retries=self.max_retries, backoff=self.backoff
        )
        replaced = pipeline.Endpoints().replaced(endpoints)
        return pipeline.Web(self.contact, self.source, replaced, etiquette, self.json_lines)


web_options = together(
    "asking",
    WebOptions,
    (
        click.option(
            "--contact", metavar="MAIL|URL", help="Where Wikimedia's operators reach you; needed to ask them."
        ),
        click.option(
            "--source",
            type=click.Choice(["api", "html"]),
            default="api",
            show_default=True,
            help="The action API, 50 landmarks a request, or the category pages, one a request.",
        ),
        click.option("--requests-per-minute", type=float, default=200.0, show_default=True, help="Spread evenly."),
        click.option("--max-retries", type=int, default=8, show_default=True, help="Of a request that fails."),
        click.option(
            "--backoff", type=float, default=5.0, show_default=True, help="Seconds before the first; doubled."
        ),
        click.option("--commons-api", metavar="URL", help=f"Commons' action API; {ENDPOINT}"),
        click.option("--wikidata-api", metavar="URL", help=f"Wikidata's action API; {ENDPOINT}"),
        click.option("--commons-site", metavar="URL", help=f"Commons' pages; {ENDPOINT}"),
        click.option(
            "--json-lines", type=click.File("a", encoding="utf-8"), help="Log to append to; - for the terminal."
        ),
    ),
)


@click.command()
@click.argument("landmarks", type=FILE)
@click.option("--store", type=FILE, required=True, help="SQLite file; made, or gone on with.")
@click.option("--refresh-older-than", type=float, metavar="DAYS", help="Ask again for facts older than this.")
@id_column
@category_column
@click.option("--dump", type=FILE, help="Read this Wikidata dump (.json.bz2 or .json.gz) and ask nobody.")
@click.option("--processes", type=click.IntRange(1), help="That parse and unpack the dump; default: one a core.")
@TABLE
@web_options
def scrape(
    landmarks: Path,
    store: Path,
    refresh_older_than: float | None,
    id_column: str,
    category_column: str,
    dump: Path | None,
    processes: int | None,
    table: Path | None,
    asking: WebOptions,
) -> None:
    """Ask Wikimedia what the landmarks of LANDMARKS are instances of; an interrupted run goes on where it was.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from ..labels import ColumnNames
    from ..labels import scrape as pipeline

    columns = ColumnNames(landmark_id=id_column, category=category_column)
    if dump is not None:
        found, reading = pipeline.scrape_dump(
            landmarks, store=store, dump=dump, columns=columns, processes=processes, table=table
        )
        click.echo(f"{pipeline.describe_outcomes(found)}\n{reading}")
        return
    found = pipeline.scrape(
        landmarks,
        store=store,
        web=asking.web(),
        columns=columns,
        refresh_older_than=refresh_older_than,
        table=table,
    )
    click.echo(pipeline.describe_outcomes(found))


@click.command()
@click.argument("store", type=FILE)
@TABLE
@web_options
def retry(
    store: Path,
    table: Path | None,
    asking: WebOptions,
) -> None:
    """Ask again for what failed in STORE, and for what it still lacks."""
    from ..labels import scrape as pipeline

    click.echo(pipeline.describe_outcomes(pipeline.retry(store, web=asking.web(), table=table)))


@click.command()
@click.argument("store", type=FILE)
@TABLE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(store: Path, table: Path | None, as_json: bool) -> None:
    """Say how far the scrape in STORE is, and why landmarks have no label; it may be running."""
    from ..labels import scrape as pipeline

    report = pipeline.status(store, table=table)
    click.echo(json.dumps(report, indent=2) if as_json else pipeline.describe_status(report))
