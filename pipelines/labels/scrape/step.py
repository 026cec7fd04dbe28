"""The scrape as a step of a plan: a dump first, if there is one, then Wikimedia for what the store still lacks."""

from __future__ import annotations

import json
from pathlib import Path

from hiertree.io.files import write_json
from hiertree.io.provenance import sha256

from ..landmarks import ColumnNames
from .dump.blocks import dump_file
from .outcomes import Tally
from .reporting import describe_outcomes
from .scraping import scrape, scrape_dump
from .settings import ScrapeSettings

STORE, DUMP_READ = "store.sqlite", "dump.json"


def dump_step(landmarks: Path, *, settings: ScrapeSettings, columns: ColumnNames, folder: Path) -> str | None:
    """Read the dump into the folder's store, unless it was read for the same landmarks; a report, or None.

    A dump of a hundred gigabytes is known by its name, size and time, not by its hash.

    Raises:
        HiertreeError: as :func:`hiertree.pipelines.labels.scrape.scrape_dump`.
    """
    dump, note = dump_file(settings.dump or ""), folder / DUMP_READ
    found = dump.stat()
    known = {"dump": dump.name, "bytes": found.st_size, "modified": found.st_mtime_ns, "landmarks": sha256(landmarks)}
    if (folder / STORE).exists() and _noted(note) == known:
        return None
    tally, reading = scrape_dump(landmarks, store=folder / STORE, settings=settings, columns=columns)
    write_json(note, known)
    return f"{reading}\n{describe_outcomes(tally)}"


def _noted(note: Path) -> object:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # nothing that can be trusted: the dump is read again


def scrape_step(landmarks: Path, *, settings: ScrapeSettings, columns: ColumnNames, folder: Path) -> Tally:
    """Ask Wikimedia for what the folder's store lacks, and again for what failed; landmarks by status and reason.

    Raises:
        HiertreeError: as :func:`hiertree.pipelines.labels.scrape.scrape`.
    """
    return scrape(landmarks, store=folder / STORE, settings=settings, columns=columns, failed_too=True)
