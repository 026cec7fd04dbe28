"""Checks of options' values and names, and options shared by several functions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import cache, partial, wraps
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from .errors import OptionError, nearest_name

Uneven = Literal["error", "pad", "truncate", "unknown"]  # what paths are that end before others do
Function = TypeVar("Function", bound=Callable[..., Any])


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Refuse an option, by name, unless a condition holds."""
    if not holds:
        raise OptionError(f"{name}={value!r}", expected=expected)


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that a ``Literal`` does not list.

    >>> from typing import Literal
    >>> check_choice("ties", "random", Literal["average", "index"])
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: ties='random': expected 'average' or 'index'
    """
    allowed = get_args(choices)
    if not any(isinstance(value, type(choice)) and value == choice for choice in allowed):
        *alternatives, last = map(repr, allowed)
        raise OptionError(f"{name}={value!r}", expected=f"{', '.join(alternatives)} or {last}")


def check_integer(name: str, value: Any, *, least: int = 1, or_none: bool = False) -> None:
    """Refuse all but integers from ``least`` on, and None where that is allowed."""
    holds = is_integer(value) and least <= int(value) < 2**63
    expected = f"an integer ≥ {least}"
    require(holds or (or_none and value is None), name, value, f"None or {expected}" if or_none else expected)


def check_number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> None:
    """Refuse all but finite numbers in a range."""
    is_readable = _is_number(value, Real) and not (isinstance(value, Integral) and abs(int(value)) >= 2**63)
    float_value = float(value) if is_readable else math.nan
    bounds = [f"≥ {least:g}"] * (least > -math.inf) + [f"> {above:g}"] * (above > -math.inf)
    bounds += [f"≤ {most:g}"] * (most < math.inf)
    expected = " ".join(["a finite number", " and ".join(bounds)]).strip()
    require(math.isfinite(float_value) and least <= float_value <= most and float_value > above, name, value, expected)


def check_each(name: str, values: Any, check: Callable[[str, Any], None], expected: str) -> tuple[Any, ...]:
    """The values as a tuple; refuse all but one or more that ``check`` accepts."""
    try:
        items = tuple(values)
    except TypeError:
        items = ()
    require(len(items) >= 1, name, values, expected)
    for item in items:
        check(name, item)
    return items


def check_shares(name: str, weights: Any, count: int | None = None) -> tuple[float, ...]:
    """The weights of levels, coarse → fine; refuse all but numbers ≥ 0 that add up to 1, to float32's precision."""
    values = weights.tolist() if hasattr(weights, "tolist") else weights
    expected = f"{'' if count is None else f'{count} '}numbers ≥ 0, one per level, that add up to 1"
    fractions = check_each(name, values, partial(check_number, least=0), expected)
    require(count in (None, len(fractions)) and abs(sum(fractions) - 1) <= 1e-5, name, weights, expected)
    return tuple(map(float, fractions))


def kinds_of(item: Field[Any]) -> tuple[Any, ...]:
    """The types that a field accepts, which its module must not postpone; a ``Literal`` is one."""
    return get_args(item.type) if get_origin(item.type) in (Union, UnionType) else (item.type,)


def choices_of(item: Field[Any]) -> Any:
    """The ``Literal`` of a field, also of one that accepts more; that of a flag; else None."""
    literals = (kind for kind in kinds_of(item) if get_origin(kind) is Literal)
    return next(literals, Literal[True, False] if item.type is bool else None)


class CheckedFields:
    """The base of dataclasses of options; OptionError for a number out of its range, or none of a field's choices."""

    def __post_init__(self) -> None:
        options: Any = self
        for item in fields(options):
            name, value, kinds, choices = item.name, getattr(options, item.name), kinds_of(item), choices_of(item)
            classes = tuple(get_origin(kind) or kind for kind in kinds if get_origin(kind) is not Literal)
            if int in kinds:
                check_integer(name, value, least=item.metadata.get("least", 1), or_none=type(None) in kinds)
            elif float in kinds:
                check_number(name, value, least=item.metadata["least"])
            elif choices is not None and not isinstance(value, classes):
                check_choice(name, value, choices)


def is_integer(value: object) -> bool:
    """Whether a value is an integer of Python or numpy, and not a boolean."""
    return _is_number(value, Integral)


def _is_number(value: object, kind: type[Any]) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


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
        parameters = signature.parameters.values()
        positional = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [parameter for source in sources for parameter in _keyword_only(source)]
        signature = signature.replace(parameters=[*positional, *keywords])

        @wraps(function)
        def checked(*arguments: Any, **options: Any) -> Any:
            for name in options.keys() - signature.parameters.keys():
                _refuse_name(name, function.__qualname__, list(signature.parameters))
            return function(*arguments, **options)

        checked.__signature__ = signature  # type: ignore[attr-defined] # read by inspect.signature
        return cast(Function, checked)

    return decorate


def split_options(options: Mapping[str, object], *sources: Callable[..., Any]) -> list[dict[str, Any]]:
    """Distribute options among the callables that declare them."""
    declared = [{parameter.name for parameter in _keyword_only(source)} for source in sources]
    return [{name: value for name, value in options.items() if name in names} for names in declared]


@cache
def _keyword_only(source: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    parameters = inspect.signature(source).parameters.values()
    return tuple(parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY)


def _refuse_name(name: str, function: str, options: list[str]) -> None:
    options = [option for option in options if option not in ("self", "cls")]
    suggestion = nearest_name(name, options, cutoff=0.5)
    problem = f"unknown option {name!r} of {function.removesuffix('.__init__')}"
    expected = f"{', '.join(options[:-1])} or {options[-1]}"
    raise OptionError(problem, expected=expected, remedy=f"did you mean {suggestion!r}?" if suggestion else None)
