"""Files that appear whole, and locks for what a single process may write at a time.

A writer fills a file or folder of the same name in a private folder beside its target,
``.model.json.hiertree-XXXXXXXX/model.json``, closes it, flushes it to disk and renames it. While its process lives the
private folder is locked; the next writer of the same target removes those that can be locked. Where folders cannot be
locked (Windows, some network disks), nothing is removed.

A lock is a file, in a folder that gains files or beside a store or log, which filelock holds. It ends with its process,
however that ends: children that are forked, such as loader workers, let go of it at once.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from ..errors import OutputError

if TYPE_CHECKING:
    from torch import Tensor

AnyPath: TypeAlias = str | os.PathLike[str]

IMAGE_FORMATS = {  # Pillow's names: those that it decodes itself, not EPS and its like, for which it starts a program
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
    "MPO": (".mpo",),
    "JPEG2000": (".jp2", ".j2k", ".jpx"),
    "AVIF": (".avif",),
}
IMAGE_SUFFIXES = tuple(chain.from_iterable(IMAGE_FORMATS.values()))
MARK = ".hiertree-"  # in the names of all files and folders that exist only while something is written
_LOCK = f"{MARK}lock"
_FOR_EVERY_USER = 0o666  # a lock file that a killed process left hinders no other user
_LONGEST_WAIT = 1e9  # seconds: filelock takes no infinite time
_LONGEST_NAME = 200  # bytes that leave room for the rest of a temporary folder's name
_DESCRIPTORS = ("/proc/", "/dev/fd/")
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what Python makes of such bytes in names, and with "surrogateescape"
# What to do with a file, by its temporary path and that to come, before it is there.
before_replacing: ContextVar[Callable[[Path, Path], None] | None] = ContextVar("before_replacing", default=None)


@contextmanager
def replacing(path: AnyPath) -> Iterator[Path]:
    """A temporary path of the same name; the file that is written there replaces ``path`` on success.

    On an exception an existing file stays as it was. Missing parent folders are created. A link stays, and the file
    that it leads to is replaced. A pipe or a device receives the bytes instead. An OSError names ``path``.

    Raises:
        OutputError: ``path`` is something else than a file, a pipe or a device; see :func:`is_stream`.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    if is_stream(path):
        with tempfile.TemporaryDirectory() as private:
            temporary = Path(private) / Path(path).name
            yield temporary
            with temporary.open("rb") as source, Path(path).open("wb") as stream:
                shutil.copyfileobj(source, stream)
        return
    target = end_of_links(path)
    with _naming(Path(path)), temporary_folder(target) as private:
        temporary = private / target.name
        yield temporary
        flush(temporary)
        if record := before_replacing.get():
            record(temporary, target)
        temporary.replace(target)


@contextmanager
def replacing_folder(path: AnyPath) -> Iterator[Path]:
    """As :func:`replacing`, for a folder of files that belong together; an existing folder is replaced as a whole."""
    target = end_of_links(path)
    with _naming(Path(path)), temporary_folder(target) as private:
        temporary = private / target.name
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                flush(file)
        _swap(temporary, target, _aside(private, target))


@contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A new, locked folder beside ``target``, which is removed at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    private = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix_of(target)))
    handle = _open_locked(private)
    try:
        yield private
    finally:
        shutil.rmtree(private, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _open_locked(folder: Path) -> int | None:
    """A handle of a folder, locked until it is closed; None where another process has it, or folders have no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is gone, or locked
        if handle is not None:
            os.close(handle)
        return None
    return handle


def is_stream(path: AnyPath) -> bool:
    """Whether an output is a pipe or a device such as a terminal, which are written to, not replaced.

    Raises:
        OutputError: it is a disk or a socket, or the name of an open file, such as ``/dev/stdout > report.html``.
    """
    output = Path(path)
    try:
        mode = output.stat().st_mode
    except OSError:  # a new file
        return False
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return True
    is_open_file = stat.S_ISREG(mode) and _is_descriptor(output)
    if is_open_file or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "leads to an open file" if is_open_file else "is not a regular file"
        raise OutputError(f"the output {output} {kind}", expected="a file or a pipe", remedy="name the file itself")
    return False


def _is_descriptor(path: Path) -> bool:
    """Whether a path, or a link on its way, is a descriptor of this or another process."""
    while not f"{os.path.realpath(path.parent)}/".startswith(_DESCRIPTORS):
        if not path.is_symlink():
            return False
        path = path.parent / path.readlink()
    return True


def end_of_links(path: AnyPath) -> Path:
    """What a path leads to, if it is a link."""
    return Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)


def is_unused(path: AnyPath) -> bool:
    """Whether a folder is new or empty but for what calls left behind that were killed."""
    folder = Path(path)
    return not os.path.lexists(folder) or (folder.is_dir() and all(map(is_remnant, folder.iterdir())))


def is_remnant(path: Path) -> bool:
    """Whether a file or folder exists only while something is written, or because that was killed."""
    return path.name.startswith(".") and MARK in path.name


def _swap(temporary: Path, target: Path, aside: Path) -> None:
    """Rename a folder to ``target``; an existing one is set aside until then."""
    if target.is_dir():
        target.replace(aside)
    try:
        temporary.replace(target)
    except OSError:
        if aside.exists():
            aside.replace(target)
        raise


@contextmanager
def open_replacing(path: AnyPath, *, errors: str = "strict") -> Iterator[IO[str]]:
    """A UTF-8 text file, opened for writing, that replaces ``path`` on success. Lines end in a bare newline."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", errors=errors, newline="") as file:
        yield file


def write_text(path: AnyPath, text: str) -> None:
    """Write UTF-8 text to ``path`` atomically; bytes of names that are not UTF-8 become escapes, as JSON reads them."""
    with open_replacing(path, errors="backslashreplace") as file:
        file.write(text)


def write_json(path: AnyPath, value: Any) -> None:
    """Write ``value`` as indented JSON atomically, names as :func:`write_text`; NaN and infinities are a ValueError."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False)
    with open_replacing(path, errors="backslashreplace") as file:
        file.writelines(encoder.iterencode(value))
        file.write("\n")


def write_tensors(path: AnyPath, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name as safetensors, whose library would let their owner alone read them."""
    from safetensors.torch import save_file

    file = Path(path)
    file.touch()
    mode = file.stat().st_mode
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
    file.chmod(mode)


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Make errors name the target instead of the temporary file, or of no file as when the disk is full."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None and error.errno in _OF_THE_DISK
        if not unnamed and MARK not in str(error.filename):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error


def flush(path: Path) -> None:
    """Wait until a file is on the disk."""
    try:
        handle = os.open(path, os.O_RDWR)  # Windows flushes only what is open for writing
    except PermissionError:
        handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def prefix_of(target: Path) -> str:
    """The beginning of the names of temporary folders beside ``target``."""
    name = target.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}{MARK}"


def _remove_abandoned(target: Path) -> None:
    """Remove temporary folders of ``target`` that no living process has locked.

    If a process was killed while it replaced a folder, the earlier folder, which was set aside, gets its place back.
    """
    name = re.compile(re.escape(prefix_of(target)) + "[a-z0-9_]{8}")
    for private in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
        handle = _open_locked(private)
        if handle is not None:
            aside = _aside(private, target)
            if aside.exists() and not target.exists():
                aside.replace(target)
            shutil.rmtree(private, ignore_errors=True)
            os.close(handle)


def _aside(private: Path, target: Path) -> Path:
    """The place of the earlier folder while a new one is renamed."""
    return private / ("earlier" if target.name != "earlier" else "before")


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

    lock = FileLock(file, timeout=min(seconds, _LONGEST_WAIT), mode=_FOR_EVERY_USER, thread_local=False)
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
