"""Checks of option values that several modules share."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, get_args

from .errors import OptionError


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Refuse an option, by name, unless a condition holds.

    Raises:
        OptionError: it does not hold.
    """
    if not holds:
        raise OptionError(f"{name}={value!r}", expected=expected)


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that a ``Literal`` does not list.

    Args:
        name: of the option, as the caller typed it.
        value: given.
        choices: the ``Literal``.

    Raises:
        OptionError: the value is not among them.

    >>> from typing import Literal
    >>> check_choice("ties", "random", Literal["average", "index"])
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: ties='random': expected 'average' or 'index'
    """
    allowed = get_args(choices)
    if not any(isinstance(value, type(choice)) and value == choice for choice in allowed):
        *others, last = map(repr, allowed)
        raise OptionError(f"{name}={value!r}", expected=f"{', '.join(others)} or {last}")


def check_integer(name: str, value: Any, *, least: int = 1, or_none: bool = False) -> None:
    """Refuse what is no integer from ``least`` on (nor None, where that is allowed).

    Raises:
        OptionError: the value is none.

    >>> check_integer("seed", -1, least=0)
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: seed=-1: expected an integer ≥ 0
    """
    holds = is_integer(value) and least <= int(value) < 2**63
    expected = f"an integer ≥ {least}"
    require(holds or (or_none and value is None), name, value, f"None or {expected}" if or_none else expected)


def check_number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> None:
    """Refuse what is no finite number, or lies outside a range.

    Raises:
        OptionError: the value is none.

    >>> check_number("tau", "3", above=0)
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: tau='3': expected a finite number > 0
    """
    fits = _is_number(value, Real) and not (isinstance(value, Integral) and abs(int(value)) >= 2**63)
    number = float(value) if fits else math.nan
    bounds = [f"≥ {least:g}"] * (least > -math.inf) + [f"> {above:g}"] * (above > -math.inf)
    bounds += [f"≤ {most:g}"] * (most < math.inf)
    expected = " ".join(["a finite number", " and ".join(bounds)]).strip()
    require(math.isfinite(number) and least <= number <= most and number > above, name, value, expected)


def check_each(name: str, values: Any, check: Callable[[str, Any], None], expected: str) -> tuple[Any, ...]:
    """The values as a tuple; refuse what is no sequence of at least one, or holds one that ``check`` refuses.

    Raises:
        OptionError: the values are none, or too few, or one of them is refused.

    >>> check_each("ks", (1, 0), check_integer, "integers ≥ 1")
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: ks=0: expected an integer ≥ 1
    """
    try:
        items = tuple(values)
    except TypeError:
        items = ()
    require(len(items) >= 1, name, values, expected)
    for item in items:
        check(name, item)
    return items


def check_shares(name: str, weights: Any, number: int | None = None) -> tuple[float, ...]:
    """The weights of levels, coarse → fine; refuse any but numbers ≥ 0 that add up to 1, to float32's precision.

    Raises:
        OptionError: other weights, or not ``number`` of them.

    >>> check_shares("level_weights", (0.5, 0.6))
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: level_weights=(0.5, 0.6): expected numbers ≥ 0, one a level, that add up to 1
    """
    given = weights.tolist() if hasattr(weights, "tolist") else weights
    expected = f"{'' if number is None else f'{number} '}numbers ≥ 0, one a level, that add up to 1"
    shares = check_each(name, given, partial(check_number, least=0), expected)
    require(number in (None, len(shares)) and abs(sum(shares) - 1) <= 1e-5, name, weights, expected)
    return tuple(map(float, shares))


def is_integer(value: object) -> bool:
    """Whether it is an integer, from Python or numpy; a boolean is none."""
    return _is_number(value, Integral)


def _is_number(value: object, kind: type[Any]) -> bool:
    """Whether it is a number of this kind, from Python or numpy; a boolean is none."""
    return isinstance(value, kind) and not isinstance(value, bool)
