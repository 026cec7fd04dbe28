"""The settings and the runner that all steps share.

Settings are declared once, for ``labels.yaml``, the command line and the manifest. Each step makes a folder, whole or
not at all, with a manifest of what it was made from.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field, ValidationError

import hiertree
from hiertree.errors import CheckpointError, OptionError, TableError
from hiertree.io.files import AnyPath, is_unused, replacing_folder, write_json
from hiertree.io.provenance import MANIFEST, check_outputs, manifest, read_record, sha256
from hiertree.io.reading import read_json, reading_file

from ..settings import Section

FILE_OR_NAME, GROWS = "a file, or a name", "a folder that gains files"  # marks in the annotation of a field
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
FileOrName = Annotated[str, FILE_OR_NAME]
AnySettings = TypeVar("AnySettings", bound="Settings")
HISTORY, REPORT, LABELS, HYPERNYMS = "history.json", "report.json", "labels.csv", "hypernyms.csv"
FROM_A_TABLE = (
    "from a table of landmarks, 'hiertree labels scrape TABLE --store STORE --contact YOU' asks for their types and "
    "'hiertree labels clean TABLE --store STORE --out cleaned' makes the first folder"
)
Result = TypeVar("Result")


def option(default: Any, description: str, *, name: str | None = None, **checks: Any) -> Any:
    """A field of settings; ``name`` is that of its option, if it is not the field's with hyphens."""
    return Field(default, description=description, json_schema_extra={"option": name} if name else None, **checks)


class Settings(Section):
    """Base of the settings of a step; a bad value raises OptionError.

    A field's name is its key in ``labels.yaml``; its description is its option's help. A path is read, unless it is
    marked ``GROWS``.
    """

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _option_error(error) from None


def _option_error(error: ValidationError) -> OptionError:
    """The first complaint; for a value that fits none of several types, one of each type."""
    errors = error.errors(include_url=False)
    first = errors[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, OptionError):
        problem = cause.given if not name or cause.given.startswith(f"{name}=") else f"{name}: {cause.given}"
        return OptionError(problem, expected=cause.expected, remedy=cause.remedy)
    if not name:
        return OptionError(first["msg"])
    complaints = " or ".join(dict.fromkeys(detail["msg"] for detail in errors if detail["loc"][:1] == first["loc"][:1]))
    value = "" if first["type"] == "missing" else f"={first['input']!r}"
    return OptionError(f"{name}{value}: {complaints}")


def resolve_paths(settings: AnySettings, folder: Path) -> AnySettings:
    """The settings with relative paths resolved from a folder; names without a file there stay."""
    changed: dict[str, Any] = {}
    for name, info in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, Settings):
            changed[name] = resolve_paths(value, folder)
        elif isinstance(value, Path):
            changed[name] = folder / value
        elif isinstance(value, tuple) and value and isinstance(value[0], Path):
            changed[name] = tuple(folder / path for path in value)
        elif FILE_OR_NAME in info.metadata and (folder / value).is_file():
            changed[name] = str(folder / value)
    return settings.model_copy(update=changed)


# files that several steps write


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
        files = [(Path(folder) / file["name"], file["sha256"]) for file in record.get("outputs", [])]
        untouched = all(path.is_file() and sha256(path) == digest for path, digest in files)
        return untouched and all(recorded_values.get(name) == value for name, value in expected_values.items())


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
        if self.reads and Path(self.source).is_file():
            problem = f"{self.source} is a file"
            raise TableError(problem, expected=f"a folder made by '{self.made_by}'", remedy=FROM_A_TABLE)
        for name in (*self.reads, MANIFEST) if self.reads else ():
            if not (Path(self.source) / name).is_file():
                raise TableError(f"{self.source} holds no {name}", expected=f"a folder made by '{self.made_by}'")
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
    """The table of hypernyms in a folder, if there is one."""
    file = Path(folder) / HYPERNYMS
    return (file,) if file.is_file() else ()


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
