"""A gallery in tree order: the places of each query's positives, and the items its list excludes.

In tree order every Ω^{+,l} of every query is one contiguous range. Scores of some queries against a tile of the gallery
come with ``rows``, the indices of the queries, and ``positions``, those of the tile's items in tree order, ascending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import to_numpy, unmatched
from hiertree.errors import OptionError, PathError, ShapeError
from hiertree.evaluation_options import Rules, Ties
from hiertree.io.tables import is_missing
from hiertree.jit import Array, Bools, Bytes, Floats, Ints, jit

from .ranked import Ranked, rank_matrix
from .sorted_positives import (
    BYTES_OF_A_POSITIVE,
    SortedPositives,
    count_negatives,
    empty_positives,
    gather,
)


class Mask(NamedTuple):
    """Excluded pairs of queries and gallery items: row q holds ``item[start[q] : start[q + 1]]``."""

    start: Ints  # (Q+1,)
    item: Ints  # gallery indices, ascending in each row, without repeats
    rule: str  # which items are excluded, for the convention card
    dropped: Literal["first", "last"] | None = None  # the item that each list loses after ranking

    def excluded(self, queries: slice | Ints, column: Ints) -> Bools:
        """(r, N) booleans for some queries; item j is in column ``column[j]``."""
        rows, items = self.pairs(queries)
        excluded = np.zeros((len(self.start[:-1][queries]), len(column)), np.bool_)
        excluded[rows, column[items]] = True
        return excluded

    def pairs(self, queries: slice | Ints) -> tuple[Ints, Ints]:
        """The pairs of some queries: rows, numbered from 0, and items."""
        start = self.start[:-1][queries]
        counts = self.start[1:][queries] - start
        rows, item = _each(start, counts)
        return rows, self.item[item]

    def counts(self, query_paths: Ints, gallery_paths: Ints, depths: Ints | None) -> Ints:
        """(Q, L+1) the number of excluded items of each level."""
        rows, items = self.pairs(slice(0, len(query_paths)))
        levels = np.logical_and.accumulate(query_paths[rows] == gallery_paths[items], axis=1).sum(axis=1)
        if depths is not None:
            levels[levels != depths[items]] = 0
        counts = np.zeros((len(query_paths), query_paths.shape[1] + 1), np.int64)
        np.add.at(counts, (rows, levels), 1)
        return counts


class TreeOrder(NamedTuple):
    """The places of a gallery's items, and the range of places that shares each level with each query."""

    order: Ints  # (N,) gallery indices in tree order
    position: Ints  # (N,) its inverse
    low: Ints  # (Q, L) first place of the range Ω^{+,l}, l = 1 … L
    high: Ints  # (Q, L) one past its last place
    queries: Ints  # (Q,) query indices in tree order: neighbors share ranges

    def totals(self) -> Ints:
        """(Q, L+1) items at each level."""
        at_least = np.column_stack([np.full(len(self.low), len(self.order)), self.high - self.low])
        at_least[:, :-1] -= at_least[:, 1:]
        return at_least


@dataclass(frozen=True, eq=False)
class Gallery:
    """A gallery in tree order, and the items of it in each query's list."""

    tree: TreeOrder
    mask: Mask  # the items that each list excludes
    totals: Ints  # (Q, L+1) items of each level in each list
    counts: Ints | None  # (Q, L+1) as the relevance of H-AP counts them; None for the totals
    depths: Ints | None = None  # (N,) of items that are nodes, by gallery index; None of others

    def __len__(self) -> int:
        return len(self.tree.order)

    def needs_lists(self, ties: Ties) -> bool:
        """Whether rankings need the scores of whole lists."""
        return ties == "index" or self.mask.dropped is not None or self.depths is not None

    def most_positives(self, rows: slice | Ints = slice(None)) -> int:
        """The longest range of positives of some queries."""
        return int((self.tree.high[rows, 0] - self.tree.low[rows, 0]).max(initial=0))

    def row_bytes(self, rows: slice | Ints = slice(None)) -> int:
        """Memory of the sorted positives of a query."""
        return BYTES_OF_A_POSITIVE * max(self.most_positives(rows), 1)

    def positive_columns(self, positions: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The first column of each query's positives and one past the last."""
        return np.searchsorted(positions, self.tree.low[rows, 0]), np.searchsorted(positions, self.tree.high[rows, 0])

    def masked(self, positions: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Rows and columns of the excluded scores."""
        queries, items = self.mask.pairs(rows)
        item_positions = self.tree.position[items]
        columns = np.searchsorted(positions, item_positions)
        is_match = positions[np.minimum(columns, len(positions) - 1)] == item_positions
        return queries[is_match], columns[is_match]

    def leave_out(self, scores: Array, positions: Ints, rows: Ints) -> None:
        """Set the scores of excluded items to −inf, which is no cosine."""
        scores[self.masked(positions, rows)] = -np.inf

    def empty_positives(self, rows: Ints, dtype: np.dtype[Any]) -> SortedPositives:
        """An empty container for the positives of some queries."""
        return empty_positives(len(rows), self.most_positives(rows), dtype)

    def gather(self, scores: Array, positions: Ints, rows: Ints, positives: SortedPositives) -> None:
        """Append the positives to those of earlier parts."""
        low, high = (np.searchsorted(positions, bounds[rows]) for bounds in (self.tree.low, self.tree.high))
        gather(scores, low, high, positives)

    def rank_lists(
        self, scores: Array, rows: slice | Ints, *, ties: Ties
    ) -> tuple[Callable[[Ties, Floats], Ranked], Ints]:
        """What ranks whole lists (r, N), and the totals (r, L+1) without the item that each list loses."""
        tree, levels = self.tree, np.empty(scores.shape, np.uint8)
        fill_levels(tree.low[rows], tree.high[rows], levels)
        if self.depths is not None:
            levels[levels != self.depths[tree.order]] = 0
        excluded = self.mask.excluded(rows, tree.position)
        totals = drop_ranked(self.mask.dropped, scores, levels, excluded, tree.order, self.totals[rows])
        return rank_matrix(scores, levels, excluded, ties=ties, position=tree.position), totals

    def count(self, scores: Array, positions: Ints, rows: Ints, positives: SortedPositives) -> None:
        """Count the other items among the sorted positives."""
        low, high = self.positive_columns(positions, rows)
        stop = np.full(len(scores), len(positions))
        count_negatives(scores, low, high, stop, positives)


def labeled_gallery(query_paths: Ints, gallery_paths: Ints, mask: Mask, rules: Rules) -> Gallery:
    """Build a gallery from the paths of queries (Q, L) and items (N, L), a mask, and ``H-AP``'s counting rules."""
    queries = unmatched(query_paths)
    tree, depths = tree_order(queries, gallery_paths), node_depths(gallery_paths, rules)
    totals = tree.totals() if depths is None else _totals_of_nodes(queries, gallery_paths, depths)
    totals -= mask.counts(queries, gallery_paths, depths)
    counts = tree_order(queries, query_paths).totals() if rules.counts == "official" else None
    return Gallery(tree, mask, totals, counts, depths)


def node_depths(gallery_paths: Ints, rules: Rules) -> Ints | None:
    """(N,) the depth of each item if items are nodes by the rules."""
    depths: Ints = (gallery_paths >= 0).sum(axis=1)
    return depths if rules.gallery == "nodes" else None


def _totals_of_nodes(queries: Ints, gallery_paths: Ints, depths: Ints) -> Ints:
    """(Q, L+1) nodes on each query's way, by depth, and all others at level 0."""
    totals = np.zeros((len(queries), queries.shape[1] + 1), np.int64)
    for level in range(1, totals.shape[1]):
        tree = tree_order(queries, gallery_paths[depths == level])
        totals[:, level] = tree.high[:, level - 1] - tree.low[:, level - 1]
    totals[:, 0] = len(gallery_paths) - totals.sum(axis=1)
    return totals


def tree_order(query_paths: Ints, gallery_paths: Ints) -> TreeOrder:
    """Compute the tree order."""
    num_items = len(gallery_paths)
    columns = [np.concatenate(pair) for pair in zip(gallery_paths.T, query_paths.T, strict=True)]
    joint_order = _sorted(columns)
    of_gallery = joint_order < num_items
    order, queries = joint_order[of_gallery], joint_order[~of_gallery] - num_items
    low = np.empty(query_paths.shape, np.int64)
    high = np.empty(query_paths.shape, np.int64)
    at = np.flatnonzero(~of_gallery)  # the places of queries among queries and items
    differs = np.zeros(len(joint_order), np.bool_)  # from the previous row, down to a level
    differs[:1] = True
    for level, column in enumerate(columns):
        labels = column[joint_order]
        differs[1:] |= labels[1:] != labels[:-1]
        starts = np.append(np.flatnonzero(differs), len(joint_order))  # of rows that agree down to the level
        groups = np.searchsorted(starts, at, side="right")
        for bound, positions in ((groups - 1, low), (groups, high)):
            positions[queries, level] = starts[bound] - np.searchsorted(at, starts[bound])
    position = np.empty(num_items, np.int64)
    position[order] = np.arange(num_items)
    return TreeOrder(order, position, low, high, queries)


def _sorted(columns: list[Ints]) -> Ints:
    """Sort rows by first column, then the next; numpy sorts numbers of 16 bits by counting."""
    digits = [column.view(np.uint64) - column.min(initial=0).view(np.uint64) for column in reversed(columns)]
    return np.lexsort([digit.astype(np.min_scalar_type(digit.max(initial=0))) for digit in digits])


def mask_of(
    num_queries: int, num_items: int | None, *, query_ids: Any, gallery_ids: Any, junk: Any, rules: Rules
) -> Mask:
    """Check ids and junk lists, and turn them into a mask.

    With ``num_items=None`` queries retrieve each other, and query i is item i. Items of a query's own id are left out,
    and the gallery indices of its ``junk``. By the ``rules`` the first hit goes instead of items known by index or id.
    """
    size = num_queries if num_items is None else num_items
    with_ids = query_ids is not None or gallery_ids is not None
    same_id = _same_id(query_ids, gallery_ids, num_queries, num_items) if with_ids else None
    pairs, rules_text = [np.empty(0, np.int64)], []  # row · size + item of each pair
    dropped: Literal["first", "last"] | None = None
    if rules.itself == "first hit" and (num_items is None or with_ids):
        dropped = "first"
        rules_text.append("the first hit dropped as the query")
    else:
        if num_items is None:
            pairs.append(np.arange(num_queries) * (size + 1))
            rules_text.append("each query masked by index")
        if same_id is not None:
            pairs.append(same_id)
            rules_text.append("items of the query's own id masked")
    if rules.worst == "dropped" and num_items is not None and not with_ids:
        dropped = "last"
        rules_text.append("the worst item dropped")
    if junk is not None:
        pairs.append(_junk_pairs(junk, num_queries, size))
        rules_text.append(f"{len(pairs[-1])} junk entries masked")
    flat = np.unique(np.concatenate(pairs))
    start = np.searchsorted(flat, np.arange(num_queries + 1) * size)
    retrieval = "self-retrieval" if num_items is None else "separate gallery"
    return Mask(start, flat % max(size, 1), ", ".join([retrieval, *(rules_text or ["nothing dropped"])]), dropped)


def _same_id(query_ids: Any, gallery_ids: Any, num_queries: int, num_items: int | None) -> Ints:
    if query_ids is None or (gallery_ids is None) != (num_items is None):
        expected = "query_ids alone in self-retrieval, query_ids and gallery_ids with a separate gallery"
        raise OptionError("ids of one side", expected=expected)
    queries = _as_ids(query_ids, "query_ids", num_queries)
    items = queries if num_items is None else _as_ids(gallery_ids, "gallery_ids", num_items)
    if queries.dtype.kind != items.dtype.kind:
        raise OptionError("query_ids and gallery_ids of two types", expected="integers in both, or strings in both")
    order = np.argsort(items, kind="stable")
    low = np.searchsorted(items[order], queries, side="left")
    counts = np.searchsorted(items[order], queries, side="right") - low
    rows, item = _each(low, counts)
    return rows * len(items) + order[item]


def _each(start: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The indices of several ranges, concatenated, and the range that each belongs to."""
    runs = np.repeat(np.arange(len(counts)), counts)
    return runs, np.arange(len(runs)) + np.repeat(start - np.cumsum(counts) + counts, counts)


def _as_ids(values: Any, name: str, num_items: int) -> Array:
    ids = to_numpy(values)
    if ids.shape != (num_items,):
        raise ShapeError(f"{name} of shape {ids.shape}", expected=f"({num_items},), one per item")
    if ids.dtype.kind == "O" and all(isinstance(value, str) for value in ids):
        ids = ids.astype(np.str_)
    missing = np.array([is_missing(value) for value in ids.tolist()]) if ids.dtype.kind in "Of" else np.zeros(0)
    if missing.any():
        problem = f"{name} without an id in {missing.sum()} rows, first in row {missing.argmax()}"
        raise OptionError(problem, expected="an id in every row", remedy="give such rows ids of their own")
    if ids.dtype.kind not in "iuU" and num_items > 0:
        raise OptionError(f"{name} of type {ids.dtype}", expected="integers or strings")
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _junk_pairs(junk: Any, num_queries: int, num_items: int) -> Ints:
    lists = list(junk) if np.iterable(junk) else []
    if len(lists) != num_queries:
        raise ShapeError(f"junk of {len(lists)} lists", expected=f"{num_queries}, one per query")
    arrays = [to_numpy([*items] if isinstance(items, Iterator) else items) for items in lists]
    for row, array in enumerate(arrays):
        integers = array.dtype.kind in "iu" or array.size == 0
        if array.ndim != 1 or not integers or (array.size and not 0 <= array.min() <= array.max() < num_items):
            raise PathError(f"junk of query {row}", expected=f"gallery indices from 0 to {num_items - 1}")
    pairs = [row * num_items + array.astype(np.int64) for row, array in enumerate(arrays)]
    return np.concatenate([np.empty(0, np.int64), *pairs])


def drop_ranked(
    end: Literal["first", "last"] | None, scores: Array, levels: Bytes, excluded: Bools, index: Ints, totals: Ints
) -> Ints:
    """Exclude the first or last item of each row's list, or none, and return the totals without it.

    Of equal scores the item of smaller index stands first; ``index`` holds the gallery index of each column.
    """
    if end is None or not len(index):
        return totals
    signed = np.where(excluded, -np.inf, scores if end == "first" else -scores)
    tied = (signed == signed.max(axis=1, keepdims=True)) & ~excluded
    columns = np.where(tied, index if end == "first" else len(index) - 1 - index, len(index)).argmin(axis=1)
    rows = np.flatnonzero(tied.any(axis=1))
    excluded[rows, columns[rows]] = True
    left: Ints = totals.copy()
    left[rows, levels[rows, columns[rows]]] -= 1
    return left


@jit
def fill_levels(low: Ints, high: Ints, levels: Bytes) -> None:
    """Write the level of every item, in tree order, for r queries."""
    levels[:] = 0
    for row in range(low.shape[0]):
        for level in range(low.shape[1]):
            levels[row, low[row, level] : high[row, level]] = level + 1
