"""Checks shared by all entry points: labels of queries and gallery, excluded items, options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from typing_extensions import override

from hiertree.arrays import MAX_LEVELS, check_same_rows, shared_paths, to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.evaluation_options import RetrievalConventions, Rules
from hiertree.level_columns import LabelNames
from hiertree.options import is_integer

from ..request import CheckedOptions, MetricRequest
from ..result import Evaluation

if TYPE_CHECKING:
    from hiertree.jit import Bools, Floats, Ints

    from ..conventions import RankedBy
    from ..ranking.gallery import Mask

_LABELS_ONLY = ("counts", "query_ids", "gallery_ids", "junk", "distractors")


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedRetrievalOptions(CheckedOptions, RetrievalConventions):
    """The same of a retrieval by labels."""

    @property
    @override
    def rules(self) -> Rules:
        """Those of the conventions, with the choice of ``counts``."""
        return super().rules if self.counts is None else replace(super().rules, counts=self.counts)

    def refuse_masks(self, context: str) -> None:
        """OptionError for an option that needs labels of rows."""
        if any(getattr(self, name) is not None for name in _LABELS_ONLY):
            raise OptionError(
                f"one of {', '.join(_LABELS_ONLY)} {context}", expected="them only with label paths and indices"
            )

    def check_protocol(self, *, self_retrieval: bool) -> None:
        """Refuse a retrieval that does not fit the named protocol."""
        protocol, option_text = self.benchmark, f"protocol={self.protocol!r}"
        if protocol is None:
            return
        if self_retrieval and protocol.gallery == "separate":
            raise OptionError(f"{option_text} without a gallery", expected="gallery and gallery_paths")
        if not self_retrieval and protocol.gallery == "self":
            raise OptionError(f"{option_text} with a gallery", expected="queries that retrieve each other")
        if not self_retrieval and protocol.needs_ids and self.query_ids is None:
            remedy = "give the file names, so that no query finds itself"
            raise OptionError(f"{option_text} without ids", expected="query_ids and gallery_ids", remedy=remedy)


class Labels(NamedTuple):
    """Checked labels of a retrieval."""

    query_paths: Ints  # (Q, L)
    gallery_paths: Ints  # (N, L), those of the queries in self-retrieval; −1 for a distractor
    mask: Mask  # the items that each list excludes
    names: LabelNames

    def rows(self, queries: slice) -> Labels:
        """The labels for some of the queries."""
        return self._replace(query_paths=self.query_paths[queries], mask=self.mask.rows(queries))

    def evaluation(self, request: MetricRequest, values: Floats, *, ranked_by: RankedBy, **fields: Any) -> Evaluation:
        """The result from values (Q, M), with its card, which has the given fields."""
        names, classes = self.names
        card = request.convention(self_rule=self.mask.rule, ranked_by=ranked_by, level_names=names, **fields)
        return Evaluation(request.names, values, range(len(values)), card, self.query_paths, classes)


def check_inputs(
    inputs: tuple[Any, ...], options: CheckedRetrievalOptions, *, reader: Callable[..., Any], of_codes: bool = False
) -> tuple[Any, Any, Labels, MetricRequest]:
    """Checked queries, items (the queries in self-retrieval), labels and options.

    Given are the queries, their paths, a gallery and its paths; ``reader`` (values, name=…) makes vectors or codes.
    """
    query, query_paths, gallery, gallery_paths = inputs
    query_name, gallery_name = ("query_codes", "gallery_codes") if of_codes else ("query", "gallery")
    options.check_protocol(self_retrieval=gallery is None)
    if (gallery is None) != (gallery_paths is None):
        missing = gallery_name if gallery is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected=f"{gallery_name} and gallery_paths together, or neither")
    check_same_rows({query_name: query, "query_paths": query_paths, "query_ids": options.query_ids})
    item_options = {"gallery_ids": options.gallery_ids, "distractors": options.distractors}
    check_same_rows({gallery_name: gallery, "gallery_paths": gallery_paths, **item_options})
    queries = reader(query, name=query_name)
    items = queries if gallery is None else reader(gallery, name=gallery_name)
    labels = checked_labels(query_paths, gallery_paths, len(queries), None if gallery is None else len(items), options)
    unit = "bits" if of_codes else "dimensions"
    query_width, gallery_width = (getattr(side, unit) for side in (queries, items))
    if query_width != gallery_width:
        raise ShapeError(f"a gallery of {gallery_width} {unit}", expected=f"{query_width}, as the queries have")
    num_levels = labels.query_paths.shape[1]
    return queries, items, labels, options.request(num_queries=len(queries), num_levels=num_levels, of_codes=of_codes)


def checked_labels(
    query_paths: Any, gallery_paths: Any, num_queries: int, num_items: int | None, options: CheckedRetrievalOptions
) -> Labels:
    """Check the paths of queries and of the gallery, if any, and build the mask of excluded items."""
    from ..ranking.gallery import mask_of  # takes numba with it

    sides, numbers = {"query_paths": query_paths}, {"query_paths": num_queries}
    if num_items is not None:
        sides["gallery_paths"], numbers["gallery_paths"] = gallery_paths, num_items
    distractors = _checked_distractors(options.distractors, num_items)
    unlabeled = {} if distractors is None else {"gallery_paths": distractors}
    paths, names = shared_paths(sides, num_items=numbers, unlabeled=unlabeled)
    queries, items = paths["query_paths"], paths.get("gallery_paths", paths["query_paths"])
    if num_items is None and num_queries < 2:
        problem = f"self-retrieval among {num_queries} items"
        raise ShapeError(problem, expected="at least two, or a separate gallery")
    if num_items == 0:
        raise ShapeError("an empty gallery", expected="at least one item")
    if items.shape[1] != queries.shape[1]:
        problem = f"gallery_paths of {items.shape[1]} levels"
        raise ShapeError(problem, expected=f"{queries.shape[1]}, as query_paths have")
    ids = {"query_ids": options.query_ids, "gallery_ids": options.gallery_ids}
    mask = mask_of(num_queries, num_items, **ids, junk=options.junk, rules=options.rules)
    sides_in_part = {"queries": queries, "items": items[: num_items or 0]}
    in_part = {side: int((side_paths[:, -1] < 0).sum()) for side, side_paths in sides_in_part.items()}
    if counts := " and ".join(f"{number} {side}" for side, number in in_part.items() if number):
        mask = mask._replace(rule=f"{mask.rule}, {counts} known down to a coarser level")
    if distractors is not None and distractors.any():
        items = np.where(distractors[:, None], -1, items)
        mask = mask._replace(rule=f"{mask.rule}, {distractors.sum()} distractors at level 0")
    return Labels(queries, items, mask, names)


def _checked_distractors(distractors: Any, num_items: int | None) -> Bools | None:
    if distractors is None:
        return None
    if num_items is None:
        raise OptionError("distractors in self-retrieval", expected="a separate gallery, as every query needs a label")
    marked = to_numpy(distractors)
    if marked.shape != (num_items,) or marked.dtype != np.bool_:
        problem = f"distractors of shape {marked.shape} and type {marked.dtype}"
        raise ShapeError(problem, expected=f"booleans of shape ({num_items},)")
    return marked


def checked_num_levels(num_levels: int | None, *, deepest: int) -> int:
    """L as given, else the deepest level found; a given L must not be smaller than that."""
    deepest = max(deepest, 1)
    if num_levels is None:
        return deepest
    if not (is_integer(num_levels) and deepest <= num_levels <= MAX_LEVELS):
        raise OptionError(f"num_levels={num_levels}", expected=f"{deepest}, the deepest level, to {MAX_LEVELS}")
    return int(num_levels)
