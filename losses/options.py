"""Options of losses: checked by name, and declared once where several losses have the same ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache, wraps
from typing import Any, TypeVar, cast

from hiertree.errors import OptionError

Function = TypeVar("Function", bound=Callable[..., Any])


def with_options_of(*sources: Callable[..., Any]) -> Callable[[Function], Function]:
    """Make ``**options`` of a function accept the keyword-only options of other functions, and no others.

    ``inspect.signature``, and so ``help`` and the keys of recipes, shows each of them with its type and default. For
    type checkers, annotate ``**options`` with ``Unpack`` of a TypedDict.

    >>> def line(*, slope: float = 1.0, start: float = 0.0): ...
    >>> @with_options_of(line)
    ... def draw(size, **options): ...
    >>> print(inspect.signature(draw))
    (size, *, slope: 'float' = 1.0, start: 'float' = 0.0)
    >>> draw(3, slop=2.0)
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: unknown option 'slop' of draw: expected size, slope or start; did you mean 'slope'?
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        shared = [parameter for source in sources for parameter in _keyword_only(source)]
        signature = signature.replace(parameters=[*own, *shared])

        @wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            for name in options.keys() - signature.parameters.keys():
                _refuse(name, function.__qualname__, list(signature.parameters))
            return function(*arguments, **options)

        checked.__signature__ = signature  # type: ignore[attr-defined] # read by inspect.signature
        return cast(Function, checked)

    return decorate


def split_options(options: Mapping[str, object], *sources: Callable[..., Any]) -> list[dict[str, Any]]:
    """Which options go to which of the callables that declare them."""
    known = [{parameter.name for parameter in _keyword_only(source)} for source in sources]
    return [{name: value for name, value in options.items() if name in names} for names in known]


@cache
def _keyword_only(source: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    parameters = inspect.signature(source).parameters.values()
    return tuple(parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY)


def _refuse(name: str, function: str, known: list[str]) -> None:
    known = [each for each in known if each != "self"]
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    raise OptionError(
        f"unknown option {name!r} of {function.removesuffix('.__init__')}",
        expected=f"{', '.join(known[:-1])} or {known[-1]}",
        remedy=f"did you mean {close[0]!r}?" if close else None,
    )
