"""The text of a dump in blocks of whole lines: plain, ``.gz``, or ``.bz2`` unpacked by as many cores as may be used."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hiertree.errors import ScrapeError
from hiertree.io.progress import show_progress

BLOCK = 4 << 20
LONGEST_LINE = 256 << 20
_ENTITY = re.compile("[A-Z][1-9][0-9]*(-[A-Z][1-9][0-9]*)?")
Read = Callable[[int], bytes]
Tell = Callable[[], int]


def dump_file(path: str | os.PathLike[str]) -> Path:
    """The path of an existing file that begins like a dump: perhaps with a line ``[``, then with one entity per line.

    Raises:
        ScrapeError: there is no such file, or it begins otherwise.
    """
    file = Path(path)
    if not file.is_file():
        raise ScrapeError(f"{file}", expected="a Wikidata dump, such as latest-all.json.bz2")
    with _good(file), _opened(file, 1) as (read, _):
        beginning = next(_whole_lines(file, read), b"")
    lines = [line.strip() for line in beginning.splitlines()]
    first = next((line for line in lines if line not in (b"", b"[")), b"")
    if not _is_entity(first.removesuffix(b",")):
        shown = first[:60].decode("utf-8", "replace")
        raise ScrapeError(f"{file}, with {shown!r}", expected="a Wikidata dump, an entity in JSON on each line")
    return file


def _is_entity(line: bytes) -> bool:
    try:
        entity = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entity, dict) and isinstance(entity.get("id"), str) and bool(_ENTITY.fullmatch(entity["id"]))


def shown_blocks(path: Path, *, cores: int, note: Callable[[float], str]) -> Iterator[bytes]:
    """The dump in blocks of whole lines, with progress by the bytes of the file.

    Args:
        path: the dump.
        cores: how many may unpack bzip2, if rapidgzip is installed; otherwise one does.
        note: what to show beside the progress after so many seconds.

    Raises:
        ScrapeError: no such file, one that breaks off, or a line that does not end.
    """
    shown, started = 0, time.monotonic()
    size = dump_file(path).stat().st_size >> 20
    with (
        show_progress(description="dump, MiB", total=size) as advance,
        _good(path),
        _opened(path, cores) as (read, tell),
    ):
        for block in _whole_lines(path, read):
            yield block
            done = tell() >> 20
            advance(done - shown, note(time.monotonic() - started))
            shown = done


@contextmanager
def _opened(path: Path, cores: int) -> Iterator[tuple[Read, Tell]]:
    """How to read the text, and how many bytes of the file that took."""
    if path.suffix == ".bz2" and importlib.util.find_spec("rapidgzip") is not None:
        import rapidgzip

        with rapidgzip.IndexedBzip2File(str(path), parallelization=cores) as unpacked:
            yield unpacked.read, lambda: unpacked.tell_compressed() // 8
    else:
        with path.open("rb") as file:
            yield _unpacked(path, file).read, file.tell


def _unpacked(path: Path, file: IO[bytes]) -> Any:
    if path.suffix == ".bz2":
        return bz2.BZ2File(file)
    return gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file


@contextmanager
def _good(path: Path) -> Iterator[None]:
    """Say which file is broken, however the library in use complains (rapidgzip: ValueError and RuntimeError)."""
    try:
        yield
    except (EOFError, OSError, zlib.error, ValueError, RuntimeError) as error:
        raise ScrapeError(f"{path}: {error}", expected="a whole dump", remedy="download it again") from None


def _whole_lines(path: Path, read: Read) -> Iterator[bytes]:
    rest, last, listed = b"", b"", None
    while piece := read(BLOCK):
        rest += piece
        listed = rest.lstrip().startswith(b"[") if listed is None else listed
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield rest[:cut]
            last, rest = rest[max(0, cut - 8) : cut], rest[cut:]
        elif len(rest) > LONGEST_LINE:
            raise ScrapeError(f"{path}: a line above {LONGEST_LINE >> 20} MiB", expected="one entity a line")
    if rest.strip():
        yield rest
    if listed is None or (listed and (last + rest).split()[-1:] != [b"]"]):
        raise ScrapeError(f"{path} breaks off", expected="a last line ']'", remedy="download it again")
