"""The runner of all steps: each makes a folder, whole or not at all, with a manifest of what it was made from."""

from __future__ import annotations

import json
import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import hiertree
from hiertree.errors import CheckpointError, OptionError, TableError
from hiertree.io.files import AnyPath, is_unused, replacing_folder, write_json
from hiertree.io.provenance import MANIFEST, check_outputs, manifest, read_record, sha256
from hiertree.io.reading import read_json, reading_file

HISTORY, REPORT, LABELS, HYPERNYMS = "history.json", "report.json", "labels.csv", "hypernyms.csv"
FROM_A_TABLE = (
    "from a table of landmarks, 'hiertree labels scrape TABLE --store STORE --contact YOU' asks for their types and "
    "'hiertree labels clean TABLE --store STORE --out cleaned' makes the first folder"
)
Result = TypeVar("Result")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepRecord:
    """The inputs of a step's folder, known before the work begins."""

    command: str  # as a user would type it
    parameters: Mapping[str, Any]  # JSON-able settings
    inputs: tuple[AnyPath, ...]  # files read
    seed: int | None = None  # of everything random, or None

    def check(self, folder: AnyPath) -> None:
        """Refuse a folder that holds anything but what the same command made earlier."""
        check_outputs([folder], inputs=self.inputs, force=True)
        path = Path(folder)
        if is_unused(path):
            return
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else {path.name}
        record = read_record(path / MANIFEST) or {}
        outputs = record.get("outputs", []) if record.get("command") == self.command else []
        foreign = sorted(names - {MANIFEST, *(file["name"] for file in outputs)} if outputs else names)
        if foreign and MANIFEST in names and not record.get("outputs"):
            message, remedy = f"{path / MANIFEST} is damaged", f"remove {path} to have it rebuilt"
            raise CheckpointError(message, expected="the manifest of the step that wrote the folder", remedy=remedy)
        if foreign:
            message = f"out={str(path)!r} holds other files, {foreign[0]!r} for instance"
            raise OptionError(message, expected=f"a new folder or one of '{self.command}'", remedy="name another")

    def is_current(self, folder: AnyPath) -> bool:
        """Whether this version made the folder from the same inputs and settings, and its files are as they were."""
        record = read_record(Path(folder) / MANIFEST)
        if record is None:
            return False
        expected_values = {
            "command": self.command,
            "parameters": json.loads(json.dumps(dict(self.parameters))),
            "seed": self.seed,
            "hiertree": hiertree.__version__,
            "inputs": [sha256(path) for path in self.inputs],
        }
        recorded_values = {**record, "inputs": [file["sha256"] for file in record.get("inputs", [])]}
        is_same = all(recorded_values.get(name) == value for name, value in expected_values.items())
        return is_same and not _changed_files(folder)


class LabelStep(ABC, Generic[Result]):
    """A step of the pipeline; each is a frozen dataclass of what it reads and its settings.

    A step that ``reads`` files of another's folder has that one as its ``source``; its history and hypernyms go along.
    """

    source: AnyPath
    made_by: ClassVar[str] = ""  # the command that makes the source
    reads: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def record(self) -> StepRecord:
        """The inputs of the folder."""

    @abstractmethod
    def _compute(self) -> Result: ...

    @abstractmethod
    def _write(self, result: Result, folder: Path) -> None: ...

    def run(self, out: AnyPath) -> Result:
        """Make the folder ``out``: whole, with its manifest, or not at all."""
        if self.reads and not Path(self.source).is_dir():
            problem = f"{self.source} is a file" if Path(self.source).exists() else f"no such folder: {self.source}"
            raise TableError(problem, expected=f"a folder made by '{self.made_by}'", remedy=FROM_A_TABLE)
        for name in (*self.reads, MANIFEST) if self.reads else ():
            if not (Path(self.source) / name).is_file():
                raise TableError(f"{self.source} holds no {name}", expected=f"a folder made by '{self.made_by}'")
        if names := self.reads and _changed_files(self.source, self.reads):
            _log.info("%s: %s changed since it was written", self.source, ", ".join(names))
        record = self.record()
        record.check(out)
        result = self._compute()
        record.check(out)  # it may have been filled meanwhile
        with replacing_folder(out) as folder:
            if self.reads:
                write_json(folder / HISTORY, history_of(self.source))
                for file in hypernyms_of(self.source):
                    shutil.copy(file, folder)
            self._write(result, folder)
            manifest_fields = {"outputs": sorted(folder.iterdir()), **vars(record)}
            write_json(folder / MANIFEST, manifest(**manifest_fields))
        return result

    @property
    def read_files(self) -> tuple[Path, ...]:
        """The files of the source that it reads."""
        return tuple(Path(self.source) / name for name in self.reads)


def hypernyms_of(folder: AnyPath) -> tuple[Path, ...]:
    """The table of hypernyms in a folder, if there is one; refuses one that is not as its step wrote it."""
    file = Path(folder) / HYPERNYMS
    if _changed_files(folder, [HYPERNYMS]):
        remedy = "make the folder again; 'labels cluster --hypernyms' takes a table of yours"
        raise TableError(f"{file} is missing or has changed", expected="as its step wrote it", remedy=remedy)
    return (file,) if file.is_file() else ()


def _changed_files(folder: AnyPath, names: Sequence[str] | None = None) -> list[str]:
    """The files of a folder, or those of some names, that are not as its manifest says."""
    outputs = (read_record(Path(folder) / MANIFEST) or {}).get("outputs", [])
    digests = {row["name"]: row["sha256"] for row in outputs if names is None or row["name"] in names}
    files = {name: Path(folder) / name for name in digests}
    return [name for name, file in files.items() if not file.is_file() or sha256(file) != digests[name]]


def history_of(folder: AnyPath) -> list[dict[str, Any]]:
    """The steps that led to a folder, its own the last: command, settings, seed, version and files, without times."""
    path = Path(folder)
    record, history_file = read_record(path / MANIFEST), path / HISTORY
    if record is None:
        raise TableError(f"{path} holds no {MANIFEST}", expected="a folder made by 'hiertree labels'")
    expected = "as it was made"
    steps = read_json(history_file, expected=expected) if history_file.exists() else []
    with reading_file(path / MANIFEST, expected=expected):
        return [*steps, {name: record[name] for name in ("command", "parameters", "seed", "hiertree", "inputs")}]
