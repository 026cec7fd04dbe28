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
    """One line per name, in the order of :data:`MODULES` and the alphabet."""
    return "".join(f"{line}\n" for module in MODULES for line in _lines_of(module))


def _lines_of(module: str) -> Iterator[str]:
    loaded = import_module(module)
    for name in sorted(getattr(loaded, "__all__", None) or _defined_in(loaded)):
        value = getattr(loaded, name)
        yield f"{module}.{name}{_parameters(value)}"
        if inspect.isclass(value):
            for member in _members(value):
                yield f"{module}.{name}.{member}{_parameters(inspect.getattr_static(value, member))}"


def _defined_in(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _members(owner: type) -> list[str]:
    """Public methods and properties that classes of ours define."""
    own = [cls for cls in owner.__mro__ if cls.__module__.startswith("hiertree")]
    return sorted({name for cls in own for name in vars(cls) if not name.startswith("_") and _is_method(cls, name)})


def _is_method(owner: type, name: str) -> bool:
    found = vars(owner)[name]
    return isinstance(found, property | classmethod | staticmethod) or inspect.isfunction(found)


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
