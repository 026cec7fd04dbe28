"""Runs and judgments as triples, (query, item, score) or (query, item, level), whatever form they came in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS, to_numpy
from hiertree.errors import EmbeddingError, HiertreeError, PathError, ShapeError, TableError
from hiertree.io.tables import is_missing
from hiertree.options import check_choice

if TYPE_CHECKING:
    from numpy.typing import NDArray


NegativeQrels = Literal["error", "irrelevant"]


class Triples(NamedTuple):
    """T rows, with numbers in place of names.

    Attributes:
        queries: the name of each query number; a query may have no row.
        items: the name of each item number.
        query: (T,) numbers of queries.
        item: (T,) numbers of items.
        value: (T,) float64 scores, larger being better, or levels.
        source: what it came from, for the convention card and for messages.
        line: (T,) the line of the file on which each row stands; None without a file.
    """

    queries: Sequence[Hashable]
    items: Sequence[Hashable]
    query: NDArray[np.int64]
    item: NDArray[np.int64]
    value: NDArray[np.float64]
    source: str
    line: NDArray[np.int64] | None = None

    def refuse(
        self, bad: NDArray[np.bool_], what: str, *, expected: str, kind: type[HiertreeError], remedy: str | None = None
    ) -> None:
        """Raise for the first bad row, if there is one; for a file a TableError that names the line."""
        rows = np.flatnonzero(bad)
        if not len(rows):
            return
        row = rows[0]
        place = f"item {self.items[self.item[row]]!r} of query {self.queries[self.query[row]]!r}"
        if self.line is not None:
            place, kind = f"{self.source}, line {self.line[row]}: {place}", TableError
        raise kind(f"{what.format(self.value[row])}: {place}", expected=expected, remedy=remedy)

    def pairs(self) -> NDArray[np.int64]:
        """(T,) one number for each query and item."""
        return self.query * max(len(self.items), 1) + self.item


def checked_run(run: Triples) -> Triples:
    """Refuse missing names, NaN scores and items listed twice."""
    _check_names(run)
    run.refuse(np.isnan(run.value), "NaN for a score", expected="numbers or ±inf", kind=EmbeddingError)
    run.refuse(_repeats(run.pairs()), "listed twice", expected="no item twice in the list of a query", kind=PathError)
    return run


def checked_qrels(qrels: Triples, *, negative: NegativeQrels = "error") -> Triples:
    """Refuse judgments that are no levels, and items judged twice; those below 0 may be irrelevant."""
    check_choice("negative_qrels", negative, NegativeQrels)
    _check_names(qrels)
    whole = qrels.value == np.floor(qrels.value)
    if negative == "irrelevant":
        qrels = qrels._replace(value=np.where(whole, qrels.value.clip(min=0), qrels.value))
    else:
        advice = "pass negative_qrels='irrelevant' (--negative-qrels irrelevant) to count it at level 0"
        below = whole & (qrels.value < 0)
        qrels.refuse(below, "level {:g}", expected="an integer from 0, irrelevant", kind=PathError, remedy=advice)
    level = qrels.value
    bad = ~((level >= 0) & (level <= MAX_LEVELS) & (level == np.floor(level)))
    qrels.refuse(bad, "level {:g}", expected=f"an integer from 0, irrelevant, to {MAX_LEVELS}", kind=PathError)
    qrels.refuse(_repeats(qrels.pairs()), "judged twice", expected="one level for a query and item", kind=PathError)
    return qrels


def _check_names(triples: Triples) -> None:
    for role, names in (("query", triples.queries), ("item", triples.items)):
        if any(not isinstance(name, str) and is_missing(name) for name in names):
            raise PathError(f"{triples.source}: {role} without a name", expected="text or a number for each")


def rows_of_names(names: Any, what: str, number: int) -> dict[Hashable, int]:
    """The row of each name.

    Raises:
        ShapeError: another number of names than of rows.
        PathError: a name that is missing or given twice.
    """
    listed = to_numpy(names).tolist() if hasattr(names, "dtype") else list(names) if np.iterable(names) else []
    if len(listed) != number:
        raise ShapeError(f"{len(listed)} {what}", expected=f"{number}, one a path")
    rows: dict[Hashable, int] = {}
    for row, name in enumerate(listed):
        if is_missing(name):
            raise PathError(f"{what} without a name in row {row}", expected="text or a number for each")
        if number_of(name, rows, what) != row:
            raise PathError(f"{what}: {name!r} in rows {rows[name]} and {row}", expected="different names")
    return rows


def number_of(name: Any, numbers: dict[Hashable, int], role: str) -> int:
    """The number of a name, the next one for a new name."""
    try:
        return numbers.setdefault(name, len(numbers))
    except TypeError:
        raise PathError(f"the {role} {name!r:.80}", expected="a name: text or a number") from None


def _repeats(pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows repeat an earlier one."""
    repeats = np.ones(len(pairs), np.bool_)
    repeats[np.unique(pairs, return_index=True)[1]] = False
    return repeats
