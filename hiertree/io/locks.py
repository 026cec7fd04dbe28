"""One lock for whatever a single process may write at a time: a folder that gains files, a store, a log.

A lock is a file in the folder, or beside the file, that says who holds it. It ends with its process, however that ends:
children that are forked, such as loader workers, let go of it at once. A disk without locks has none.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ..errors import OutputError

MARK = ".hiertree-"  # in the names of all files and folders that exist only while something is written
_LOCK = f"{MARK}lock"
_FAR = 1 << 30  # the byte that is locked on Windows, where others cannot read what is locked
_PAUSE = 0.02
_handles: set[int] = set()  # of this process


def _let_go_in_child() -> None:
    for handle in _handles:
        with suppress(OSError):
            os.close(handle)
    _handles.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def locked_folder(folder: str | os.PathLike[str], *, seconds: float = 0.0) -> Iterator[None]:
    """A block in which no other process writes in a folder, which is made; one that stays empty is removed again.

    Args:
        folder: the folder.
        seconds: how long to wait for another process.

    Raises:
        OutputError: another process has it; the message says which, and since when.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked_folder(folder):
    ...     with locked_folder(folder):
    ...         pass
    Traceback (most recent call last):
    ...
    hiertree.errors.OutputError: ... is in use by process ...: expected ...; wait until it ends, or name another
    """
    target = Path(folder)
    is_new = not target.exists()
    if not is_new and not target.is_dir():
        raise OutputError(f"{target} is a file", expected="a folder", remedy="name another")
    try:
        with _locked(target, target / _LOCK, seconds):
            yield
    finally:
        if is_new:
            with suppress(OSError):
                target.rmdir()


def remove_abandoned_lock(folder: str | os.PathLike[str]) -> None:
    """Remove the lock file that a killed process left in a folder, if there is one and the folder can be written."""
    if Path(folder, _LOCK).exists():
        with suppress(OutputError, OSError), locked_folder(folder):
            pass


@contextmanager
def locked_file(path: str | os.PathLike[str], *, seconds: float = 0.0) -> Iterator[None]:
    """As :func:`locked_folder`, for a file."""
    target = Path(path)
    with _locked(target, target.with_name(f".{target.name}{_LOCK}"), seconds):
        yield


@contextmanager
def _locked(target: Path, file: Path, seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while (handle := _taken(file)) is None:
        if time.monotonic() >= end:
            raise _in_use_error(target, file)
        time.sleep(_PAUSE)
    from socket import gethostname

    try:
        timestamp = datetime.now().astimezone().isoformat(timespec="seconds")
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {gethostname()} since {timestamp}".encode())
        yield
    finally:
        _remove(file, handle)


def _taken(file: Path) -> int | None:
    """A handle of the lock file, locked; None if another process has it."""
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # another process has just removed the folder that it made
            continue
        except PermissionError:
            if file.exists():  # of another user; or being removed, on Windows
                return None
            raise
        _handles.add(handle)
        if try_lock(handle) is False:
            close(handle)
            return None
        if os.fstat(handle).st_nlink:
            return handle
        close(handle)  # its holder has just ended


def try_lock(handle: int) -> bool | None:
    """Lock an open file or folder until it is closed; False if another process has, None where there are no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def open_locked(folder: Path) -> int | None:
    """A handle of a folder, locked; None where another process has it, or folders cannot be locked."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # it is gone, or this is Windows
        return None
    _handles.add(handle)
    if try_lock(handle):
        return handle
    close(handle)
    return None


def close(handle: int) -> None:
    """Close a handle and so let go of its lock, unless a child already has."""
    if handle in _handles:
        _handles.remove(handle)
        os.close(handle)


def _remove(file: Path, handle: int) -> None:
    """Remove a lock file while it is locked; on Windows, where that is impossible, right after."""
    if handle not in _handles:
        return
    with suppress(PermissionError):
        file.unlink(missing_ok=True)
    close(handle)
    if sys.platform == "win32":
        with suppress(OSError):
            file.unlink()


def _in_use_error(target: Path, file: Path) -> OutputError:
    try:
        holder = file.read_text(encoding="utf-8")
    except OSError:
        holder = ""
    return OutputError(
        f"{target} is in use by {holder or 'another process'}",
        expected="a path that no other process writes",
        remedy="wait until it ends, or name another",
    )
