"""Sections of a recipe whose keys are the options of a function or class, read from its signature.

So a loss's option is declared where the loss is, with its type and default, and nowhere else.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, create_model, model_validator
from pydantic_core import PydanticCustomError


class RecipeSection(BaseModel):
    """A part of a recipe: frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        unknown = [key for key in values if key not in known] if isinstance(values, dict) else []
        if unknown:
            raise PydanticCustomError("unknown_key", "{problem}", {"problem": _unknown(unknown, known)})
        return values

    @model_validator(mode="before")
    @classmethod
    def _refuse_truth_for_numbers(cls, values: Any) -> Any:
        given = values if isinstance(values, dict) else {}
        for name, field in cls.model_fields.items():
            key, kinds = field.alias or name, list(_kinds_of(field.annotation))
            if isinstance(given.get(key), bool) and (int in kinds or float in kinds) and bool not in kinds:
                truth = str(given[key]).lower()
                problem = f"{key}={truth}: expected a number; YAML reads yes and on as true, no and off as false"
                raise PydanticCustomError("truth_for_number", "{problem}", {"problem": problem})
        return values


def _kinds_of(annotation: Any) -> Iterator[Any]:
    """A type and all that it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _kinds_of(part)


class Component(RecipeSection):
    """A section that names a function or class; subclasses hold its options."""

    name: str

    def options(self) -> dict[str, Any]:
        """The keyword arguments to call it with."""
        return {key: getattr(self, key) for key in type(self).model_fields if key != "name"}


class _Kind(NamedTuple):
    module: str
    prefix: str  # of the callables' names, left out in recipes
    marker: str  # the parameter that every callable of this kind has
    derived: frozenset[str]  # parameters that the run knows and a recipe may not set
    renamed: Mapping[str, str] = {}  # parameters that have another name in recipes


LOSS, LOSS_FACTORY = "Loss", "LossFactory"  # annotations, as the signatures of losses write them
_KINDS = {
    "data": _Kind("hiertree.datasets", "load_", "split", frozenset({"split"}), {"split_column": "split"}),
    "sampler": _Kind("hiertree.samplers", "", "paths", frozenset({"paths", "seed"})),
    "loss": _Kind(
        "hiertree.losses",
        "",
        "",
        frozenset({"num_classes", "embedding_size", "level_sizes", "num_levels", "class_paths"}),
    ),
}


def component(kind: str) -> Callable[[Any], Component]:
    """A validator that turns ``{"name": …, option: …}`` into the component of that name."""

    def validate(value: Any) -> Component:
        if isinstance(value, Component):
            return value
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise PydanticCustomError("unnamed", "expected a mapping with a 'name'")
        known = names(kind)
        if value["name"] not in known:
            raise PydanticCustomError(
                "unknown_name", "{problem}", {"problem": _unknown([value["name"]], known, "name")}
            )
        return component_model(kind, value["name"]).model_validate(value)

    return validate


def names(kind: str) -> list[str]:
    """The names a component of this kind can have.

    >>> "synthetic" in names("data")
    True
    """
    module = import_module(_KINDS[kind].module)
    prefix = _KINDS[kind].prefix
    found = [name for name in module.__all__ if name.startswith(prefix) and _is_component(kind, getattr(module, name))]
    return sorted(name.removeprefix(prefix) for name in found)


def target(kind: str, name: str) -> Callable[..., Any]:
    """The function or class that a component names."""
    found: Callable[..., Any] = getattr(import_module(_KINDS[kind].module), _KINDS[kind].prefix + name)
    return found


def makes(kind: str, name: str, parameter: str) -> bool:
    """Whether the parameter is what makes a loss for a number of classes, not a loss."""
    return str(inspect.signature(target(kind, name)).parameters[parameter].annotation) == LOSS_FACTORY


def takes(kind: str, name: str, parameter: str) -> bool:
    """Whether the function or class has this parameter."""
    return parameter in inspect.signature(target(kind, name)).parameters


def _is_component(kind: str, candidate: Any) -> bool:
    if kind == "loss":
        from hiertree.losses import Loss

        return inspect.isclass(candidate) and issubclass(candidate, Loss) and candidate is not Loss
    return callable(candidate) and _KINDS[kind].marker in inspect.signature(candidate).parameters


@cache
def component_model(kind: str, name: str) -> type[Component]:
    """The section of the component of that name: a key for each option of its signature."""
    function = target(kind, name)
    fields: dict[str, Any] = {"name": (Literal[name], name)}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in _KINDS[kind].derived:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            key = _KINDS[kind].renamed.get(parameter.name)
            fields[parameter.name] = (_field_type(parameter), Field(default, alias=key))
    return create_model(name, __base__=Component, __module__=function.__module__, **fields)


def _field_type(parameter: inspect.Parameter) -> Any:
    """What a recipe holds for a parameter: for a loss, or what makes one, a section that names it."""
    if str(parameter.annotation) in (LOSS, LOSS_FACTORY):
        return SerializeAsAny[Annotated[Component, BeforeValidator(component("loss"))]]
    return parameter.annotation


def _unknown(given: Iterable[str], known: Iterable[str], what: str = "key") -> str:
    """What is wrong with names that do not exist, and which was probably meant."""
    known = list(known)
    parts = []
    for name in map(str, given):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
        parts.append(f"unknown {what} {name!r}, {hint}")
    return "; ".join(parts)
