"""A gallery in tree order as each query sees it: where its positives stand, and what its list leaves out.

In tree order every Ω^{+,l} of every query is one contiguous range. Scores of some queries with a part of the gallery
are accompanied by ``rows``, the indices of the queries, and ``places``, where the items of the part stand, rising.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.jit import Array, Bytes, Ints, jit

from .counting import count_among
from .sorted_positives import SortedPositives, count_others_by_index, empty_positives, gather

if TYPE_CHECKING:
    from ..conventions import Rules
    from .masks import Mask


class TreeOrder(NamedTuple):
    """Where the items of a gallery stand, and what range of them agrees with each query.

    Attributes:
        order: (N,) gallery indices in tree order.
        place: (N,) its inverse: where each gallery item stands.
        low, high: (Q, L) the first place of the range Ω^{+,l}, l = 1 … L, and one past its last.
        queries: (Q,) query indices in tree order: neighbors share ranges.
    """

    order: Ints
    place: Ints
    low: Ints
    high: Ints
    queries: Ints

    def totals(self) -> Ints:
        """(Q, L+1) items at each level."""
        at_least = np.column_stack([np.full(len(self.low), len(self.order)), self.high - self.low])
        at_least[:, :-1] -= at_least[:, 1:]
        return at_least


@dataclass(frozen=True, eq=False)
class Gallery:
    """A gallery in tree order, and what each query's list holds of it.

    Attributes:
        tree: the order, and the ranges of each query's positives.
        mask: the items that each list leaves out.
        totals: (Q, L+1) items of each level in each list.
        counts: (Q, L+1) items of each level as the relevance of ``H-AP`` counts them; None for those of each list.
    """

    tree: TreeOrder
    mask: Mask
    totals: Ints
    counts: Ints | None

    def __len__(self) -> int:
        return len(self.tree.order)

    def most_positives(self, rows: slice | Ints = slice(None)) -> int:
        """The longest range of positives of some queries."""
        return int((self.tree.high[rows, 0] - self.tree.low[rows, 0]).max(initial=0))

    def positive_columns(self, places: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The first column of each query's positives and one past the last."""
        return np.searchsorted(places, self.tree.low[rows, 0]), np.searchsorted(places, self.tree.high[rows, 0])

    def masked(self, places: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Rows and columns of the scores that are left out."""
        queries, items = self.mask.pairs(rows)
        wanted = self.tree.place[items]
        columns = np.searchsorted(places, wanted)
        inside = places[np.minimum(columns, len(places) - 1)] == wanted
        return queries[inside], columns[inside]

    def leave_out(self, scores: Array, places: Ints, rows: Ints) -> None:
        """Give masked items the score −inf, which no cosine is."""
        scores[self.masked(places, rows)] = -np.inf

    def empty_positives(self, rows: Ints, dtype: np.dtype[Any], *, by_index: bool) -> SortedPositives:
        """Where the positives of some queries are gathered; ``by_index`` says whether indices order equal scores."""
        return empty_positives(len(rows), self.most_positives(rows), dtype, by_index=by_index)

    def gather(self, scores: Array, places: Ints, rows: Ints, positives: SortedPositives) -> None:
        """Append the positives to those of earlier parts."""
        low, high = (np.searchsorted(places, bounds[rows]) for bounds in (self.tree.low, self.tree.high))
        gather(scores, places, low, high, self.tree.order, positives)

    def count(self, scores: Array, places: Ints, rows: Ints, positives: SortedPositives) -> None:
        """Count the other items among the sorted positives."""
        low, high = self.positive_columns(places, rows)
        if positives.item.shape[1]:
            stop = np.full(len(scores), len(places))
            count_others_by_index(scores, self.tree.order[None, places], low, high, stop, positives)
        else:
            count_among(scores, low, high, positives)


def labeled_gallery(query_paths: Ints, gallery_paths: Ints, mask: Mask, rules: Rules) -> Gallery:
    """A gallery from the paths of queries (Q, L) and items (N, L), what lists leave out, and how ``H-AP`` counts."""
    tree = tree_order(query_paths, gallery_paths)
    totals = tree.totals() - mask.counts(query_paths, gallery_paths)
    counts = tree_order(query_paths, query_paths).totals() if rules.counts == "official" else None
    return Gallery(tree, mask, totals, counts)


def tree_order(query_paths: Ints, gallery_paths: Ints) -> TreeOrder:
    """Put the gallery in tree order.

    >>> import numpy as np
    >>> found = tree_order(np.array([[0, 1]]), np.array([[1, 0], [0, 1], [1, 0], [0, 2]]))
    >>> found.order, found.low, found.high
    (array([1, 3, 0, 2]), array([[0, 0]]), array([[2, 1]]))
    """
    num_items = len(gallery_paths)
    columns = [np.concatenate(pair) for pair in zip(gallery_paths.T, query_paths.T, strict=True)]
    everything = _sorted(columns)
    of_gallery = everything < num_items
    order, queries = everything[of_gallery], everything[~of_gallery] - num_items
    low = np.empty(query_paths.shape, np.int64)
    high = np.empty(query_paths.shape, np.int64)
    at = np.flatnonzero(~of_gallery)  # where queries stand among everything
    differs = np.zeros(len(everything), np.bool_)  # from the row ahead, down to a level
    differs[:1] = True
    for level, column in enumerate(columns):
        ordered = column[everything]
        differs[1:] |= ordered[1:] != ordered[:-1]
        starts = np.append(np.flatnonzero(differs), len(everything))  # of rows that agree down to the level
        own = np.searchsorted(starts, at, side="right")
        for bound, places in ((own - 1, low), (own, high)):
            places[queries, level] = starts[bound] - np.searchsorted(at, starts[bound])
    place = np.empty(num_items, np.int64)
    place[order] = np.arange(num_items)
    return TreeOrder(order, place, low, high, queries)


def _sorted(columns: list[Ints]) -> Ints:
    """The order of rows by their first column, then the next, by 16 bits at a time, which numpy sorts by counting."""
    order = None
    for column in reversed(columns):
        lowest = column.min(initial=0)
        left = int(column.max(initial=0)) - int(lowest)
        above = column.view(np.uint64) - lowest.view(np.uint64)
        while left:
            digits = above.astype(np.uint16)
            if order is None:
                order = np.argsort(digits, kind="stable")
            else:
                order = order[np.argsort(digits[order], kind="stable")]
            left >>= 16
            above >>= np.uint64(16)
    return np.arange(len(columns[0])) if order is None else order


@jit
def fill_levels(low: Ints, high: Ints, levels: Bytes) -> None:
    """Write the level of every item, in tree order, for r queries."""
    levels[:] = 0
    for row in range(low.shape[0]):
        for level in range(low.shape[1]):
            levels[row, low[row, level] : high[row, level]] = level + 1
