"""Names of image files: whether they stay inside their folder, which are missing, and which are copies."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ...errors import ImageError, TableError
from ...io.provenance import sha256

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_LEADS_OUT = re.compile(r"^\s*$|^[/\\]|^[A-Za-z]:|\0|(?:^|[/\\])\.\.(?:[/\\]|$)")


def inside(names: Iterable[str], where: Callable[[int], str]) -> Iterator[str]:
    """Yield the names unless one leads out of its folder, by Posix or Windows rules. Links in the folder are allowed.

    Raises:
        TableError: a name leads out; the message says in which row.
    """
    for row, name in enumerate(names):
        suspicious = ".." in name or "\0" in name or ":" in name[:2] or not name[:1].strip().strip("/\\")
        if suspicious and _LEADS_OUT.search(name):  # the expression alone takes ten times as long
            raise TableError(f"{where(row)}: image {name!r}", expected="a file below root, relative to it")
        yield name


def image_files(folder: str | os.PathLike[str]) -> list[str]:
    """List the image files below a folder, relative to it, sorted; hidden ones are left out.

    Raises:
        ImageError: there is no such folder, or no image file in it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ImageError(f"{folder} is {'a file' if root.exists() else 'not there'}", expected="a folder of images")
    paths = (path.relative_to(root) for path in root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    found = sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
    if not found:
        raise ImageError(f"{folder} without images", expected=f"files that end in {', '.join(IMAGE_SUFFIXES)}")
    return found


def missing_files(folder: Path, names: Iterable[str], *, listing: bool = True) -> list[str]:
    """The names that are not files below a folder.

    Args:
        folder: where they should be.
        names: relative to it.
        listing: list each subfolder once, which is faster for many names, instead of looking for each file.
    """
    if not listing:
        return [name for name in names if not os.path.isfile(f"{folder}/{name}")]  # noqa: PTH113 - ten times faster
    present: dict[str, set[str]] = {}
    missing = []
    for name in names:
        parent, _, own = name.rpartition("/")
        if parent not in present:
            present[parent] = _files_of(f"{folder}/{parent}")
        if own not in present[parent]:
            missing.append(name)
    return missing


def first_names(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """For each file, the first one of the same file name and the same bytes, in whichever folder; or itself.

    Only files of equal name and size are read.
    """
    alike: dict[tuple[str, int], list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault((name.rpartition("/")[2], _size(f"{folder}/{name}")), []).append(name)
    firsts = {}
    for (_, size), group in alike.items():
        seen: dict[str, str] = {}
        for name in group:
            content = name if size < 0 or len(group) == 1 else sha256(f"{folder}/{name}")
            firsts[name] = seen.setdefault(content, name)
    return firsts


def _size(file: str) -> int:
    """Bytes of a file; −1 if it is missing."""
    try:
        return os.stat(file).st_size  # noqa: PTH116 - faster
    except OSError:
        return -1


def _files_of(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
