"""Folders that a step makes: whole or not at all, with a manifest that says from what, and never over other files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hiertree
from hiertree.errors import OptionError, TableError
from hiertree.files import replacing_folder, write_json
from hiertree.provenance import manifest, sha256

MANIFEST, HISTORY = "manifest.json", "history.json"
AnyPath = str | os.PathLike[str]


@contextmanager
def made_folder(
    folder: AnyPath,
    *,
    command: str,
    parameters: Mapping[str, Any],
    inputs: Iterable[AnyPath],
    seed: int | None = None,
) -> Iterator[Path]:
    """A temporary folder to fill; on success it gets its manifest and takes the place of ``folder``.

    Args:
        folder: what to make; an earlier one of the same command gives way.
        command: as a user would type it.
        parameters: JSON-able settings.
        inputs: files read.
        seed: the one seed.

    Raises:
        OptionError: ``folder`` holds other files.
    """
    check_replaceable(folder, command)
    with replacing_folder(folder) as temporary:
        yield temporary
        outputs = sorted(temporary.iterdir())
        record = manifest(command=command, parameters=parameters, inputs=inputs, outputs=outputs, seed=seed)
        write_json(temporary / MANIFEST, record)


def check_replaceable(folder: AnyPath, command: str) -> None:
    """An empty folder or what the same command made earlier may give way; other people's files may not.

    Raises:
        OptionError: there are such.
    """
    path = Path(folder)
    if not path.exists():
        return
    found = {entry.name for entry in path.iterdir()} if path.is_dir() else {path.name}
    record = read_manifest(path) or {}
    own = (
        {MANIFEST, *(file["name"] for file in record.get("outputs", []))} if record.get("command") == command else set()
    )
    if found - own:
        raise OptionError(
            f"out={str(path)!r} holds other files, {sorted(found - own)[0]!r} for instance",
            expected=f"a new folder or an earlier one of '{command}'",
            remedy="name another",
        )


def read_manifest(folder: AnyPath) -> dict[str, Any] | None:
    """A folder's manifest, or None where there is none that can be read."""
    try:
        record = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def history_of(folder: AnyPath) -> list[dict[str, Any]]:
    """The steps that led to a folder, the last its own: command, settings, seed, version and the files read, no times.

    Raises:
        TableError: its manifest or its ``history.json`` cannot be read.
    """
    path = Path(folder)
    record, earlier = read_manifest(path), path / HISTORY
    if record is None:
        raise TableError(f"{path} holds no {MANIFEST}", expected="a folder made by 'hiertree labels'")
    try:
        steps = json.loads(earlier.read_text(encoding="utf-8")) if earlier.exists() else []
        return [*steps, {name: record[name] for name in ("command", "parameters", "seed", "hiertree", "inputs")}]
    except (ValueError, KeyError) as error:
        raise TableError(f"{path}: {error}", expected=f"{MANIFEST} and {HISTORY} as they were made") from None


def is_current(
    folder: AnyPath, *, command: str, parameters: Mapping[str, Any], inputs: Iterable[AnyPath], seed: int | None = None
) -> bool:
    """Whether a folder was made by this version from just these inputs and settings, and has not been touched since."""
    record = read_manifest(folder)
    if record is None:
        return False
    asked = {
        "command": command,
        "parameters": json.loads(json.dumps(dict(parameters))),
        "seed": seed,
        "inputs": [(Path(path).name, sha256(path)) for path in inputs],
        "hiertree": hiertree.__version__,
    }
    made = {name: record.get(name) for name in asked}
    made["inputs"] = [(file["name"], file["sha256"]) for file in record.get("inputs", [])]
    return made == asked and all(_is_whole(Path(folder), file) for file in record.get("outputs", []))


def check_made_by(folder: AnyPath, *, command: str, files: Iterable[str]) -> Path:
    """The folder, if it holds the files that a step reads.

    Raises:
        TableError: it is not there or lacks one.
    """
    path = Path(folder)
    missing = [name for name in files if not (path / name).is_file()]
    if missing:
        raise TableError(f"{path} holds no {missing[0]}", expected=f"a folder made by '{command}'")
    return path


def _is_whole(folder: Path, file: Mapping[str, Any]) -> bool:
    path = folder / file["name"]
    return path.is_file() and sha256(path) == str(file["sha256"])
