"""Metrics that gather embeddings batch by batch, across processes too, as torchmetrics do.

A batch alone has no ranking: what is gathered is the embeddings and paths, and ``compute`` evaluates them all.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from hiertree.arrays import to_numpy
from hiertree.errors import PathError, ShapeError

from ..conventions.request import RelevanceFunction, metric_request
from ..conventions.ties import Ties
from ..result import Evaluation
from .embeddings import evaluate

_NO_ID = -1


class StreamingMetric(Metric):
    """Gathers items; subclasses name the metric. The items retrieve each other, or some of them are the gallery.

    Args:
        metric: a name as :func:`hiertree.metrics.evaluate` takes it.
        alpha: likewise, as are the rest.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    embeddings: list[torch.Tensor]
    paths: list[torch.Tensor]
    in_gallery: list[torch.Tensor]
    ids: list[torch.Tensor]

    def __init__(
        self, metric: str, *, alpha: float = 1.0, relevance: RelevanceFunction | None = None, ties: Ties = "average"
    ) -> None:
        super().__init__()
        metric_request(  # a wrong option fails here
            [metric], num_queries=1, num_levels=1, alpha=alpha, relevance=relevance, ties=ties
        )
        self.metric, self.alpha, self.relevance, self.ties = metric, alpha, relevance, ties
        for state in ("embeddings", "paths", "in_gallery", "ids"):
            self.add_state(state, default=[], dist_reduce_fx="cat")

    def update(
        self, embeddings: torch.Tensor, paths: torch.Tensor, *, gallery: bool = False, ids: torch.Tensor | None = None
    ) -> None:
        """Add a batch.

        Args:
            embeddings: (n, d).
            paths: (n, L) label ids, coarse → fine; (n,) means L = 1.
            gallery: whether the batch belongs to a separate gallery. Once a batch does, the others are queries only.
            ids: (n,) integers ≥ 0, one an item. Of the items of one id only one counts: a distributed sampler repeats
                some so that every process has as many, and a repeated item would be an easy positive.

        Raises:
            ShapeError: arrays that do not fit together.
            PathError: negative ids.
        """
        labels = paths[:, None] if paths.ndim == 1 else paths
        own = torch.full((len(embeddings),), _NO_ID, device=labels.device) if ids is None else ids
        if embeddings.ndim != 2 or labels.ndim != 2 or not len(embeddings) == len(labels) == len(own):
            raise ShapeError(
                f"embeddings {tuple(embeddings.shape)}, paths {tuple(paths.shape)}, {len(own)} ids",
                expected="(n, d), (n, L) and n",
            )
        if ids is not None and bool((ids < 0).any()):
            raise PathError("negative ids of items", expected="integers ≥ 0")
        self.embeddings.append(embeddings.detach())
        self.paths.append(labels.detach().to(torch.int64))
        self.in_gallery.append(torch.full((len(labels),), gallery, device=labels.device))
        self.ids.append(own.detach().to(torch.int64))

    def compute(self) -> torch.Tensor:
        """Mean over the queries, a float32 scalar; NaN, with a warning, where no query has a positive."""
        summary = self.evaluation().summary()
        if self.metric not in summary:
            warnings.warn(f"{self.metric}: no query has a positive among the gathered items", UserWarning, stacklevel=2)
        value = float(summary.get(self.metric, np.nan))
        return torch.tensor(value, dtype=torch.float32, device=self.device)

    def evaluation(self) -> Evaluation:
        """Everything about the items this process holds: values by query, skipped ones, the convention card.

        Inside ``compute`` these are the items of all processes.

        Raises:
            ShapeError: no batch has been added.
        """
        states = self.embeddings, self.paths, self.in_gallery, self.ids
        if len(self.embeddings) == 0:
            raise ShapeError(f"{type(self).__name__} without items", expected="update before compute")
        embeddings, paths, in_gallery, ids = (to_numpy(dim_zero_cat(state)) for state in states)
        keys = np.stack([in_gallery.astype(np.int64), np.where(ids == _NO_ID, -1 - np.arange(len(ids)), ids)])
        kept = np.sort(np.unique(keys, axis=1, return_index=True)[1])
        embeddings, paths, apart = embeddings[kept], paths[kept], in_gallery[kept].astype(bool)
        gallery = (embeddings[apart], paths[apart]) if apart.any() else (None, None)
        return evaluate(
            embeddings[~apart],
            paths[~apart],
            *gallery,
            metrics=[self.metric],
            alpha=self.alpha,
            relevance=self.relevance,
            ties=self.ties,
        )


class HierarchicalAP(StreamingMetric):
    """H-AP (Ramzi et al., TPAMI 2025, Eq. 19) of all items gathered, as :func:`hiertree.metrics.evaluate` computes it.

    Args:
        alpha: of the relevance of H-AP.
        relevance: in place of that, a function counts (r, L+1) → table (r, L+1).
        ties: the policy for equal scores.

    Raises:
        OptionError: an option outside its range.

    >>> metric = HierarchicalAP()
    >>> metric.update(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.tensor([[0, 0], [0, 0]]))
    >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([[0, 1]]))
    >>> metric.compute()
    tensor(0.9444)
    """

    def __init__(
        self, *, alpha: float = 1.0, relevance: RelevanceFunction | None = None, ties: Ties = "average"
    ) -> None:
        super().__init__("H-AP", alpha=alpha, relevance=relevance, ties=ties)


class HierarchicalNDCG(StreamingMetric):
    """NDCG with gains 2^l − 1 (Eq. 23) of all items gathered.

    Args:
        k: the cut-off; the whole ranking unless given.
        ties: the policy for equal scores.

    Raises:
        OptionError: an option outside its range.

    >>> metric = HierarchicalNDCG()
    >>> metric.update(torch.eye(3)[:2], torch.tensor([[0, 0], [0, 0]]))
    >>> metric.compute()
    tensor(1.)
    """

    def __init__(self, *, k: int | None = None, ties: Ties = "average") -> None:
        super().__init__("NDCG" if k is None else f"NDCG@{k}", ties=ties)


class ASI(StreamingMetric):
    """Average set intersection (Fagin, Kumar and Sivakumar, 2003) of all items gathered.

    Args:
        ties: the policy for equal scores.

    Raises:
        OptionError: an unknown policy.

    >>> metric = ASI()
    >>> metric.update(torch.eye(3)[:2], torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(1.)
    """

    def __init__(self, *, ties: Ties = "average") -> None:
        super().__init__("ASI", ties=ties)
