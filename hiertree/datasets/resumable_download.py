"""Downloads of published files that resume after an interruption and are checked against the published MD5.

A file grows as ``NAME.part`` and is renamed once it is complete. A broken one goes on at its last byte, after a pause
that doubles each time. What an archive holds is moved to the target folder once all of it is unpacked.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

from ..errors import MissingResourceError, OptionError, require_package
from ..io.files import flush, locked_folder, temporary_folder, write_text
from ..io.progress import show_progress
from ..io.provenance import file_digest
from ..io.reading import read_text, reading_file
from .description import Benchmark, Download

if TYPE_CHECKING:
    import requests

BLOCK = 1 << 20
ATTEMPTS = 6  # consecutive attempts without a single byte
SECONDS_FOR_A_BYTE = 30.0
MEGABYTE = 1_000_000


class Fetched(NamedTuple):
    """A file and its state: "fetched" now, "there" already, or "unpacked" earlier, when the archive may be gone."""

    path: Path
    state: Literal["fetched", "there", "unpacked"]


def download(
    benchmark: Benchmark, root: Path, *, mirror: str | None = None, sleep: Callable[[float], None] = time.sleep
) -> list[Fetched]:
    """Download and unpack the files of a benchmark, except those that are there already.

    An archive may be removed after it was unpacked: a file ``.NAME.unpacked`` records that.

    Args:
        benchmark: what :func:`hiertree.datasets.describe` returns.
        root: the folder for the files, which is created if needed.
        mirror: another address with files of the same names; they must have the published checksums too.
        sleep: how to wait, for tests.

    Returns:
        The files and their states.

    Raises:
        MissingPackageError: requests is not installed.
        OptionError: an address that is not http or https.
        MissingResourceError: a file cannot be downloaded, has another MD5, or does not fit on the disk.
        OutputError: another process downloads to ``root``.
    """
    require_package("requests", extra="download")
    with locked_folder(root):
        return [_provide(file, root, mirror, sleep) for file in benchmark.downloads]


def _provide(file: Download, root: Path, mirror: str | None, sleep: Callable[[float], None]) -> Fetched:
    url = file.url if mirror is None else f"{mirror.rstrip('/')}/{file.name}"
    if urlsplit(url).scheme not in ("http", "https"):
        raise OptionError(f"address {url!r}", expected="http:// or https://")
    target, marker = root / file.name, root / f".{file.name}.unpacked"
    if marker.is_file() and read_text(marker) == file.md5:
        return Fetched(target, "unpacked")
    is_complete = target.is_file() and md5(target) == file.md5
    if not is_complete:
        _fetch(url, target, file.md5, sleep)
    if file.unpack:
        unpack(target, root)
        write_text(marker, file.md5)
    return Fetched(target, "there" if is_complete else "fetched")


def md5(path: Path) -> str:
    """The MD5 of a file, in hexadecimal. Benchmarks publish it; it guards against damage, not against malice."""
    return file_digest(path, hashlib.md5(usedforsecurity=False))


def unpack(archive: Path, root: Path) -> None:
    """Unpack an archive into a folder; no member can be placed, or link to, outside of it."""
    _require_room(archive, archive.stat().st_size)
    with (
        reading_file(archive, expected="a complete archive", kind=MissingResourceError),
        temporary_folder(root / archive.name) as aside,
    ):
        _extract(archive, aside)
        for entry in sorted(aside.iterdir()):
            _merge(entry, root / entry.name)


def _extract(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zip_archive:
            zip_archive.extractall(folder)  # noqa: S202 - zipfile keeps members inside
    else:
        with tarfile.open(archive) as tar_archive:
            tar_archive.extractall(folder, filter="data")


def _merge(source: Path, target: Path) -> None:
    """Move a file, or the content of a folder into the folder that is there already."""
    if source.is_dir() and target.is_dir():
        for entry in source.iterdir():
            _merge(entry, target / entry.name)
    else:
        source.replace(target)


def _fetch(url: str, target: Path, checksum: str, sleep: Callable[[float], None]) -> None:
    partial = target.with_name(f"{target.name}.part")
    idle, previous_size = 0, _size(partial)
    while (problem := _ask(url, partial)) is not None:
        idle, previous_size = 0 if _size(partial) > previous_size else idle + 1, _size(partial)
        if idle >= ATTEMPTS:
            remedy = "try again later, since the bytes so far are kept, or pass another address with --mirror"
            raise MissingResourceError(f"{url} ({problem})", expected="the file", remedy=remedy)
        sleep(2.0 ** max(idle - 1, 0))
    digest = md5(partial)
    if digest != checksum:
        partial.unlink()
        expected, remedy = f"the published {checksum}", "download it from elsewhere"
        raise MissingResourceError(f"{url} has MD5 {digest}", expected=expected, remedy=remedy)
    flush(partial)
    partial.replace(target)


def _ask(url: str, partial: Path) -> str | None:
    """Request the missing bytes once and append them; return None, or why the file is still incomplete."""
    import requests
    from urllib3.exceptions import HTTPError

    start = _size(partial)
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=SECONDS_FOR_A_BYTE) as answer:
            if answer.status_code == 416:  # nothing follows: it is complete, or belongs to another file
                if answer.headers.get("Content-Range") == f"bytes */{start}":
                    return None
                partial.unlink()
                return "bytes of another file"
            if answer.status_code >= 500 or answer.status_code == 429:
                return f"status {answer.status_code}"
            if answer.status_code not in (200, 206):
                raise MissingResourceError(f"{url} (status {answer.status_code})", expected="the file")
            sent = answer.headers.get("Content-Range", "") if answer.status_code == 206 else ""
            is_whole = _append(answer, partial, start if sent.startswith(f"bytes {start}-") else 0)
    except (requests.RequestException, HTTPError, ConnectionError) as error:
        return "no connection" if isinstance(error, requests.ConnectionError) else type(error).__name__
    return None if is_whole else "the connection ended early"


def _append(answer: requests.Response, partial: Path, start: int) -> bool:
    """Write the body after the first ``start`` bytes; return whether all of it arrived."""
    length = answer.headers.get("Content-Length", "")
    left = int(length) if length.isdecimal() else None
    _require_room(partial, left)
    megabytes = None if left is None else (start + left) // MEGABYTE
    with (
        partial.open("r+b" if partial.exists() else "wb") as file,
        show_progress(description=f"{partial.stem}, MB", total=megabytes) as advance,
    ):
        file.seek(start)
        file.truncate()
        advance(start // MEGABYTE)
        end = start
        while block := answer.raw.read1(BLOCK):  # as it arrives, so that a broken connection loses nothing
            end += file.write(block)
            advance(end // MEGABYTE - (end - len(block)) // MEGABYTE)
    return left is None or end == start + left


def _require_room(partial: Path, size: int | None) -> None:
    free = shutil.disk_usage(partial.parent).free
    if size is not None and size > free:
        raise MissingResourceError(
            f"{free:,} bytes free in {partial.parent}", expected=f"{size:,} more for {partial.name}"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
