"""Sections of a recipe whose keys are the options of a function or class, read from its signature.

So a loss's option is declared where the loss is, with its type and default, and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Set
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, SerializeAsAny, create_model

from ...settings import Section, custom_error, unknown_names


class Component(Section):
    """A section that names a function or class; subclasses hold its options."""

    name: str

    def options(self) -> dict[str, Any]:
        """The keyword arguments to call it with."""
        return {key: getattr(self, key) for key in type(self).model_fields if key != "name"}


class _Kind(NamedTuple):
    module: str
    derived: Set[str]  # parameters that the run knows and a recipe may not set
    renamed: Mapping[str, str] = {}  # parameters that have another name in recipes


LOSS, LOSS_FACTORY = "Loss", "LossFactory"  # annotations, as the signatures of losses write them
_KINDS = {
    "data": _Kind("hiertree.datasets.registry", {"split"}, {"split_column": "split"}),
    "sampler": _Kind("hiertree.samplers", {"paths", "seed"}),
    "loss": _Kind("hiertree.losses", {"num_classes", "embedding_size", "level_sizes", "num_levels", "class_paths"}),
}


def component(kind: str) -> Callable[[Any], Component]:
    """A validator that turns ``{"name": …, option: …}`` into the component of that name."""

    def validate(value: Any) -> Component:
        if isinstance(value, Component):
            return value
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise custom_error("unnamed", "expected a mapping with a 'name'")
        known = _components(kind)
        if value["name"] not in known:
            raise custom_error("unknown_name", unknown_names([value["name"]], known, "name"))
        return component_model(kind, value["name"]).model_validate(value)

    return validate


def names(kind: str) -> list[str]:
    """The names a component of this kind can have."""
    return sorted(name for name, made in _components(kind).items() if not isinstance(made, partial))


def target(kind: str, name: str) -> Callable[..., Any]:
    """The function or class that a component names."""
    return _components(kind)[name]


@cache
def _components(kind: str) -> Mapping[str, Callable[..., Any]]:
    module: Any = import_module(_KINDS[kind].module)
    if kind == "data":
        return dict[str, Callable[..., Any]](module.LOADERS)
    named = {name: getattr(module, name) for name in module.__all__}
    if kind == "sampler":
        return {name: found for name, found in named.items() if callable(found) and "paths" in _parameters(found)}
    classes = {name: found for name, found in named.items() if inspect.isclass(found)}
    return {name: found for name, found in classes.items() if issubclass(found, module.Loss) and name != "Loss"}


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def makes(kind: str, name: str, parameter: str) -> bool:
    """Whether the parameter is what makes a loss for a number of classes, not a loss."""
    return str(_parameters(target(kind, name))[parameter].annotation) == LOSS_FACTORY


def takes(kind: str, name: str, parameter: str) -> bool:
    """Whether the function or class has this parameter."""
    return parameter in _parameters(target(kind, name))


@cache
def component_model(kind: str, name: str) -> type[Component]:
    """The section of the component of that name: a key for each option of its signature."""
    function = target(kind, name)
    fields: dict[str, Any] = {"name": (Literal[name], ...)}  # required: a fingerprint leaves out defaults
    settled = {*_KINDS[kind].derived, *(function.keywords if isinstance(function, partial) else ())}
    for parameter in _parameters(function).values():
        if parameter.name not in settled:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            key = _KINDS[kind].renamed.get(parameter.name)
            fields[parameter.name] = (_field_type(parameter), Field(default, alias=key))
    return create_model(name, __base__=Component, __module__=getattr(function, "func", function).__module__, **fields)


def _field_type(parameter: inspect.Parameter) -> Any:
    """What a recipe holds for a parameter: for a loss, or what makes one, a section that names it."""
    if str(parameter.annotation) in (LOSS, LOSS_FACTORY):
        return SerializeAsAny[Annotated[Component, BeforeValidator(component("loss"))]]
    return parameter.annotation
