"""Names of image files below a folder: those that are there, those that are missing, those that lead out of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from ...errors import ImageError, TableError
from ...io.files import NOT_UTF8, AnyPath
from .images import IMAGE_SUFFIXES

_LEADS_OUT = re.compile(r"^\s*$|^[/\\]|^[A-Za-z]:|\0|(?:^|[/\\])\.\.(?:[/\\]|$)")


def inside(names: Iterable[str], folder: Path, row_name: Callable[[int], str]) -> Iterator[str]:
    r"""Yield the names unless one leads out of the folder, by Posix or Windows rules; links in it are allowed.

    A name as Windows writes it, ``lake\1.jpg``, becomes ``lake/1.jpg`` unless a file is called so.
    """
    for row, name in enumerate(names):
        suspicious = ".." in name or "\0" in name or ":" in name[:2] or not name[:1].strip().strip("/\\")
        if suspicious and _LEADS_OUT.search(name):  # the expression alone takes ten times as long
            raise TableError(f"{row_name(row)}: image {name!r}", expected="a file below root, relative to it")
        yield name.replace("\\", "/") if "\\" in name and not (folder / name).is_file() else name


def image_files(folder: AnyPath) -> list[str]:
    """List the image files below a folder and the folders that links in it lead to, relative to it, sorted.

    Hidden ones are left out.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ImageError(f"{folder} is {'a file' if root.exists() else 'missing'}", expected="a folder of images")
    real = os.path.realpath(root)
    names = sorted(_image_files(f"{root}/", "", real, frozenset({real})))
    if not names:
        raise ImageError(f"{folder} without images", expected=f"files that end in {', '.join(IMAGE_SUFFIXES)}")
    if bad_name := next(filter(NOT_UTF8.search, names), None):  # no table could name it
        raise ImageError(f"{folder} holds {bad_name!r}", expected="names in UTF-8", remedy="rename it with convmv")
    return names


def _image_files(root: str, folder: str, real: str, ancestors: frozenset[str]) -> Iterator[str]:
    """The image files of ``folder`` below ``root``; ``ancestors`` are the real paths of it and of the folders above."""
    with os.scandir(root + folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                inner = os.path.realpath(entry.path) if entry.is_symlink() else f"{real}/{entry.name}"
                if inner not in ancestors:  # a link to a folder above it would lead on for ever
                    yield from _image_files(root, f"{folder}{entry.name}/", inner, ancestors | {inner})
            elif entry.name.lower().endswith(IMAGE_SUFFIXES):
                yield folder + entry.name


def missing_files(folder: Path, names: Iterable[str]) -> list[str]:
    """The names that are not files below a folder; each subfolder is listed once."""
    files = cache(_files_of)
    parts = ((name, *name.rpartition("/")[::2]) for name in names)
    return [name for name, parent, file_name in parts if file_name not in files(f"{folder}/{parent}")]


def _files_of(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError):
        return set()
