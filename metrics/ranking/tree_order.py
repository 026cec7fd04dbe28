"""A gallery in tree order: every Ω^{+,l} of every query is then one contiguous range of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TreeOrder(NamedTuple):
    """Where the items of a gallery stand, and what range of them agrees with each query.

    Attributes:
        order: (N,) gallery indices in tree order.
        place: (N,) its inverse: where each gallery item stands.
        low: (Q, L) first place of the range Ω^{+,l}, l = 1 … L.
        high: (Q, L) one past its last place.
        queries: (Q,) query indices in tree order: neighbors share ranges.
    """

    order: NDArray[np.int64]
    place: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    queries: NDArray[np.int64]

    def totals(self) -> NDArray[np.int64]:
        """(Q, L+1) items at each level."""
        at_least = np.column_stack([np.full(len(self.low), len(self.order)), self.high - self.low])
        at_least[:, :-1] -= at_least[:, 1:]
        return at_least


def tree_order(query_paths: NDArray[np.int64], gallery_paths: NDArray[np.int64]) -> TreeOrder:
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


def _sorted(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
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
def fill_levels(low: NDArray[np.int64], high: NDArray[np.int64], levels: NDArray[np.uint8]) -> None:
    """Write the level of every item, in tree order, for r queries."""
    levels[:] = 0
    for row in range(low.shape[0]):
        for level in range(low.shape[1]):
            levels[row, low[row, level] : high[row, level]] = level + 1
