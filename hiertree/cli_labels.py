"""The commands of ``hiertree labels``: from landmark ids to types, and from types to a hierarchy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from hiertree.errors import OptionError

if TYPE_CHECKING:
    from hiertree.pipelines.labels.scrape import Web

OUT_FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def labels() -> None:
    """Hierarchical labels from raw landmark ids."""


@labels.command()
@click.argument("landmarks", type=FILE)
@click.option("--out", type=OUT_FOLDER, required=True, help="Folder to make; an earlier build there is replaced.")
@click.option("--instances", type=FILE, help="Table of scraped 'instance of' values; default: LANDMARKS itself.")
@click.option(
    "--encoder",
    type=click.Choice(["tfidf", "clip"]),
    default="tfidf",
    show_default=True,
    help="Of the labels' texts; tfidf needs no download.",
)
@click.option("--clip-model", default="ViT-L-14", show_default=True, help="An open_clip model.")
@click.option("--clip-weights", default="laion2b_s32b_b82k", show_default=True, help="Their name, or a local file.")
@click.option("--prompt", "prompts", multiple=True, help="Template with {label} for CLIP; several are averaged.")
@click.option("--device", default="cpu", show_default=True, help="Where CLIP runs.")
@click.option("--clusters", default="auto", show_default=True, help="Number of supercategories, or auto.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of k-means.")
@click.option(
    "--multi",
    type=click.Choice(["drop", "first", "all"]),
    default="drop",
    show_default=True,
    help="What becomes of landmarks with several labels.",
)
@click.option("--separator", default="|", show_default=True, help="What stands between several values.")
@click.option("--id-column", default="landmark_id", show_default=True, help="Column of the landmark ids.")
@click.option("--category-column", default="category", show_default=True, help="Column of the Commons categories.")
@click.option("--instance-column", default="instance_of", show_default=True, help="Column of the 'instance of' values.")
@click.option("--item-column", help="Column of the values' Wikidata ids, if there is one.")
def build(
    landmarks: Path,
    out: Path,
    instances: Path | None,
    encoder: str,
    clip_model: str,
    clip_weights: str,
    prompts: tuple[str, ...],
    device: str,
    clusters: str,
    seed: int,
    multi: Any,
    separator: str,
    id_column: str,
    category_column: str,
    instance_column: str,
    item_column: str | None,
) -> None:
    """Clean, embed, cluster and name the types of LANDMARKS; write them as a tree in H-GLDv2's columns.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from hiertree.pipelines import labels as pipeline

    if clusters != "auto" and not clusters.isdigit():
        raise OptionError(f"--clusters {clusters}", expected="a number or auto")
    clip = pipeline.ClipEncoder(clip_model, clip_weights, prompts or pipeline.ClipEncoder.prompts, device=device)
    result = pipeline.build(
        landmarks,
        out=out,
        instances=instances,
        encoder=clip if encoder == "clip" else pipeline.TfidfEncoder(),
        clusters="auto" if clusters == "auto" else int(clusters),
        seed=seed,
        multi=multi,
        separator=separator,
        columns=pipeline.Columns(id_column, category_column, instance_column, item_column),
    )
    click.echo(pipeline.describe(result))


TABLE = click.option("--table", type=FILE, help="CSV to write for 'labels build --instances'.")
ENDPOINT = "default: Wikimedia's; a loopback address is allowed."
WEB_OPTIONS = (
    click.option("--contact", metavar="MAIL|URL", help="Where Wikimedia's operators reach you; needed to ask them."),
    click.option(
        "--source",
        type=click.Choice(["api", "html"]),
        default="api",
        show_default=True,
        help="The action API, 50 landmarks a request, or the category pages, one a request.",
    ),
    click.option("--requests-per-minute", type=float, default=200.0, show_default=True, help="Spread evenly."),
    click.option("--max-retries", type=int, default=8, show_default=True, help="Of a request that fails."),
    click.option("--backoff", type=float, default=5.0, show_default=True, help="Seconds before the first; doubled."),
    click.option("--commons-api", metavar="URL", help=f"Commons' action API; {ENDPOINT}"),
    click.option("--wikidata-api", metavar="URL", help=f"Wikidata's action API; {ENDPOINT}"),
    click.option("--commons-site", metavar="URL", help=f"Commons' pages; {ENDPOINT}"),
    click.option("--json-lines", type=click.File("a", encoding="utf-8"), help="Log to append to; - for the terminal."),
)


def _web_options(command: Command) -> Command:
    """Add what ``scrape`` and ``retry`` have in common."""
    for option in reversed(WEB_OPTIONS):
        command = option(command)
    return command


def _web(
    contact: str | None,
    source: Any,
    requests_per_minute: float,
    max_retries: int,
    backoff: float,
    endpoints: dict[str, str | None],
    json_lines: IO[str] | None,
) -> Web:
    from hiertree.pipelines.labels import scrape as pipeline

    if not contact:
        raise OptionError("no --contact", expected="your mail address or web page, for Wikimedia's operators")
    return pipeline.Web(
        contact,
        source,
        pipeline.Endpoints().replaced(endpoints),
        pipeline.Etiquette(requests_per_minute=requests_per_minute, max_retries=max_retries, backoff=backoff),
        json_lines,
    )


@labels.command()
@click.argument("landmarks", type=FILE)
@click.option("--store", type=FILE, required=True, help="SQLite file; made, or gone on with.")
@click.option("--refresh-older-than", type=float, metavar="DAYS", help="Ask again for facts older than this.")
@click.option("--id-column", default="landmark_id", show_default=True, help="Column of the landmark ids.")
@click.option("--category-column", default="category", show_default=True, help="Column of the Commons categories.")
@click.option("--dump", type=FILE, help="Read this Wikidata dump (.json.bz2 or .json.gz) and ask nobody.")
@click.option("--processes", type=click.IntRange(1), help="That parse the dump; default: one a core.")
@TABLE
@_web_options
def scrape(
    landmarks: Path,
    store: Path,
    refresh_older_than: float | None,
    id_column: str,
    category_column: str,
    dump: Path | None,
    processes: int | None,
    table: Path | None,
    contact: str | None,
    source: str,
    requests_per_minute: float,
    max_retries: int,
    backoff: float,
    commons_api: str | None,
    wikidata_api: str | None,
    commons_site: str | None,
    json_lines: IO[str] | None,
) -> None:
    """Ask Wikimedia what the landmarks of LANDMARKS are instances of; an interrupted run goes on where it was.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.
    """
    from hiertree.pipelines.labels import Columns
    from hiertree.pipelines.labels import scrape as pipeline

    columns = Columns(landmark_id=id_column, category=category_column)
    if dump is not None:
        found, reading = pipeline.scrape_dump(
            landmarks, store=store, dump=dump, columns=columns, processes=processes, table=table
        )
        click.echo(f"{pipeline.describe_outcomes(found)}\n{reading}")
        return
    endpoints = {"commons_api": commons_api, "wikidata_api": wikidata_api, "commons_site": commons_site}
    found = pipeline.scrape(
        landmarks,
        store=store,
        web=_web(contact, source, requests_per_minute, max_retries, backoff, endpoints, json_lines),
        columns=columns,
        refresh_older_than=refresh_older_than,
        table=table,
    )
    click.echo(pipeline.describe_outcomes(found))


@labels.command()
@click.argument("store", type=FILE)
@TABLE
@_web_options
def retry(
    store: Path,
    table: Path | None,
    contact: str | None,
    source: str,
    requests_per_minute: float,
    max_retries: int,
    backoff: float,
    commons_api: str | None,
    wikidata_api: str | None,
    commons_site: str | None,
    json_lines: IO[str] | None,
) -> None:
    """Ask again for what failed in STORE, and for what it still lacks."""
    from hiertree.pipelines.labels import scrape as pipeline

    endpoints = {"commons_api": commons_api, "wikidata_api": wikidata_api, "commons_site": commons_site}
    web = _web(contact, source, requests_per_minute, max_retries, backoff, endpoints, json_lines)
    click.echo(pipeline.describe_outcomes(pipeline.retry(store, web=web, table=table)))


@labels.command()
@click.argument("store", type=FILE)
@TABLE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(store: Path, table: Path | None, as_json: bool) -> None:
    """Say how far the scrape in STORE is, and why landmarks have no label; it may be running."""
    from hiertree.pipelines.labels import scrape as pipeline

    report = pipeline.status(store, table=table)
    click.echo(json.dumps(report, indent=2) if as_json else pipeline.describe_status(report))
