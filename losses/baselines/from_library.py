"""Classes of pytorch-metric-learning by their names."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from torch import nn

from hiertree.errors import OptionError, require_package
from hiertree.options import require

LIBRARY = "pytorch_metric_learning"


def _library(part: str) -> ModuleType:
    require_package(LIBRARY, extra="interop")
    return import_module(f"{LIBRARY}.{part}")


def library_class(part: str, name: str) -> type:
    """The class of this name in ``losses`` or ``miners``, or an error that names a similar one."""
    module = _library(part)
    known = [other for other, value in vars(module).items() if inspect.isclass(value)]
    if name in known:
        found: type = getattr(module, name)
        return found
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    remedy = f"did you mean {close[0]!r}?" if close else None
    raise OptionError(repr(name), expected=f"a class of {LIBRARY}.{part}", remedy=remedy)


def built(part: str, given: Any, options: Mapping[str, Any]) -> nn.Module:
    """An object of a named class; an object is returned as it is."""
    if isinstance(given, nn.Module):
        require(not options, "options", options, f"none for a {type(given).__name__} that is already made")
        return given
    require(isinstance(given, str), part, given, f"the name of a class of {LIBRARY}.{part}, or an object of one")
    found = library_class(part, given)
    try:
        built: nn.Module = found(**options)
    except TypeError as error:
        raise OptionError(f"options {sorted(options)} of {given}", expected=f"its own ({error})") from error
    return built
