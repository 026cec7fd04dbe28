"""Metrics of a hierarchy inside the testers of pytorch-metric-learning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from hiertree.arrays import MAX_LEVELS
from hiertree.errors import ShapeError
from hiertree.options import check_integer

from ..conventions.names import parse_metrics
from ..conventions.request import RelevanceFunction, metric_request
from ..conventions.rules import Compat, Rules
from ..conventions.ties import Ties
from ..evaluation.embeddings import evaluate
from ..result import Evaluation


class HierarchicalAccuracyCalculator(AccuracyCalculator):  # type: ignore[misc] # the library has no types
    """What pytorch-metric-learning's testers call to measure, with this package's metrics in place of its own.

    A tester cuts one column out of (n, L) labels, its ``label_hierarchy_level`` (from 0). The columns before it are
    taken too: they are the coarser levels of that hierarchy. Pass ``label_hierarchy_level=L - 1`` for all levels.

    Args:
        metrics: names (see :mod:`hiertree.metrics`).
        num_levels: L; labels of another number of levels are refused then.
        alpha: as :func:`hiertree.metrics.evaluate` takes it, as are the rest.
        relevance: likewise, a function of counts.
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
        num_levels: int | None = None,
        alpha: float = 1.0,
        relevance: RelevanceFunction | None = None,
        counts: Literal["strict", "official"] | None = None,
        ties: Ties = "average",
        compat: Compat | Rules | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(device=torch.device("cpu"))
        self.names = tuple(metric.name for metric in parse_metrics(metrics, num_levels=MAX_LEVELS))
        check_integer("num_levels", num_levels, or_none=True)
        metric_request(["H-AP"], num_queries=1, num_levels=1, alpha=alpha, relevance=None, ties=ties)
        self.num_levels = num_levels
        self.options: dict[str, Any] = {"alpha": alpha, "relevance": relevance, "counts": counts, "ties": ties}
        self.options |= {"compat": compat, "device": device}
        self.result: Evaluation | None = None

    def get_curr_metrics(self) -> list[str]:
        """The names of the metrics."""
        return list(self.names)

    def description(self) -> str:
        """Nothing that the names of a tester's files need."""
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
            query_labels: (Q, L) or (Q,); a column cut out of a tensor stands for the columns up to it.
            reference: (N, d), or None for self-retrieval.
            reference_labels: (N, L) or (N,).
            ref_includes_query: whether the first Q of the reference are the queries, which are masked.
            include: names, to compute only these.
            exclude: names to leave out.

        Raises:
            ShapeError: another number of levels than ``num_levels``.
        """
        names = [name for name in (tuple(include) or self.names) if name not in tuple(exclude)]
        paths = _columns(query_labels)
        depth = np.shape(paths)[1] if np.ndim(paths) == 2 else 1
        if self.num_levels not in (None, depth):
            raise ShapeError(
                f"labels of {depth} levels",
                expected=f"num_levels={self.num_levels}",
                remedy=f"give the tester label_hierarchy_level={(self.num_levels or 1) - 1}, or all columns here",
            )
        options = {**self.options, "metrics": names}
        if ref_includes_query and reference is not None:
            options |= {"query_ids": np.arange(len(query)), "gallery_ids": np.arange(len(reference))}
        gallery_paths = None if reference is None else _columns(reference_labels)
        self.result = evaluate(query, paths, reference, gallery_paths, **options)
        means = self.result.summary()
        return {name: float(means.get(name, np.nan)) for name in names}


def _columns(labels: Any) -> Any:
    """The columns up to the one that was cut out of a tensor of labels, or the labels as they are."""
    whole = labels._base if isinstance(labels, torch.Tensor) and labels.ndim == 1 else None
    if whole is None or whole.ndim != 2 or len(whole) != len(labels) or labels.stride(0) != whole.stride(0):
        return labels
    column = (labels.storage_offset() - whole.storage_offset()) // whole.stride(1)
    return whole[:, : column + 1]
