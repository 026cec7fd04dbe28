"""Checks of option values that several modules share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, get_args

from .errors import OptionError


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


def check_integer(name: str, value: object, *, least: int) -> None:
    """Refuse what is no integer, or is too small.

    Args:
        name: of the option, as the caller typed it.
        value: given.
        least: the smallest allowed.

    Raises:
        OptionError: the value is not such an integer.

    >>> check_integer("seed", -1, least=0)
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: seed=-1: expected an integer ≥ 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise OptionError(f"{name}={value!r}", expected=f"an integer ≥ {least}")


def check_number(name: str, value: object) -> None:
    """Refuse what is no real number.

    Raises:
        OptionError: the value is none.

    >>> check_number("alpha", "3")
    Traceback (most recent call last):
    ...
    hiertree.errors.OptionError: alpha='3': expected a number
    """
    if not isinstance(value, Real):
        raise OptionError(f"{name}={value!r}", expected="a number")
