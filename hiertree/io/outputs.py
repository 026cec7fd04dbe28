"""Where a command may write: never over its own inputs, and over an existing file only if hiertree wrote it.

A file counts as written by hiertree if a manifest lists its bytes (``manifest.json`` in its folder, or
``NAME.manifest.json`` beside it, see :func:`hiertree.io.provenance.write_manifest_beside`), or if it is JSON that holds
a manifest itself. A file that was edited since is its editor's. A folder counts as hiertree's if it holds one of the
files that the caller names, by default ``manifest.json``.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import OutputError
from .provenance import MANIFEST, manifest_beside, sha256

AnyPath: TypeAlias = str | os.PathLike[str]
LARGEST_JSON = 1 << 26  # bytes; a result with its manifest takes a few thousand


def check_outputs(
    outputs: Iterable[AnyPath | None],
    *,
    inputs: Iterable[AnyPath | None] = (),
    folders: Iterable[AnyPath | None] = (),
    force: bool = False,
    marks: Sequence[str] = (MANIFEST,),
) -> None:
    """Refuse outputs that would destroy something, or cannot be written. Call it before the work begins.

    Two paths are the same if they lead to one file or folder: through links, relative parts, or another case on a disk
    that ignores case. None stands for an option that was not given.

    Args:
        outputs: files to write, and folders to replace as a whole.
        inputs: files and folders to read.
        folders: folders that gain files and keep what else they hold; inputs may lie in them.
        force: replace an existing file, or use a folder, that hiertree did not write. It never allows an input.
        marks: files that show that a folder is hiertree's; name those of unfinished work too.

    Raises:
        OutputError: an output is an input, lies inside an input folder, or is another output; it replaces a folder that
            holds an input; or it exists, hiertree did not write it, and ``force`` is False; or its folder cannot be
            made or written to.

    >>> check_outputs(["means.json"], inputs=["./means.json"])
    Traceback (most recent call last):
    ...
    hiertree.errors.OutputError: the output means.json is also an input: expected another file; name another output
    """
    read = _given(inputs)
    replaced, joined = _given(outputs), _given(folders)
    for output in (*replaced, *joined):
        _refuse_inputs(output, read)
        _refuse_unwritable(output)
    for output in replaced:
        for path in read:
            if output.is_dir() and _lies_inside(path, output):
                raise _error(output, f"would be replaced with {path}, an input, inside", "a folder without inputs")
    for one, other in combinations((*replaced, *joined), 2):
        if _is_same(one, other) or _key(one) == _key(other):
            raise _error(one, "is named twice", "a different path for every output")
    if not force:
        for output in (*replaced, *joined):
            _refuse_foreign(output, marks)


def is_written_by_hiertree(path: AnyPath) -> bool:
    """Whether a manifest lists the file as it is now, or the file is JSON that holds one."""
    file = Path(path)
    return _is_listed(file) or _holds_manifest(file)


def _given(paths: Iterable[AnyPath | None]) -> list[Path]:
    return [Path(path) for path in paths if path is not None]


def _refuse_inputs(output: Path, inputs: Sequence[Path]) -> None:
    for path in inputs:
        if _is_same(output, path):
            raise _error(output, "is also an input", "another file")
        if path.is_dir() and _lies_inside(output, path):
            raise _error(output, f"lies inside the input folder {path}", "a path outside it")


def _refuse_unwritable(output: Path) -> None:
    """Refuse a path whose nearest existing folder is a file, or lets nobody write."""
    folder = next(parent for parent in output.absolute().parents if os.path.lexists(parent))
    if not folder.is_dir():
        raise _error(output, f"lies below {folder.name}, which is no folder", "a path in a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _error(output, f"cannot be written: {folder} is read-only", "a path in a folder that can be written to")


def _refuse_foreign(output: Path, marks: Sequence[str]) -> None:
    if output.is_dir():
        if any(output.iterdir()) and not any((output / mark).is_file() for mark in marks):
            raise _error(output, "is a folder of other files", f"a new or empty folder, or one with {marks[0]}")
    elif output.exists() and not output.is_file():
        raise _error(output, "is no regular file", "a file")
    elif output.exists() and output.stat().st_size and not is_written_by_hiertree(output):
        raise OutputError(
            f"the output {output} exists and hiertree did not write it as it is now",
            expected="a new file",
            remedy="name another, or pass --force to replace it",
        )


def _error(output: Path, problem: str, expected: str) -> OutputError:
    return OutputError(f"the output {output} {problem}", expected=expected, remedy="name another output")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)


def _lies_inside(path: Path, folder: Path) -> bool:
    return any(_is_same(parent, folder) for parent in Path(os.path.realpath(path)).parents)


def _key(path: Path) -> str:
    """Equal for new files that would be one on a disk that ignores case or composition."""
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


def _is_listed(file: Path) -> bool:
    for path in (file.with_name(MANIFEST), manifest_beside(file)):
        for entry in _entries(path):
            if entry.get("name") == file.name and entry.get("bytes") == file.stat().st_size:
                return bool(entry.get("sha256") == sha256(file))
    return False


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """The output files that a manifest lists."""
    record = _json(path)
    if isinstance(record, dict) and isinstance(record.get("outputs"), list):
        yield from (entry for entry in record["outputs"] if isinstance(entry, dict))


def _holds_manifest(file: Path) -> bool:
    content = _json(file) if file.suffix == ".json" else None
    return isinstance(content, dict) and isinstance(content.get("manifest"), dict) and "hiertree" in content["manifest"]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes()) if path.stat().st_size <= LARGEST_JSON else None
    except (OSError, ValueError, RecursionError):
        return None
