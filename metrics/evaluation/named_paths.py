"""Runs of named items whose label paths are known: as lists of gallery indices, without judgments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import shared_paths
from hiertree.errors import OptionError, PathError
from hiertree.level_columns import LabelNames

from ..trec.forms import as_run
from ..trec.triples import rows_of_names
from .inputs import MaskOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NamedIndices(NamedTuple):
    """A run by indices.

    Attributes:
        indices: (Q, K) rows of the gallery, −1 where a list ends.
        scores: (Q, K), larger being better.
        query_paths: (Q, L).
        gallery_paths: (N, L); items without a label come last.
        masks: each query's own row, and which items have no label.
        query_names: Q names.
        label_names: of levels and classes, where the labels had some.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    query_paths: NDArray[np.int64]
    gallery_paths: NDArray[np.int64]
    masks: MaskOptions
    query_names: Sequence[Hashable]
    label_names: LabelNames


def indices_of_names(
    run: Any, query_paths: Any, gallery_paths: Any, query_names: Any, gallery_names: Any, *, unjudged: str
) -> NamedIndices:
    """A run of names as indices.

    Args:
        run: in any form.
        query_paths: (Q, L) of the queries, or without a gallery of all items, of which the run's queries are queries.
        gallery_paths: (N, L) or None.
        query_names: Q names.
        gallery_names: N names, with a gallery.
        unjudged: whether an item without a label is ``"irrelevant"`` or an ``"error"``.

    Raises:
        OptionError: names of one side only, or a run none of whose items is named.
        ShapeError: another number of names than of paths.
        PathError: a name given twice, a query without a label, or an item without one under ``unjudged="error"``.
    """
    if (gallery_paths is None) != (gallery_names is None):
        raise OptionError("gallery_paths or gallery_names alone", expected="both or neither")
    sides = {"query_paths": query_paths} | ({} if gallery_paths is None else {"gallery_paths": gallery_paths})
    numbered, label_names = shared_paths(sides)
    queries, gallery = numbered["query_paths"], numbered.get("gallery_paths", numbered["query_paths"])
    row_of_query = rows_of_names(query_names, "query_names", len(queries))
    row_of_item = row_of_query if gallery_paths is None else rows_of_names(gallery_names, "gallery_names", len(gallery))
    listed = as_run(run)
    listed.refuse(
        np.array([name not in row_of_query for name in listed.queries], np.bool_)[listed.query],
        "a query without a label",
        expected="every query of the run among query_names",
        kind=PathError,
    )
    unknown = [name for name in listed.items if name not in row_of_item]
    if unknown and len(unknown) == len(listed.items):
        given = f"a run of items such as {unknown[0]!r}"
        raise OptionError(given, expected=f"items that have labels, such as {next(iter(row_of_item))!r}")
    if unknown and unjudged == "error":
        listed.refuse(
            np.isin(listed.item, [number for number, name in enumerate(listed.items) if name not in row_of_item]),
            "an item without a label",
            expected="a label for every item",
            kind=PathError,
            remedy="pass unjudged='irrelevant' to count such items at level 0",
        )
    rows = row_of_item | {name: len(gallery) + number for number, name in enumerate(unknown)}
    chosen = [*row_of_query] if gallery_paths is not None else [*listed.queries]
    place = {name: number for number, name in enumerate(chosen)}
    query = np.array([place[name] for name in listed.queries], np.int64)[listed.query]
    item = np.array([rows[name] for name in listed.items], np.int64)[listed.item]
    indices, scores = _padded(query, item, listed.value, len(chosen))
    own = None if gallery_paths is not None else np.array([row_of_query[name] for name in chosen], np.int64)
    paths = queries[[row_of_query[name] for name in chosen]]
    masks = MaskOptions(
        own,
        None if own is None else np.arange(len(rows)),
        distractors=np.arange(len(rows)) >= len(gallery) if unknown else None,
    )
    filled = np.concatenate([gallery, np.zeros((len(unknown), gallery.shape[1]), np.int64)])
    return NamedIndices(indices, scores, paths, filled, masks, chosen, label_names)


def _padded(
    query: NDArray[np.int64], item: NDArray[np.int64], value: NDArray[np.float64], number: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(Q, K) items and scores of triples, in their order."""
    order, lengths = np.argsort(query, kind="stable"), np.bincount(query, minlength=number)
    row = query[order]
    place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    shape = (number, int(lengths.max(initial=0)))
    indices, scores = np.full(shape, -1, np.int64), np.zeros(shape)
    indices[row, place], scores[row, place] = item[order], value[order]
    return indices, scores
