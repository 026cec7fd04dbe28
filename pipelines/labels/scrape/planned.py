"""The scrape of a plan: a dump first, if there is one, then Wikimedia for what the store still lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hiertree.io.files import write_json
from hiertree.io.provenance import sha256

from ..landmarks import ColumnNames
from ..plan import LabelsPlan, ScrapePlan

if TYPE_CHECKING:
    from . import Web

STORE, DUMP_READ = "store.sqlite", "dump.json"


def dump_planned(plan: LabelsPlan, asked: ScrapePlan, *, base: Path, folder: Path) -> str | None:
    """Read the plan's dump into the store, unless the same dump was read for the same landmarks; what is told of it.

    A dump of a hundred gigabytes is known by its name, size and time, not by its hash.

    Raises:
        HiertreeError: as :func:`hiertree.pipelines.labels.scrape.scrape_dump`.
    """
    from .. import scrape as scraping
    from .dump_blocks import dump_file

    landmarks, dump, note = base / plan.landmarks, dump_file(base / str(asked.dump)), folder / DUMP_READ
    found = dump.stat()
    known = {"dump": dump.name, "bytes": found.st_size, "modified": found.st_mtime_ns, "landmarks": sha256(landmarks)}
    if (folder / STORE).exists() and _noted(note) == known:
        return None
    tally, reading = scraping.scrape_dump(
        landmarks, store=folder / STORE, dump=dump, columns=_columns(plan), processes=asked.processes
    )
    write_json(note, known)
    return f"{reading}\n{scraping.describe_outcomes(tally)}"


def _noted(note: Path) -> object:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # nothing that can be trusted: the dump is read again


def scrape_planned(plan: LabelsPlan, asked: ScrapePlan, *, base: Path, folder: Path) -> str:
    """Ask Wikimedia for what the store lacks; what is told of it.

    Raises:
        HiertreeError: as :func:`hiertree.pipelines.labels.scrape.scrape`.
    """
    from .. import scrape as scraping

    found = scraping.scrape(
        base / plan.landmarks,
        store=folder / STORE,
        web=_web(asked),
        columns=_columns(plan),
        refresh_older_than=asked.refresh_older_than,
    )
    return scraping.describe_outcomes(found)


def _web(asked: ScrapePlan) -> Web:
    from .. import scrape as scraping

    etiquette = scraping.Etiquette(
        requests_per_minute=asked.requests_per_minute, max_retries=asked.max_retries, backoff=asked.backoff
    )
    endpoints = {name: getattr(asked, name) for name in ("commons_api", "wikidata_api", "commons_site")}
    return scraping.Web(str(asked.contact), asked.source, scraping.Endpoints().replaced(endpoints), etiquette)


def _columns(plan: LabelsPlan) -> ColumnNames:
    return ColumnNames(landmark_id=plan.columns.landmark_id, category=plan.columns.category)
