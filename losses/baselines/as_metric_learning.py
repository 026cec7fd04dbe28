"""A hiertree loss as a loss of pytorch-metric-learning; imported only where that library is wanted."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning.losses import BaseMetricLossFunction
from torch import Tensor

from hiertree.errors import OptionError

from ..base import Loss


class MetricLearningLoss(BaseMetricLossFunction):  # type: ignore[misc] # the library has no types
    """See :func:`hiertree.losses.as_pytorch_metric_learning`."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self,
        embeddings: Any,
        labels: Any = None,
        indices_tuple: Any = None,
        ref_emb: Any = None,
        ref_labels: Any = None,
    ) -> Tensor:
        """The loss, called as the library calls its own."""
        if labels is None:
            raise OptionError("labels=None", expected="(B,) labels or (B, L) paths of the embeddings")
        valid = None
        if indices_tuple is not None:
            num_candidates = len(embeddings if ref_emb is None else ref_emb)
            valid = _mask(indices_tuple, (len(embeddings), num_candidates), embeddings.device)
        return self.loss(embeddings, labels, ref_emb, ref_labels, valid=valid)  # type: ignore[no-any-return] # a module


def _mask(indices: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """Where (anchors, positives, negatives) or (anchors, positives, anchors, negatives) have a pair."""
    anchors, positives, *rest = indices
    other_anchors, negatives = (anchors, rest[0]) if len(rest) == 1 else rest
    mask = torch.zeros(shape, dtype=torch.bool, device=device)
    mask[anchors, positives] = True
    mask[other_anchors, negatives] = True
    return mask
