"""Checks shared by all entry points: labels of queries and gallery, excluded items, options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hiertree.arrays import MAX_LEVELS, check_same_rows, shared_paths
from hiertree.errors import OptionError, ShapeError
from hiertree.evaluation_options import RetrievalConventions
from hiertree.level_columns import LabelNames
from hiertree.options import is_integer

from ..conventions import CheckedOptions, MetricRequest
from ..result import Evaluation

if TYPE_CHECKING:
    from hiertree.jit import Floats, Ints

    from ..conventions import RankedBy
    from ..ranking.gallery import Mask

_LABELS_ONLY = ("query_ids", "gallery_ids", "junk")


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedRetrievalOptions(CheckedOptions, RetrievalConventions):
    """The same of a retrieval by labels."""

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

    query_paths: Ints  # (Q, L); −1 throughout for a query of no class
    gallery_paths: Ints  # (N, L), those of the queries in self-retrieval; −1 throughout for a distractor
    mask: Mask  # the items that each list excludes
    names: LabelNames

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
    check_same_rows({gallery_name: gallery, "gallery_paths": gallery_paths, "gallery_ids": options.gallery_ids})
    queries = reader(query, name=query_name)
    items = queries if gallery is None else reader(gallery, name=gallery_name)
    labels = checked_labels(query_paths, gallery_paths, len(queries), None if gallery is None else len(items), options)
    unit = "bits" if of_codes else "dimensions"
    query_width, gallery_width = (getattr(vectors, unit) for vectors in (queries, items))
    if query_width != gallery_width:
        raise ShapeError(f"a gallery of {gallery_width} {unit}", expected=f"{query_width}, as the queries have")
    num_levels = labels.query_paths.shape[1]
    return queries, items, labels, options.request(num_queries=len(queries), num_levels=num_levels, of_codes=of_codes)


def checked_labels(
    query_paths: Any, gallery_paths: Any, num_queries: int, num_items: int | None, options: CheckedRetrievalOptions
) -> Labels:
    """Check the paths of queries and of the gallery, if any, and build the mask of excluded items."""
    from ..ranking.gallery import mask_of  # takes numba with it

    labels, counts = {"query_paths": query_paths}, {"query_paths": num_queries}
    if num_items is not None:
        labels["gallery_paths"], counts["gallery_paths"] = gallery_paths, num_items
    paths, names = shared_paths(
        labels,
        num_items=counts,
        may_lack_class=() if num_items is None else [*labels],
        drop_names=True,
        uneven=options.uneven,
        separator=options.separator,
    )
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
    return Labels(queries, items, mask._replace(rule=mask.rule + _note(queries, items[: num_items or 0])), names)


def _note(queries: Ints, items: Ints) -> str:
    """How many paths end early, for the convention card."""
    notes, counts = [], []
    for paths, role in ((queries, "queries"), (items, "items")):
        if count := int(((paths[:, -1] < 0) & (paths[:, 0] >= 0)).sum()):
            counts.append(f"{count} {role}")
    if counts:
        notes.append(f"{' and '.join(counts)} known down to a coarser level")
    for paths, kind in ((queries, "queries of no class"), (items, "distractors at level 0")):
        if count := int((paths[:, 0] < 0).sum()):
            notes.append(f"{count} {kind}")
    return "".join(f", {note}" for note in notes)


def checked_num_levels(num_levels: int | None, *, deepest: int) -> int:
    """L as given, else the deepest level found; a given L must not be smaller than that."""
    deepest = max(deepest, 1)
    if num_levels is None:
        return deepest
    if not (is_integer(num_levels) and deepest <= num_levels <= MAX_LEVELS):
        raise OptionError(f"num_levels={num_levels}", expected=f"{deepest}, the deepest level, to {MAX_LEVELS}")
    return int(num_levels)
