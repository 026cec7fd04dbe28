"""Folders that a step makes: whole or not at all, with a manifest of what they were made from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hiertree
from hiertree.errors import OptionError, TableError
from hiertree.io.files import replacing_folder, write_json
from hiertree.io.outputs import check_outputs
from hiertree.io.provenance import MANIFEST, manifest, sha256

# files that several steps write
HISTORY, REPORT, LABELS, HYPERNYMS = "history.json", "report.json", "labels.csv", "hypernyms.csv"
AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class StepRecord:
    """What a step makes its folder from, known before the work begins.

    Attributes:
        command: as a user would type it.
        parameters: JSON-able settings.
        inputs: files read.
        seed: of everything random, or None.
    """

    command: str
    parameters: Mapping[str, Any]
    inputs: tuple[AnyPath, ...]
    seed: int | None = None

    def check(self, folder: AnyPath) -> None:
        """Refuse a folder that holds anything but what the same command made earlier.

        Raises:
            OutputError: the folder is an input, or holds one.
            OptionError: it holds other files.
        """
        check_outputs([folder], inputs=self.inputs, force=True)
        path = Path(folder)
        if not path.exists():
            return
        found = {entry.name for entry in path.iterdir()} if path.is_dir() else {path.name}
        record = _manifest_of(path) or {}
        made = record.get("outputs", []) if record.get("command") == self.command else []
        others = sorted(found - {MANIFEST, *(file["name"] for file in made)} if made else found)
        if others:
            raise OptionError(
                f"out={str(path)!r} holds other files, {others[0]!r} for instance",
                expected=f"a new folder or an earlier one of '{self.command}'",
                remedy="name another",
            )

    @contextmanager
    def writing(self, folder: AnyPath) -> Iterator[Path]:
        """A temporary folder to fill; on success it gets its manifest and takes the place of ``folder``.

        Raises:
            OptionError: as :meth:`check`.
        """
        self.check(folder)
        with replacing_folder(folder) as temporary:
            yield temporary
            record = manifest(
                command=self.command,
                parameters=self.parameters,
                inputs=self.inputs,
                outputs=sorted(temporary.iterdir()),
                seed=self.seed,
            )
            write_json(temporary / MANIFEST, record)

    def is_current(self, folder: AnyPath) -> bool:
        """Whether this version made the folder from the same inputs and settings, and its files are as they were."""
        record = _manifest_of(folder)
        if record is None:
            return False
        asked = {
            "command": self.command,
            "parameters": json.loads(json.dumps(dict(self.parameters))),
            "seed": self.seed,
            "hiertree": hiertree.__version__,
            "inputs": [sha256(path) for path in self.inputs],
        }
        made = {**record, "inputs": [file["sha256"] for file in record.get("inputs", [])]}
        untouched = all(_is_whole(Path(folder), file) for file in record.get("outputs", []))
        return untouched and all(made.get(name) == value for name, value in asked.items())


def hypernyms_of(folder: AnyPath) -> tuple[Path, ...]:
    """The table of hypernyms in a folder, if there is one."""
    file = Path(folder) / HYPERNYMS
    return (file,) if file.is_file() else ()


def history_of(folder: AnyPath) -> list[dict[str, Any]]:
    """The steps that led to a folder, its own the last: command, settings, seed, version and files read, but no times.

    Raises:
        TableError: its manifest or its ``history.json`` cannot be read.
    """
    path = Path(folder)
    record, earlier = _manifest_of(path), path / HISTORY
    if record is None:
        raise TableError(f"{path} holds no {MANIFEST}", expected="a folder made by 'hiertree labels'")
    try:
        steps = json.loads(earlier.read_text(encoding="utf-8")) if earlier.exists() else []
        return [*steps, {name: record[name] for name in ("command", "parameters", "seed", "hiertree", "inputs")}]
    except (ValueError, KeyError) as error:
        raise TableError(f"{path}: {error}", expected=f"{MANIFEST} and {HISTORY} as they were made") from None


def made_by(folder: AnyPath, *, command: str, files: Iterable[str]) -> Path:
    """The folder, if it holds the files that a step reads.

    Raises:
        TableError: it is not there or lacks one.
    """
    path = Path(folder)
    missing = [name for name in (*files, MANIFEST) if not (path / name).is_file()]
    if missing:
        raise TableError(f"{path} holds no {missing[0]}", expected=f"a folder made by '{command}'")
    return path


def _manifest_of(folder: AnyPath) -> dict[str, Any] | None:
    try:
        record = json.loads((Path(folder) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _is_whole(folder: Path, file: Mapping[str, Any]) -> bool:
    path = folder / file["name"]
    return path.is_file() and sha256(path) == str(file["sha256"])
