"""The base of all settings from files, options or Python: frozen, without unknown keys, with helpful errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from hiertree.errors import nearest_name

_IN_WORDS = {"sequence_str": "expected a list, as in [a, b]"}  # pydantic's types of errors


class Section(BaseModel):
    """Settings that belong together: a recipe, a plan, or a part of either."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, values: Any) -> Any:
        """Refuse keys that do not exist, and truth values where a number is meant."""
        options = values if isinstance(values, dict) else {}
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        if unknown_keys := [key for key in options if key not in fields]:
            raise custom_error("unknown_key", unknown_names(unknown_keys, fields))
        for key, value in options.items():
            kinds = list(_kinds_of(fields[key].annotation))
            if isinstance(value, bool) and (int in kinds or float in kinds) and bool not in kinds:
                problem = "expected a number; YAML reads yes and on as true, no and off as false"
                raise custom_error("truth_for_number", f"{key}={str(value).lower()}: {problem}")
        return values


def custom_error(kind: str, problem: str) -> PydanticCustomError:
    """A validator's error with the message ``problem``, which may hold braces."""
    return PydanticCustomError(kind, "{problem}", {"problem": problem})


def unknown_names(names: Iterable[object], choices: Iterable[str], kind: str = "key") -> str:
    """Say which names do not exist, and which ones were probably meant.

    >>> unknown_names(["epoch"], ["epochs", "device"])
    "unknown key 'epoch', did you mean 'epochs'?"
    >>> unknown_names(["Happier"], ["HAPPIER", "ROADMAP"], "name")
    "unknown name 'Happier', did you mean 'HAPPIER'?"
    """
    choices, complaints = list(choices), []
    for name in map(str, names):
        suggestion = nearest_name(name, choices, cutoff=0.5)
        hint = f"did you mean {suggestion!r}?" if suggestion else f"there are {', '.join(choices)}"
        complaints.append(f"unknown {kind} {name!r}, {hint}")
    return "; ".join(complaints)


def complaint(error: Any) -> str:
    """One of pydantic's errors in words: the place, what is wrong, what was given."""
    key = ".".join(map(str, error["loc"]))
    note = "" if isinstance(error["input"], dict) else f" (given {error['input']!r})"
    problem = f"{_IN_WORDS.get(error['type'], error['msg'])}{note}"
    if error["type"] == "literal_error":
        choices = re.findall("'([^']+)'", error["ctx"]["expected"])
        suggestion = nearest_name(error["input"], choices)
        problem += f"; did you mean {suggestion!r}?" if suggestion else ""
    return f"{key}: {problem}" if key else problem


def first_complaint(error: ValidationError) -> str:
    """The first of pydantic's errors in words: the place, unless it is the whole, and what is wrong."""
    first = error.errors(include_url=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))


def _kinds_of(annotation: Any) -> Iterator[Any]:
    """A type and the types it consists of."""
    yield annotation
    for argument in get_args(annotation):
        yield from _kinds_of(argument)
