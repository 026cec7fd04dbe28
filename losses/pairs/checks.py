"""The check that every option passes through."""

from __future__ import annotations

from hiertree.errors import OptionError


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Refuse an option, by name, unless a condition holds.

    Raises:
        OptionError: it does not hold.
    """
    if not holds:
        raise OptionError(f"{name}={value!r}", expected=expected)
