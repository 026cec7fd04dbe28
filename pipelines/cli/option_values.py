"""Values of options: texts that are not empty, integers in a range, and lists that commas separate."""

from __future__ import annotations

from typing import Any

import click


class Name(click.types.StringParamType):
    """A text that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text."""
        if not str(value).strip():
            self.fail("expected a name, not an empty text", param, ctx)
        return str(value)


class CommaSeparated(click.types.StringParamType):
    """Several values with commas between them; the command receives a tuple.

    Args:
        kind: makes each value of its text.
        what: the values, as messages call them.
    """

    def __init__(self, kind: type[str] | type[int] | type[float], what: str) -> None:
        self.kind, self.what = kind, what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The values.

        >>> NAMES.convert("kind, landmark", None, None), INTEGERS.convert("0,1", None, None)
        (('kind', 'landmark'), (0, 1))
        """
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        try:
            values = tuple(self.kind(part) for part in parts)
        except ValueError:
            values = ()
        if not values or not all(parts):
            self.fail(f"{value!r}: expected {self.what} separated by commas", param, ctx)
        return values


class WholeNumber(click.types.IntParamType):
    """An integer in a range, which is said only when it is left.

    Args:
        lowest: the smallest number.
        greatest: the largest.
    """

    def __init__(self, lowest: int, greatest: int) -> None:
        self.lowest, self.greatest = lowest, greatest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The integer."""
        number = int(super().convert(value, param, ctx))
        if not self.lowest <= number <= self.greatest:
            self.fail(f"{number}: expected an integer between {self.lowest} and {self.greatest}", param, ctx)
        return number


NAME = Name()
NAMES = CommaSeparated(str, "names")
INTEGERS = CommaSeparated(int, "integers")
NUMBERS = CommaSeparated(float, "numbers")
COUNT = WholeNumber(1, 2**31 - 1)
SEED = WholeNumber(0, 2**32 - 1)
