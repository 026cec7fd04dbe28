"""Files that appear whole, and UTF-8 text read whole.

A writer fills a temporary file or folder beside its target, ``.model.hiertree-XXXXXXXX.json`` of ``model.json``,
flushes it to disk and renames it. While its process lives it is locked (``flock``); the next writer of the same target
removes those that can be locked. Where there are no such locks (Windows, some network disks), nothing is removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from ..errors import HiertreeError, TableError

AnyPath: TypeAlias = str | os.PathLike[str]

_MARK = ".hiertree-"
_SET_ASIDE = ".old"
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what Python makes of such bytes in names, and with "surrogateescape"
CONTENT_ERRORS: tuple[type[Exception], ...] = (  # what readers raise for files that are damaged or of another kind
    *(OSError, ValueError, TypeError, LookupError, AttributeError),
    *(EOFError, RecursionError, NotImplementedError),
)


@contextmanager
def raised_as(
    kind: type[HiertreeError],
    given: object,
    *,
    expected: str | None = None,
    remedy: str | None = None,
    on: type[BaseException] | tuple[type[BaseException], ...] = CONTENT_ERRORS,
) -> Iterator[None]:
    """Raise the errors ``on`` of other libraries as one of ours: what was given, and the first line of theirs.

    >>> with raised_as(TableError, "sizes.csv", expected="numbers"):
    ...     int("many")
    Traceback (most recent call last):
    ...
    hiertree.errors.TableError: sizes.csv (invalid literal for int() with base 10: 'many'): expected numbers
    """
    try:
        yield
    except on as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise kind(f"{given} ({reason})", expected=expected, remedy=remedy) from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of ``path``; what is written there replaces ``path`` on success.

    On an exception the temporary file is removed and an existing file stays as it was. Missing parent folders are
    created. An OSError names ``path``.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(path)
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target, stem=target.stem, suffix=target.suffix)
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

    Of a link, the folder that it leads to is replaced, for a folder cannot be renamed to a link.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()
    with _naming(target), temporary_folder(target) as temporary:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        temporary.chmod(0o777 & ~_umask())
        _swap(temporary, target)


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A locked folder beside ``target``, which is removed at the end unless it was renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target, stem=target.name)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix_of(target.name)))
    try:
        with _locked(temporary):
            yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(temporary: Path, target: Path) -> None:
    """Rename a folder to ``target``. An existing folder is set aside until then, under a name that marks it."""
    if not target.is_dir():
        temporary.rename(target)
        return
    aside = temporary.with_name(temporary.name + _SET_ASIDE)
    with _locked(target):
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
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False)
    with open_replacing(path) as file:
        file.writelines(encoder.iterencode(value))
        file.write("\n")


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Make errors name the target instead of the temporary file, or of no file as when the disk is full."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None and error.errno in _OF_THE_DISK
        if not unnamed and _MARK not in str(error.filename):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file without a byte-order mark; a TableError names the line where it is not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TableError(f"{path}: {error.strerror or error}", expected="a readable file") from error
    except UnicodeDecodeError:
        raise not_utf8(path) from None


def not_utf8(path: str | os.PathLike[str]) -> TableError:
    """The error that names the first line with bytes that are not UTF-8."""
    with Path(path).open(encoding="utf-8", errors="surrogateescape") as file:  # invalid bytes become lone surrogates
        bad = next(number for number, line in enumerate(file, start=1) if NOT_UTF8.search(line))
    return TableError(f"{path}, line {bad}: bytes that are not UTF-8", remedy="save the file as UTF-8")


def prefix_of(stem: str) -> str:
    """The prefix of a temporary file's name."""
    return f".{stem}{_MARK}"


def lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed or the process ends; return whether that was possible."""
    try:
        import fcntl  # not on Windows

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # another process holds the lock, or the file system has no locks
        return False
    return True


def _remove_abandoned(target: Path, *, stem: str, suffix: str = "") -> None:
    """Remove temporary files and folders of ``target`` that no living process has locked.

    If a process was killed while it replaced a folder, the earlier folder, which was set aside, gets its name back.
    """
    name = re.compile(re.escape(prefix_of(stem)) + "[a-z0-9_]{8}" + re.escape(suffix) + f"({re.escape(_SET_ASIDE)})?")
    found = [path for path in target.parent.iterdir() if name.fullmatch(path.name)]
    for path in sorted(found, reverse=True):  # folders set aside come first
        with _locked(path) as is_abandoned:
            if not is_abandoned:
                continue
            if path.name.endswith(_SET_ASIDE) and not target.exists():
                path.rename(target)
            elif path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Lock a file or folder until the block ends; yields whether that was possible."""
    try:
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    except OSError:
        yield False
        return
    try:
        yield lock(handle)
    finally:
        os.close(handle)
