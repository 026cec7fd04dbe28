"""What all settings of steps share: they are declared once, for ``labels.yaml``, the command line and the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hiertree.errors import OptionError

FILE_OR_NAME, GROWS = "a file, or a name", "a folder that gains files"  # marks in the annotation of a field
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
FileOrName = Annotated[str, FILE_OR_NAME]
AnySettings = TypeVar("AnySettings", bound="Settings")


class Settings(BaseModel):
    """Base of the settings of a step.

    A field's name is its key in ``labels.yaml`` and, with hyphens, its option; its description is the option's help.
    ``json_schema_extra={"option": …}`` gives the option another name. A path is read, unless it is marked ``GROWS``.

    Raises:
        OptionError: an unknown name, or a value of the wrong type or out of range.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _option_error(error, type(self).model_fields) from None


def _option_error(error: ValidationError, known: Iterable[str]) -> OptionError:
    """The first complaint, unknown keys first; for a value that fits none of several types, one of each type."""
    errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    first = errors[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, OptionError):
        is_of_section = name and not cause.given.startswith(f"{name}=")
        given = f"{name}: {cause.given}" if is_of_section else cause.given
        return OptionError(given, expected=cause.expected, remedy=cause.remedy)
    if first["type"] == "extra_forbidden":
        close = get_close_matches(name, known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else None
        return OptionError(f"unknown key {name!r}", expected=f"one of {', '.join(known)}", remedy=remedy)
    complaints = " or ".join(dict.fromkeys(one["msg"] for one in errors if one["loc"][:1] == first["loc"][:1]))
    value = "" if first["type"] == "missing" else f"={first['input']!r}"
    return OptionError(f"{name}{value}: {complaints}")


def beside(settings: AnySettings, folder: Path) -> AnySettings:
    """The settings with every relative path taken from a folder; names that are no file there stay.

    >>> from hiertree.pipelines.labels.plan import LabelsPlan
    >>> beside(LabelsPlan(landmarks="ids.csv"), Path("data")).landmarks.as_posix()
    'data/ids.csv'
    """
    changed: dict[str, Any] = {}
    for name, info in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, Settings):
            changed[name] = beside(value, folder)
        elif isinstance(value, Path):
            changed[name] = folder / value
        elif isinstance(value, tuple) and value and isinstance(value[0], Path):
            changed[name] = tuple(folder / path for path in value)
        elif FILE_OR_NAME in info.metadata and (folder / value).is_file():
            changed[name] = str(folder / value)
    return settings.model_copy(update=changed)
