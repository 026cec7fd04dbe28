"""One lock for whatever a single process may write at a time: a folder that gains files, a store, a log.

A lock is a file in the folder, or beside the file, that filelock holds. It ends with its process, however that ends:
children that are forked, such as loader workers, let go of it at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import OutputError

MARK = ".hiertree-"  # in the names of all files and folders that exist only while something is written
_LOCK = f"{MARK}lock"
_FOR_EVERY_USER = 0o666  # a lock file that a killed process left hinders no other user
_LONGEST = 1e9  # seconds: filelock takes no infinite time


@contextmanager
def locked_folder(folder: str | os.PathLike[str], *, seconds: float = 0.0) -> Iterator[None]:
    """A block in which no other process writes in a folder, which is made; one that stays empty is removed again.

    Args:
        folder: the folder.
        seconds: how long to wait for another process.

    Raises:
        OutputError: another process has it, or a link or a file of another user stands where its lock belongs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked_folder(folder):
    ...     with locked_folder(folder):
    ...         pass
    Traceback (most recent call last):
    ...
    hiertree.errors.OutputError: ... is in use by another process: expected ...; wait until it ends, or name another
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
    from filelock import FileLock, Timeout

    lock = FileLock(file, timeout=min(seconds, _LONGEST), mode=_FOR_EVERY_USER, thread_local=False)
    try:
        while not lock.is_locked:
            file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # another process has just removed the folder that it made
                lock.acquire(poll_interval=0.02)
    except Timeout:
        remedy = "wait until it ends, or name another"
        problem = f"{target} is in use by another process"
        raise OutputError(problem, expected="a path that no other process writes", remedy=remedy) from None
    except OSError as error:
        if error.errno != errno.ELOOP and not (isinstance(error, PermissionError) and file.exists()):
            raise
        kind = "a link" if file.is_symlink() else "another user's"
        remedy = "remove it if no process uses it"
        raise OutputError(f"{target}: its lock {file} is {kind}", expected="a lock file", remedy=remedy) from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file, nor a sticky folder another user's
            file.unlink()  # while it is locked: one that waits for it sees that it is gone
        lock.release()
