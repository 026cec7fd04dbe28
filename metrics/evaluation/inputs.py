"""The checks that entry points share: how queries and gallery are labeled, what lists leave out, what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS, check_same_rows, shared_paths, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.level_columns import LabelNames
from hiertree.options import is_integer, split_options

from ..conventions import Rules
from ..request import CheckedOptions, MetricOptions, MetricRequest
from ..result import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.gallery import Mask


class RetrievalOptions(MetricOptions, total=False):
    """Those of :class:`MetricOptions`, and what lists leave out; see :func:`hiertree.metrics.evaluate`."""

    query_ids: Any
    gallery_ids: Any
    junk: Iterable[Iterable[int]] | None
    distractors: Any


@dataclass(frozen=True, kw_only=True, eq=False)
class MaskOptions:
    """What lists leave out, as users give it."""

    query_ids: Any = None
    gallery_ids: Any = None
    junk: Iterable[Iterable[int]] | None = None
    distractors: Any = None

    def refuse_any(self, where: str) -> None:
        """OptionError if one is given."""
        names = [field.name for field in fields(self)]
        if any(getattr(self, name) is not None for name in names):
            raise OptionError(f"one of {', '.join(names)} {where}", expected="it only beside paths, of indices")


class Labels(NamedTuple):
    """Checked labels of a retrieval."""

    query_paths: NDArray[np.int64]  # (Q, L)
    gallery_paths: NDArray[np.int64]  # (N, L), those of the queries in self-retrieval; −1 for a distractor
    mask: Mask  # what each list leaves out
    names: LabelNames = LabelNames()

    def rows(self, queries: slice) -> Labels:
        """The same for some queries."""
        return self._replace(query_paths=self.query_paths[queries], mask=self.mask.rows(queries))

    def named(self, result: Evaluation) -> Evaluation:
        """A result with the names of levels and classes."""
        return replace(result, **self.names._asdict())


class Inputs(NamedTuple):
    """Checked queries, items (the queries in self-retrieval), their labels, and what is asked for."""

    queries: Any
    items: Any
    labels: Labels
    request: MetricRequest


def check_inputs(
    query: Any,
    query_paths: Any,
    gallery: Any,
    gallery_paths: Any,
    options: Mapping[str, Any],
    *,
    read: Callable[..., Any],
    counts: Literal["strict", "official"] | None = None,
    of_codes: bool = False,
) -> Inputs:
    """Check the arguments of a search among vectors or codes, which ``read`` (values, name=…) makes of what is given.

    ``counts`` stands in place of that of the rules.
    """
    query_name, gallery_name = ("query_codes", "gallery_codes") if of_codes else ("query", "gallery")
    asked, masks = checked_options(options)
    rules = asked.rules if counts is None else replace(asked.rules, counts=counts)
    if asked.benchmark is not None:
        asked.benchmark.check(self_retrieval=gallery is None, with_ids=masks.query_ids is not None)
    if (gallery is None) != (gallery_paths is None):
        missing = gallery_name if gallery is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected=f"{gallery_name} and gallery_paths together, or neither")
    check_same_rows({query_name: query, "query_paths": query_paths, "query_ids": masks.query_ids})
    beside = {"gallery_ids": masks.gallery_ids, "distractors": masks.distractors}
    check_same_rows({gallery_name: gallery, "gallery_paths": gallery_paths, **beside})
    queries = read(query, name=query_name)
    items = queries if gallery is None else read(gallery, name=gallery_name)
    num_items = None if gallery is None else len(items)
    labels = checked_labels(query_paths, gallery_paths, len(queries), num_items, masks, rules)
    unit = "bits" if of_codes else "dimensions"
    ours, theirs = (getattr(side, unit) for side in (queries, items))
    if ours != theirs:
        raise ShapeError(f"a gallery of {theirs} {unit}", expected=f"those of the queries, {ours}")
    num_levels = labels.query_paths.shape[1]
    request = asked.request(num_queries=len(queries), num_levels=num_levels, rules=rules, of_codes=of_codes)
    return Inputs(queries, items, labels, request)


def checked_options(options: Mapping[str, Any]) -> tuple[CheckedOptions, MaskOptions]:
    """What is asked for, and what lists leave out."""
    asked, masks = split_options(options, CheckedOptions, MaskOptions)
    return CheckedOptions(**asked), MaskOptions(**masks)


def checked_labels(
    query_paths: Any, gallery_paths: Any, num_queries: int, num_items: int | None, options: MaskOptions, rules: Rules
) -> Labels:
    """Check the paths of queries and of a gallery, if there is one, and make a mask of what lists leave out."""
    from ..ranking.gallery import describe_distractors, mask_of, with_distractors  # takes numba with it

    sides, marked = {"query_paths": query_paths}, None
    if num_items is not None:
        sides["gallery_paths"] = gallery_paths
        marked = None if options.distractors is None else to_numpy(options.distractors)
    is_mask = marked is not None and marked.dtype == np.bool_ and marked.shape == (num_items,)
    paths, names = shared_paths(
        sides,
        num_items={"query_paths": num_queries, "gallery_paths": num_items or 0},
        unlabeled={"gallery_paths": marked} if marked is not None and is_mask else None,
    )
    queries = items = paths["query_paths"]
    if num_items is None:
        if options.distractors is not None:
            raise OptionError("distractors in self-retrieval", expected="a separate gallery: a query needs a label")
        if num_queries < 2:
            given = f"self-retrieval among {num_queries} items"
            raise ShapeError(given, expected="at least two, or a separate gallery")
    else:
        items = with_distractors(paths["gallery_paths"], marked, num_items)
        if num_items == 0:
            raise ShapeError("an empty gallery", expected="at least one item")
        if items.shape[1] != queries.shape[1]:
            given = f"gallery_paths of {items.shape[1]} levels"
            raise ShapeError(given, expected=f"those of the queries, {queries.shape[1]}")
    ids = {"query_ids": options.query_ids, "gallery_ids": options.gallery_ids}
    mask = mask_of(num_queries, num_items, **ids, junk=options.junk, rules=rules)
    return Labels(queries, items, mask._replace(rule=mask.rule + describe_distractors(items)), names)


def checked_num_levels(num_levels: int | None, *, deepest: int) -> int:
    """L as given, or else the deepest level found, which L cannot be below."""
    deepest = max(deepest, 1)
    if num_levels is None:
        return deepest
    if not (is_integer(num_levels) and deepest <= num_levels <= MAX_LEVELS):
        raise OptionError(f"num_levels={num_levels}", expected=f"from the deepest level, {deepest}, to {MAX_LEVELS}")
    return int(num_levels)
