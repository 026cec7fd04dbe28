"""Where files came from, and where a command may write.

A manifest beside a file or in its folder says how to make it again. A command never writes over its own inputs, and
over an existing file only if hiertree wrote it: a manifest lists its bytes (``manifest.json`` in its folder, or
``NAME.manifest.json`` beside it), or it is JSON that holds a manifest itself. A file that was edited since then
belongs to its editor. A folder is hiertree's if it holds one of the files that the caller names, by default
``manifest.json``.

An output appears after the manifest beside it, which lists what stood there before as well: wherever a command is
stopped, the file there is listed, and the same command may be given again.
"""

from __future__ import annotations

import hashlib
import os
import platform
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hiertree

from ..errors import HiertreeError, OutputError, hide_credentials
from .files import AnyPath, before_replacing, end_of_links, is_stream, is_unused, write_json
from .reading import read_json_object

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANIFEST = "manifest.json"  # of a folder
LARGEST_JSON = 1 << 26  # bytes; a result with its manifest takes a few thousand
_BYTES_AT_ONCE = 1 << 26
_RECORDED_PACKAGES = (
    *("numpy", "torch", "pandas", "scikit-learn", "faiss-cpu", "open_clip_torch", "timm", "transformers"),
    "lightning-fabric",
)


def sha256(path: AnyPath) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    return file_digest(path, hashlib.sha256())


def file_digest(path: AnyPath, digest: Any) -> str:
    """A hash of :mod:`hashlib` of a file's bytes, in hexadecimal."""
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return str(digest.hexdigest())


def digest(values: Iterable[str | NDArray[Any]]) -> str:
    """SHA-256 of texts and arrays, in hexadecimal."""
    import numpy as np

    hasher = hashlib.sha256()
    for value in values:
        if isinstance(value, str):
            hasher.update(value.encode("utf-8", "surrogateescape"))
            continue
        hasher.update(f"{value.dtype} {value.shape} ".encode())
        table = np.atleast_1d(value)
        rows = max(_BYTES_AT_ONCE // max(table[:1].nbytes, 1), 1)
        for start in range(0, len(table), rows):
            hasher.update(np.ascontiguousarray(table[start : start + rows]).data)
    return hasher.hexdigest()


def manifest(
    *,
    command: str,
    parameters: Mapping[str, Any],
    inputs: Iterable[AnyPath] = (),
    outputs: Iterable[AnyPath] = (),
    seed: int | None = None,
) -> dict[str, Any]:
    """What made some files: command, JSON-able parameters, seed, hashes of the files read and written, versions, time.

    >>> manifest(command="example", parameters={"k": 3}, seed=0)["parameters"]
    {'k': 3}
    """
    return {
        "command": hide_credentials(command),
        "parameters": map_texts(parameters, hide_credentials),
        "seed": seed,
        "inputs": [describe_file(path) for path in inputs],
        "outputs": [describe_file(path) for path in outputs],
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "hiertree": hiertree.__version__,
        "source_revision": _source_revision(),
        "python": platform.python_version(),
        "packages": {name: version for name in _RECORDED_PACKAGES if (version := _version(name))},
    }


def manifest_beside(path: AnyPath) -> Path:
    """``table.csv.manifest.json`` of ``table.csv``."""
    file = end_of_links(path)
    return file.with_name(f"{file.name}.{MANIFEST}")


@contextmanager
def recording(
    outputs: Iterable[AnyPath], *, command: str, parameters: Mapping[str, Any], inputs: Iterable[AnyPath]
) -> Iterator[None]:
    """A block in which each of the outputs, as it appears, has a manifest beside it, unless it holds one itself."""
    targets = {os.path.realpath(path) for path in outputs}
    sources = list(inputs)

    @cache
    def content() -> dict[str, Any]:
        return manifest(command=command, parameters=parameters, inputs=sources)

    def write_record(temporary: Path, target: Path) -> None:
        if os.path.realpath(target) not in targets or _holds_manifest(temporary):
            return
        output = describe_file(temporary)
        record = {**content(), "outputs": [output]}
        if target.exists() and is_written_by_hiertree(target) and (predecessor := describe_file(target)) != output:
            record["replaces"] = [predecessor]
        write_json(manifest_beside(target), record)

    token = before_replacing.set(write_record)
    try:
        yield
    finally:
        before_replacing.reset(token)


def describe_file(path: AnyPath) -> dict[str, Any]:
    """Name, size in bytes and SHA-256 of a file, as a manifest lists it."""
    return {"name": Path(path).name, "bytes": Path(path).stat().st_size, "sha256": sha256(path)}


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON-able value with each of its texts changed, keys excepted."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(entry, change) for key, entry in value.items()}
    return [map_texts(entry, change) for entry in value] if isinstance(value, list | tuple) else value


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _source_revision() -> str | None:
    """The git commit of a development checkout, or None for an installed package."""
    import subprocess  # imported here, like importlib.metadata, so that commands start fast

    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


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

    >>> check_outputs(["means.json"], inputs=["./means.json"])
    Traceback (most recent call last):
    ...
    hiertree.errors.OutputError: the output means.json is also an input: expected another file; name another output
    """
    sources, targets = _paths(inputs), [*_paths(outputs), *_paths(folders)]
    for output in targets:
        _refuse_inputs(output, sources)
        _refuse_unwritable(output)
    for output, path in product(_paths(outputs), sources):
        if output.is_dir() and _lies_inside(path, output):
            raise _error(output, f"would be replaced with {path}, an input, inside", "a folder without inputs")
    for first, second in combinations(targets, 2):
        if _is_same(first, second) or _key(first) == _key(second):
            raise _error(first, "is named twice", "a different path for every output")
    if not force:
        for output in targets:
            _refuse_foreign(output, marks)


def is_written_by_hiertree(path: AnyPath) -> bool:
    """Whether a manifest lists the file as it is now, or the file is a manifest, or JSON that holds one."""
    file = end_of_links(path)
    return _is_listed(file) or _holds_manifest(file) or _is_manifest_beside(file)


def read_record(file: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is none that can be read."""
    try:
        return read_json_object(file, expected="a manifest") if file.stat().st_size <= LARGEST_JSON else None
    except (HiertreeError, OSError):
        return None


def _paths(paths: Iterable[AnyPath | None]) -> list[Path]:
    return [Path(path) for path in paths if path is not None]


def _refuse_inputs(output: Path, inputs: Sequence[Path]) -> None:
    for path in inputs:
        if _is_same(output, path):
            raise _error(output, "is also an input", "another file")
        if path.is_dir() and _lies_inside(output, path):
            raise _error(output, f"lies inside the input folder {path}", "a path outside it")


def _refuse_unwritable(output: Path) -> None:
    if is_stream(output):
        return
    folder = next(parent for parent in output.absolute().parents if os.path.lexists(parent))
    if not folder.is_dir():
        raise _error(output, f"lies below {folder.name}, which is not a folder", "a path in a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _error(output, f"cannot be written: {folder} is read-only", "a path in a folder that can be written to")


def _refuse_foreign(output: Path, marks: Sequence[str]) -> None:
    if output.is_dir():
        if not is_unused(output) and not any((output / mark).is_file() for mark in marks):
            raise _error(output, "is a folder of other files", f"a new or empty folder, or one with {marks[0]}")
    elif output.is_file() and output.stat().st_size and not is_written_by_hiertree(output):
        message = f"the output {output} exists and hiertree did not write it as it is now"
        raise OutputError(message, expected="a new file", remedy="name another, or pass --force to replace it")


def _error(output: Path, problem: str, expected: str) -> OutputError:
    return OutputError(f"the output {output} {problem}", expected=expected, remedy="name another output")


def _is_same(first_path: Path, second_path: Path) -> bool:
    try:
        return first_path.samefile(second_path)
    except OSError:  # one of the two does not exist yet
        return os.path.realpath(first_path) == os.path.realpath(second_path)


def _lies_inside(path: Path, folder: Path) -> bool:
    return any(_is_same(parent, folder) for parent in Path(os.path.realpath(path)).parents)


def _key(path: Path) -> str:
    """A key equal for new paths that would be one file on a disk that ignores case or Unicode composition."""
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


def _is_listed(file: Path) -> bool:
    """Whether a manifest, that of the folder or one beside the file, lists it as it is now."""
    records = filter(None, map(read_record, (file.with_name(MANIFEST), manifest_beside(file))))
    outputs = [record.get(key) for record in records for key in ("outputs", "replaces")]
    entries = [entry for listing in outputs if isinstance(listing, list) for entry in listing]
    size = file.stat().st_size
    candidates = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == file.name]
    return any(entry.get("bytes") == size for entry in candidates) and describe_file(file) in candidates


def _holds_manifest(file: Path) -> bool:
    record = read_record(file) if file.suffix == ".json" else None
    return record is not None and isinstance(record.get("manifest"), dict) and "hiertree" in record["manifest"]


def _is_manifest_beside(file: Path) -> bool:
    record = read_record(file) if file.name.endswith(f".{MANIFEST}") else None
    return record is not None and {"command", "hiertree", "outputs"} <= record.keys()
