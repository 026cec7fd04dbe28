"""Metrics of a hierarchy inside the testers of pytorch-metric-learning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from hiertree import levels
from hiertree.arrays import MAX_LEVELS, to_numpy
from hiertree.errors import EmbeddingError, OptionError, ShapeError
from hiertree.evaluation_options import Compat, Counts, Relevance, RetrievalConventions, Rules, Search, Ties
from hiertree.options import check_choice, check_integer

from ..engine.retrieval import Retrieval, ScoredLists, values_of_lists
from ..engine.vectors import Vectors
from ..evaluation.embeddings import evaluate
from ..evaluation.inputs import CheckedRetrievalOptions, check_inputs
from ..ranking.gallery import drop_ranked, labeled_gallery
from ..request import parse_metrics
from ..result import Evaluation

Distance: TypeAlias = Literal["euclidean", "cosine"]
_SCORES_AT_ONCE = 1 << 24


class HierarchicalAccuracyCalculator(AccuracyCalculator):  # type: ignore[misc] # the library has no types
    """An AccuracyCalculator for pytorch-metric-learning's testers, with hiertree's metrics in place of the library's.

    The numbers that both have are equal: items are ranked by Euclidean distance of the embeddings as they are given,
    and ``R@1`` is the library's ``precision_at_1``, ``mAP@R`` its ``mean_average_precision_at_r``.

    A tester cuts one column out of (n, L) labels, its ``label_hierarchy_level`` (from 0), which is one level. For all
    levels pass ``num_levels=L`` here and ``label_hierarchy_level=L - 1`` there: the columns before the one that the
    tester cuts out are then taken too, as the coarser levels.

    Args:
        metrics: names (see :mod:`hiertree.metrics`).
        distance: ``"euclidean"``, or ``"cosine"``, by which :func:`hiertree.metrics.evaluate` ranks, faster.
        num_levels: L, where testers cut columns; labels of another number of levels are refused then.
        alpha: as :func:`hiertree.metrics.evaluate` takes it, as are the rest.
        relevance: likewise, but no table.
        counts: likewise.
        ties: likewise.
        compat: likewise.
        device: likewise.

    Attributes:
        result: the last evaluation, with its values by query.

    Raises:
        MissingPackageError: pytorch-metric-learning is not installed.
        OptionError: an unknown metric, or an option outside its range.

    >>> calculator = HierarchicalAccuracyCalculator(["H-AP", "R@1[1]"])
    >>> embeddings, paths = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([[0, 0], [0, 0], [0, 1]])
    >>> {name: round(value, 4) for name, value in calculator.get_accuracy(embeddings, paths).items()}
    {'H-AP': 0.9444, 'R@1[1]': 1.0}
    """

    def __init__(
        self,
        metrics: Iterable[str] = ("H-AP", "NDCG", "ASI", "R@1", "mAP@R"),
        *,
        distance: Distance = "euclidean",
        num_levels: int | None = None,
        alpha: float = RetrievalConventions.alpha,
        relevance: Relevance = RetrievalConventions.relevance,
        counts: Counts | None = RetrievalConventions.counts,
        ties: Ties = RetrievalConventions.ties,
        compat: Compat | Rules | None = RetrievalConventions.compat,
        device: str | None = Search.device,
    ) -> None:
        unused = evaluate  # the library's own searches need faiss
        super().__init__(device=torch.device("cpu"), knn_func=unused, kmeans_func=unused)
        check_choice("distance", distance, Distance)
        self.distance = distance
        self.names = tuple(metric.name for metric in parse_metrics(metrics, num_levels=MAX_LEVELS))
        check_integer("num_levels", num_levels, or_none=True)
        conventions: Any = {"alpha": alpha, "relevance": relevance, "counts": counts, "ties": ties, "compat": compat}
        RetrievalConventions(**conventions)  # wrong options fail here
        self.num_levels, self.options = num_levels, {**conventions, "device": device}
        self.result: Evaluation | None = None

    def get_curr_metrics(self) -> list[str]:
        """The names of the metrics."""
        return list(self.names)

    def description(self) -> str:
        """An empty text: the names of a tester's files need no more."""
        return ""

    def get_accuracy(
        self,
        query: Any,
        query_labels: Any,
        reference: Any = None,
        reference_labels: Any = None,
        ref_includes_query: bool = False,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
    ) -> dict[str, float]:
        """The mean of each metric; NaN, as the library has it, where no query has a positive.

        Args:
            query: (Q, d) embeddings.
            query_labels: (Q, L) or (Q,); with ``num_levels``, a column cut out of a tensor stands for those up to it.
            reference: (N, d), or None for self-retrieval.
            reference_labels: (N, L) or (N,).
            ref_includes_query: the first Q of the reference are the queries, which are masked.
            include: names, to compute only these.
            exclude: names to leave out.

        Raises:
            ShapeError: another number of levels than ``num_levels``.
            OptionError: ``ref_includes_query`` where the reference begins with other embeddings or labels.
        """
        names = [name for name in (tuple(include) or self.names) if name not in tuple(exclude)]
        paths = self._paths(query_labels)
        depth = np.shape(paths)[1] if np.ndim(paths) == 2 else 1
        if self.num_levels not in (None, depth):
            remedy = f"give the tester label_hierarchy_level={(self.num_levels or 1) - 1}, or all columns here"
            raise ShapeError(f"labels of {depth} levels", expected=f"num_levels={self.num_levels}", remedy=remedy)
        options = {**self.options, "metrics": names}
        gallery_paths = None if reference is None else self._paths(reference_labels)
        if ref_includes_query and reference is not None:
            _check_included(query, reference, "embeddings")
            _check_included(paths, gallery_paths, "labels")
            options |= {"query_ids": np.arange(len(query)), "gallery_ids": np.arange(len(reference))}
        search = evaluate if self.distance == "cosine" else _evaluate_distances
        self.result = search(query, paths, reference, gallery_paths, **options)
        means = self.result.summary()
        return {name: float(means.get(name, np.nan)) for name in names}

    def _paths(self, labels: Any) -> Any:
        """The labels; where the number of levels is known, with the columns before the one cut out of a tensor."""
        return labels if self.num_levels is None else _columns(labels)


def _columns(labels: Any) -> Any:
    """The columns up to the one sliced from a tensor of labels, or the labels as given."""
    label_matrix = labels._base if isinstance(labels, torch.Tensor) and labels.ndim == 1 else None
    if (
        label_matrix is None
        or label_matrix.ndim != 2
        or len(label_matrix) != len(labels)
        or labels.stride(0) != label_matrix.stride(0)
    ):
        return labels
    column = (labels.storage_offset() - label_matrix.storage_offset()) // label_matrix.stride(1)
    return label_matrix[:, : column + 1]


def _check_included(queries: Any, items: Any, array_name: str) -> None:
    first, second = to_numpy(queries), to_numpy(items)[: len(queries)]
    arrays_agree = np.allclose if array_name == "embeddings" else np.array_equal
    if first.shape != second.shape or not arrays_agree(first, second):
        raise OptionError(f"ref_includes_query=True: reference {array_name}", expected="those of the query first")


def _evaluate_distances(*inputs: Any, device: str | None, **options: Any) -> Evaluation:
    """Every metric by Euclidean distance, a block of queries × gallery at once."""
    checked_options = CheckedRetrievalOptions(**options)
    queries, items, labels, request = check_inputs(inputs, checked_options, reader=_raw_vectors)
    mask, order = labels.mask, np.arange(len(items))
    ranked = labeled_gallery(labels.query_paths, labels.gallery_paths, mask, request.rules)
    values = np.empty((len(queries), len(request.metrics)))
    sides = [torch.as_tensor(side.array, device=device) for side in (queries, items)]
    height = max(_SCORES_AT_ONCE // len(items), 1)
    for start in range(0, len(queries), height):
        rows = slice(start, min(start + height, len(queries)))
        scores = _ranking_scores(sides[0][rows], sides[1]).cpu().numpy()
        lists = ScoredLists(scores, levels(labels.query_paths[rows], labels.gallery_paths), mask.excluded(rows, order))
        totals = drop_ranked(mask.place, *lists, order, ranked.totals[rows])
        row_counts = None if ranked.counts is None else ranked.counts[rows]
        part = Retrieval(lists, request.select_rows(rows), totals, row_counts, num_ranks=len(items))
        values[rows] = values_of_lists(part)
    return labels.evaluation(request, values, ranked_by="Euclidean distance", details="float64")


def _raw_vectors(values: Any, *, name: str) -> Vectors:
    array = to_numpy(values, name=name)
    if array.ndim != 2 or array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        raise EmbeddingError(f"{name} of shape {array.shape}, {array.dtype}", expected="(n, d) finite numbers")
    return Vectors(array.astype(np.float64), np.dtype(np.float64), mapped=False)


def _ranking_scores(queries: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """(r, N) ‖q‖² − ‖q − g‖², which fall with the distance; exact for small integers, so that equal distances tie."""
    return (2.0 * (queries @ items.T) - (items * items).sum(dim=1)).contiguous()
