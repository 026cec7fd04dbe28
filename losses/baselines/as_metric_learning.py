"""A hiertree loss as a loss of pytorch-metric-learning; imported only where that library is wanted."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning.losses import BaseMetricLossFunction
from torch import Tensor

from hiertree.errors import OptionError, ShapeError

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
    if not isinstance(indices, tuple) or len(indices) not in (3, 4):
        given = f"a tuple of {len(indices)}" if isinstance(indices, tuple) else type(indices).__name__
        raise ShapeError(f"indices_tuple that is {given}", expected="3 or 4 tensors of rows, as a miner returns")
    anchors, positives, *rest = (torch.as_tensor(rows, device=device) for rows in indices)
    other_anchors, negatives = (anchors, rest[0]) if len(rest) == 1 else rest
    mask = torch.zeros(shape, dtype=torch.bool, device=device)
    for queries, candidates in ((anchors, positives), (other_anchors, negatives)):
        if len(queries) and (int(queries.max()) >= shape[0] or int(candidates.max()) >= shape[1]):
            raise ShapeError("indices_tuple with rows beyond the batch", expected=f"rows below {shape}")
        mask[queries, candidates] = True
    return mask
