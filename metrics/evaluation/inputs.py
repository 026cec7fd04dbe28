"""The checks that entry points share: how queries and gallery are labeled, and what lists leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS, shared_paths, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.level_columns import LabelNames, check_same_rows
from hiertree.options import is_integer

from ..conventions.rules import Rules
from ..ranking.masks import Mask, describe_distractors, mask_of, with_distractors
from ..result import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MaskOptions(NamedTuple):
    """What lists leave out, as users give it; see :func:`hiertree.metrics.evaluate`."""

    query_ids: Any = None
    gallery_ids: Any = None
    junk: Iterable[Iterable[int]] | None = None
    distractors: Any = None


class Labels(NamedTuple):
    """Checked labels of a retrieval.

    Attributes:
        query_paths: (Q, L).
        gallery_paths: (N, L), those of the queries in self-retrieval; a distractor's path is −1.
        mask: what each list leaves out.
        names: of levels and classes, where the labels had some.
    """

    query_paths: NDArray[np.int64]
    gallery_paths: NDArray[np.int64]
    mask: Mask
    names: LabelNames = LabelNames()

    def rows(self, queries: slice) -> Labels:
        """The same for some queries."""
        return self._replace(query_paths=self.query_paths[queries], mask=self.mask.rows(queries))

    def named(self, result: Evaluation) -> Evaluation:
        """A result with the names of levels and classes."""
        return replace(result, **self.names._asdict())


def check_pair(gallery: Any, gallery_paths: Any, name: str = "gallery") -> None:
    """Refuse a gallery without paths, or paths without a gallery."""
    if (gallery is None) != (gallery_paths is None):
        missing = name if gallery is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected=f"{name} and gallery_paths together, or neither")


def checked_labels(
    query_paths: Any,
    gallery_paths: Any,
    *,
    num_queries: int,
    num_items: int | None,
    options: MaskOptions,
    rules: Rules,
    queries: Any = None,
    items: Any = None,
) -> Labels:
    """Check the paths of queries and gallery, and turn what lists leave out into a mask.

    Args:
        query_paths: (Q, L) labels of any kind.
        gallery_paths: (N, L), or None in self-retrieval. Text is numbered together with that of the queries.
        num_queries: Q.
        num_items: N, or None in self-retrieval.
        options: what lists leave out.
        rules: whether lists lose their first or last item.
        queries: the queries as given, whose rows must be those of the labels.
        items: likewise, of the gallery.

    Raises:
        ShapeError: another number of paths than of queries or items, other numbers of levels, or nothing to retrieve.
        OptionError: distractors in self-retrieval, or ids of one side only.
        PathError: a missing label, an id below 0, or a junk index outside the gallery.
    """
    check_same_rows({"query": queries, "query_paths": query_paths, "query_ids": options.query_ids})
    gallery = {"gallery": items, "gallery_paths": gallery_paths, "gallery_ids": options.gallery_ids}
    check_same_rows({**gallery, "distractors": options.distractors})
    sides, marked = {"query_paths": query_paths}, None
    if num_items is not None:
        sides["gallery_paths"] = gallery_paths
        marked = None if options.distractors is None else to_numpy(options.distractors)
    paths, names = shared_paths(
        sides,
        num_items={"query_paths": num_queries, "gallery_paths": num_items or 0},
        unlabeled={"gallery_paths": marked} if marked is not None and _is_mask(marked, num_items) else None,
    )
    own = paths["query_paths"]
    if num_items is None:
        if options.distractors is not None:
            raise OptionError("distractors in self-retrieval", expected="a separate gallery: a query needs a label")
        if num_queries < 2:
            given = f"self-retrieval among {num_queries} items"
            raise ShapeError(given, expected="at least two, or a separate gallery")
        others = own
    else:
        others = with_distractors(paths["gallery_paths"], marked, num_items)
        if num_items == 0:
            raise ShapeError("an empty gallery", expected="at least one item")
        if others.shape[1] != own.shape[1]:
            given = f"gallery_paths of {others.shape[1]} levels"
            raise ShapeError(given, expected=f"those of the queries, {own.shape[1]}")
    mask = mask_of(
        num_queries,
        num_items,
        query_ids=options.query_ids,
        gallery_ids=options.gallery_ids,
        junk=options.junk,
        rules=rules,
    )
    return Labels(own, others, mask._replace(rule=mask.rule + describe_distractors(others)), names)


def _is_mask(marked: NDArray[Any], num_items: int | None) -> bool:
    return marked.dtype == np.bool_ and marked.shape == (num_items,)


def check_same_width(queries: int, items: int, what: str) -> None:
    """Refuse vectors or codes of two lengths."""
    if queries != items:
        raise ShapeError(f"a gallery of {items} {what}", expected=f"those of the queries, {queries}")


def checked_num_levels(num_levels: int | None, *, deepest: int) -> int:
    """L as given, or else the deepest level found, which L cannot be below."""
    deepest = max(deepest, 1)
    if num_levels is None:
        return deepest
    if not (is_integer(num_levels) and deepest <= num_levels <= MAX_LEVELS):
        raise OptionError(f"num_levels={num_levels}", expected=f"from the deepest level, {deepest}, to {MAX_LEVELS}")
    return int(num_levels)
