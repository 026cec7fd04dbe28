"""Atomic writing: a temporary file in the same folder is written, flushed to disk, and renamed to its final name."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .abandoned import MARK, SET_ASIDE, lock, locked_folder, prefix_of, remove_abandoned

_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of ``path``; what is written there replaces ``path`` on success.

    On an exception the temporary file is removed and an existing file stays as it was. Missing parent folders are
    created. Temporary files of killed processes are removed by the next writer of the same file.

    Raises:
        OSError: it cannot be written, for instance as the disk is full; the message names ``path``.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(path)
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target, stem=target.stem, suffix=target.suffix)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix_of(target.stem), suffix=target.suffix)
        temporary = Path(name)
        try:
            lock(handle)
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            _flush(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(handle)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As :func:`replacing`, for a folder of files that belong together; an existing folder is replaced as a whole.

    Where ``path`` is a link, the folder that it leads to is replaced, for a folder cannot be renamed to a link.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target, stem=target.name)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix_of(target.name)))
        try:
            with locked_folder(temporary):
                yield temporary
                for file in temporary.rglob("*"):
                    if file.is_file():
                        _flush(file)
                temporary.chmod(0o777 & ~_umask())
                _swap(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _swap(temporary: Path, target: Path) -> None:
    """Rename a folder to ``target``. An existing folder is set aside until then, under a name that marks it."""
    if not target.is_dir():
        temporary.rename(target)
        return
    aside = temporary.with_name(temporary.name + SET_ASIDE)
    with locked_folder(target):
        target.rename(aside)
        try:
            temporary.rename(target)
        except OSError:
            aside.rename(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def open_replacing(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A UTF-8 text file, opened for writing, that replaces ``path`` on success. Lines end in a bare newline."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text to ``path`` atomically."""
    with open_replacing(path) as file:
        file.write(text)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as indented JSON atomically; NaN and infinities are a ValueError."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Make errors that name the temporary file, or no file as when the disk is full, name the target."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None and error.errno in _OF_THE_DISK
        if not unnamed and MARK not in str(error.filename):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
