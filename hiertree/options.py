"""Checks of option values that several modules share."""

from __future__ import annotations

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
