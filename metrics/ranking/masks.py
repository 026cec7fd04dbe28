"""Items left out of a query's list: the query itself by index or id, its sequence, junk, or the first or last item.

A mask is a sparse set of (query, gallery item) pairs in compressed rows: row q holds ``item[start[q] : start[q + 1]]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hiertree.jit import Array, Bools, Bytes, Ints


from hiertree.arrays import as_paths, to_numpy
from hiertree.errors import OptionError, PathError, ShapeError

from ..conventions import OURS, Rules


class Mask(NamedTuple):
    """Pairs of queries and gallery items that are left out.

    Attributes:
        start: (Q+1,) int64.
        item: gallery indices, each once a row, rising.
        rule: which items are left out, as the convention card says it.
        place: the item that each list loses once it is ranked: its first, its last, or none.
    """

    start: Ints
    item: Ints
    rule: str
    place: Literal["first", "last"] | None = None

    def excluded(self, queries: slice | Ints, column: Ints) -> Bools:
        """(r, N) booleans for some queries, item j standing at ``column[j]``."""
        rows, items = self.pairs(queries)
        excluded = np.zeros((len(self.start[:-1][queries]), len(column)), np.bool_)
        excluded[rows, column[items]] = True
        return excluded

    def pairs(self, queries: slice | Ints) -> tuple[Ints, Ints]:
        """The pairs of some queries: rows, counted from the first of them, and items."""
        start = self.start[:-1][queries]
        number = self.start[1:][queries] - start
        rows, item = _each(start, number)
        return rows, self.item[item]

    def rows(self, queries: slice) -> Mask:
        """The pairs of some queries as a mask of their own."""
        start = self.start[queries.start : queries.stop + 1]
        return self._replace(start=start - start[0], item=self.item[start[0] : start[-1]])

    def counts(self, query_paths: Ints, gallery_paths: Ints) -> Ints:
        """(Q, L+1) how many items of each level are left out."""
        rows, items = self.pairs(slice(0, len(query_paths)))
        agree = np.logical_and.accumulate(query_paths[rows] == gallery_paths[items], axis=1)
        counts = np.zeros((len(query_paths), query_paths.shape[1] + 1), np.int64)
        np.add.at(counts, (rows, agree.sum(axis=1)), 1)
        return counts


def mask_of(
    num_queries: int,
    num_items: int | None,
    *,
    query_ids: Any = None,
    gallery_ids: Any = None,
    junk: Iterable[Iterable[int]] | None = None,
    rules: Rules = OURS,
) -> Mask:
    """Check ids and junk lists and turn them into a mask.

    Args:
        num_queries: Q.
        num_items: N of a separate gallery; None in self-retrieval, where query i is item i and is masked.
        query_ids: Q ids; items of a query's id are left out. In self-retrieval the gallery's ids are these.
        gallery_ids: N ids of a separate gallery.
        junk: for each query the gallery indices to leave out.
        rules: whether the first hit goes instead of items known by index or id, and whether the worst item goes.

    Raises:
        OptionError: ids of one side only, or of another type than integers or strings.
        ShapeError: another number of ids or lists than of queries or items.
        PathError: a junk index outside the gallery.
    """
    size = num_queries if num_items is None else num_items
    with_ids = query_ids is not None or gallery_ids is not None
    same_id = _same_id(query_ids, gallery_ids, num_queries, num_items) if with_ids else None
    pairs, words = [], []
    place: Literal["first", "last"] | None = None
    if rules.itself == "first hit" and (num_items is None or with_ids):
        place = "first"
        words.append("the first hit dropped as the query")
    else:
        if num_items is None:
            pairs.append((np.arange(num_queries), np.arange(num_queries)))
            words.append("each query masked by index")
        if same_id is not None:
            pairs.append(same_id)
            words.append("items of the query's own id masked")
    if rules.worst == "dropped" and num_items is not None and not with_ids:
        place = "last"
        words.append("the worst item dropped")
    if junk is not None:
        pairs.append(_junk_pairs(junk, num_queries, size))
        words.append(f"{len(pairs[-1][0])} junk entries masked")
    flat = np.unique(np.concatenate([rows * size + items for rows, items in pairs] or [np.empty(0, np.int64)]))
    start = np.searchsorted(flat, np.arange(num_queries + 1) * size)
    retrieval = "self-retrieval" if num_items is None else "separate gallery"
    return Mask(start, flat % max(size, 1), ", ".join([retrieval, *(words or ["nothing dropped"])]), place)


def _same_id(query_ids: Any, gallery_ids: Any, num_queries: int, num_items: int | None) -> tuple[Ints, Ints]:
    """Pairs of one id."""
    if query_ids is None or (gallery_ids is None) != (num_items is None):
        raise OptionError(
            "ids of one side",
            expected="query_ids alone in self-retrieval, query_ids and gallery_ids with a separate gallery",
        )
    queries = _as_ids(query_ids, "query_ids", num_queries)
    items = queries if num_items is None else _as_ids(gallery_ids, "gallery_ids", num_items)
    if queries.dtype.kind != items.dtype.kind:
        raise OptionError("query_ids and gallery_ids of two types", expected="integers in both, or strings in both")
    order = np.argsort(items, kind="stable")
    low = np.searchsorted(items[order], queries, side="left")
    number = np.searchsorted(items[order], queries, side="right") - low
    rows, item = _each(low, number)
    return rows, order[item]


def _each(start: Ints, number: Ints) -> tuple[Ints, Ints]:
    """The indices of several ranges, one range after another, and which range each belongs to."""
    runs = np.repeat(np.arange(len(number)), number)
    return runs, np.arange(len(runs)) + np.repeat(start - np.cumsum(number) + number, number)


def _as_ids(values: Any, name: str, num_items: int) -> Array:
    """Ids as int64 or str."""
    ids = to_numpy(values)
    if ids.shape != (num_items,):
        raise ShapeError(f"{name} of shape {ids.shape}", expected=f"({num_items},), one an item")
    if ids.dtype.kind == "O" and all(isinstance(value, str) for value in ids):
        ids = ids.astype(np.str_)
    if ids.dtype.kind not in "iuU" and num_items > 0:
        raise OptionError(f"{name} of type {ids.dtype}", expected="integers or strings")
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _junk_pairs(junk: Any, num_queries: int, num_items: int) -> tuple[Ints, Ints]:
    lists = list(junk) if np.iterable(junk) else []
    if len(lists) != num_queries:
        raise ShapeError(f"junk of {len(lists)} lists", expected=f"{num_queries}, one a query")
    arrays = [to_numpy([*listed] if isinstance(listed, Iterator) else listed) for listed in lists]
    for row, array in enumerate(arrays):
        integers = array.dtype.kind in "iu" or array.size == 0
        if array.ndim != 1 or not integers or (array.size and not 0 <= array.min() <= array.max() < num_items):
            raise PathError(f"junk of query {row}", expected=f"gallery indices from 0 to {num_items - 1}")
    items = np.concatenate([array.astype(np.int64) for array in arrays] or [np.empty(0, np.int64)])
    return np.repeat(np.arange(num_queries), [len(array) for array in arrays]), items


def with_distractors(paths: Any, distractors: Any, num_items: int) -> Ints:
    """Check the paths of a gallery's labeled items; (N,) booleans mark the others, whose paths become −1.

    Raises:
        ShapeError: not one path or not one boolean an item.
        PathError: a path of a labeled item that is no ids ≥ 0.
    """
    if distractors is None:
        return as_paths(paths, name="gallery_paths", num_items=num_items)
    marked, given = to_numpy(distractors), to_numpy(paths)
    if marked.shape != (num_items,) or marked.dtype != np.bool_:
        raise ShapeError(
            f"distractors of shape {marked.shape} and type {marked.dtype}", expected=f"booleans of shape ({num_items},)"
        )
    if given.shape[:1] == marked.shape:
        given = np.where(marked.reshape(-1, *(1,) * (given.ndim - 1)), 0, given)
    return np.where(marked[:, None], -1, as_paths(given, name="gallery_paths", num_items=num_items))


def describe_distractors(paths: Ints) -> str:
    """A gallery's distractors, for the convention card."""
    number = int((paths[:, 0] < 0).sum())
    return f", {number} distractors at level 0" if number else ""


def drop_ranked(
    place: Literal["first", "last"], scores: Array, levels: Bytes, excluded: Bools, index: Ints, totals: Ints
) -> Ints:
    """Exclude the first or last item of each row's list, and return the totals without it.

    Of equal scores the item of smaller index stands first; ``index`` holds the gallery index of each column.
    """
    signed = np.where(excluded, -np.inf, scores if place == "first" else -scores)
    tied = (signed == signed.max(axis=1, keepdims=True)) & ~excluded
    columns = np.where(tied, index if place == "first" else len(index) - 1 - index, len(index)).argmin(axis=1)
    rows = np.flatnonzero(tied.any(axis=1))
    excluded[rows, columns[rows]] = True
    left: Ints = totals.copy()
    left[rows, levels[rows, columns[rows]]] -= 1
    return left
