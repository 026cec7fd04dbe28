"""Print the public API: every public name of every public module, with the parameters of what can be called.

``python scripts/public_api.py > tests/package/public_api.txt`` renews the committed snapshot after an intended change.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

MODULES = (
    "hiertree",
    "hiertree.datasets",
    "hiertree.errors",
    "hiertree.relevance",
    "hiertree.samplers",
    "hiertree.tree",
    "hiertree.metrics",
    "hiertree.metrics.functional",
    "hiertree.metrics.rerank",
    "hiertree.metrics.statistics",
    "hiertree.losses",
    "hiertree.losses.functional",
    "hiertree.pipelines.inference",
    "hiertree.pipelines.labels",
    "hiertree.pipelines.report.plots",
)


def public_api() -> str:
    """One line per name, in the order of :data:`MODULES` and the alphabet, then methods of unlisted bases."""
    public = {f"{module}.{name}": value for module in MODULES for name, value in _names(import_module(module))}
    classes = {value for value in public.values() if inspect.isclass(value)}
    bases = {base for cls in classes for base in cls.__mro__ if base.__module__.startswith("hiertree")} - classes
    lines = [line for name, value in public.items() for line in (f"{name}{_parameters(value)}", *_members(name, value))]
    lines += sorted(line for base in bases for line in _members(f"{base.__module__}.{base.__qualname__}", base))
    return "".join(f"{line}\n" for line in lines)


def _names(module: ModuleType) -> list[tuple[str, object]]:
    return [(name, getattr(module, name)) for name in sorted(getattr(module, "__all__", None) or _defined_in(module))]


def _defined_in(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _members(name: str, owner: object) -> Iterator[str]:
    """Public methods and properties that a class defines itself."""
    for member, value in sorted(vars(owner).items()) if inspect.isclass(owner) else ():
        if not member.startswith("_") and _is_method(value):
            yield f"{name}.{member}{_parameters(value)}"


def _is_method(member: object) -> bool:
    return isinstance(member, property | classmethod | staticmethod) or inspect.isfunction(member)


def _parameters(value: object) -> str:
    """Names, kinds and defaults; not the types, which Python versions print differently."""
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    if not callable(value) or (inspect.isclass(value) and issubclass(value, BaseException | enum.Enum)):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # a type alias
        return ""
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


if __name__ == "__main__":
    print(public_api(), end="")
