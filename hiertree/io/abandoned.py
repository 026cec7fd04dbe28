"""Temporary files of killed processes: how a writer marks its own, and how the next writer removes those left behind.

A temporary file or folder of ``model.json`` is called ``.model.hiertree-XXXXXXXX.json`` and is locked by its process
(``flock``) for as long as the process lives. So one that can be locked belongs to nobody. Where there are no such locks
(Windows, some network disks), nothing is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = ".hiertree-"
SET_ASIDE = ".old"


def prefix_of(stem: str) -> str:
    """How the name of a temporary file begins."""
    return f".{stem}{MARK}"


def lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed or the process ends; return whether that was possible."""
    try:
        import fcntl  # not on Windows

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # another process has it, or there are no such locks
        return False
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder; whether that was possible."""
    with _opened(folder) as handle:
        yield handle is not None and lock(handle)


def remove_abandoned(target: Path, *, stem: str, suffix: str = "") -> None:
    """Remove temporary files and folders of ``target`` that no living process has locked.

    If a process was killed while it replaced a folder, the earlier folder, which was set aside, gets its name back.
    """
    name = re.compile(re.escape(prefix_of(stem)) + "[a-z0-9_]{8}" + re.escape(suffix) + f"({re.escape(SET_ASIDE)})?")
    found = [path for path in target.parent.iterdir() if name.fullmatch(path.name)]
    for path in sorted(found, reverse=True):  # what was set aside comes first
        with _opened(path) as handle:
            if handle is None or not lock(handle):
                continue
            if path.name.endswith(SET_ASIDE) and not target.exists():
                path.rename(target)
            elif path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """A file or folder, opened for locking; None if that is not possible."""
    handle = None
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)
