"""A hiertree loss as a loss of pytorch-metric-learning; imported only with that library."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning.losses import BaseMetricLossFunction
from torch import Tensor

from hiertree.arrays import as_integer_paths
from hiertree.errors import OptionError, ShapeError
from hiertree.level_columns import UNKNOWN

from ..base import Loss
from ..pairs.inputs import GivenLevels, check_classes

LARGEST_ID = 2**53  # of labels in float


class MetricLearningLoss(BaseMetricLossFunction):  # type: ignore[misc] # the library has no types
    """See :func:`hiertree.losses.as_pytorch_metric_learning`."""

    class_paths: Tensor | None

    def __init__(self, loss: Loss, class_paths: Any = None) -> None:
        super().__init__()
        self.loss = loss
        paths = None if class_paths is None else torch.tensor(as_integer_paths(class_paths, name="class_paths"))
        self.register_buffer("class_paths", paths, persistent=False)

    def forward(
        self,
        embeddings: Any,
        labels: Any = None,
        indices_tuple: Any = None,
        ref_emb: Any = None,
        ref_labels: Any = None,
    ) -> Tensor:
        """Compute the loss from the library's arguments."""
        pairs = None
        if indices_tuple is not None:
            num_candidates = len(embeddings if ref_emb is None else ref_emb)
            pairs = _masks(indices_tuple, (len(embeddings), num_candidates), embeddings.device)
        if labels is None:
            if pairs is None:
                raise OptionError("labels=None", expected="labels of the embeddings, or the indices_tuple of a miner")
            of_pairs = GivenLevels(pairs[0])
            labels, ref_labels = of_pairs, None if ref_emb is None else of_pairs
        else:
            labels, ref_labels = self._paths(labels, ref_labels)
        valid = None if pairs is None else pairs[0] | pairs[1]
        return self.loss(embeddings, labels, ref_emb, ref_labels, valid=valid)

    def _paths(self, labels: Any, ref_labels: Any) -> tuple[Tensor, Tensor | None]:
        """Paths of integers ≥ 0 for labels of any type; labels that are such integers stay."""
        label_sets = [torch.as_tensor(tensor) for tensor in (labels, ref_labels) if tensor is not None]
        if len({tensor.ndim for tensor in label_sets}) > 1 or label_sets[0].ndim not in (1, 2):
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in label_sets)
            raise ShapeError(f"labels of shapes {shapes}", expected="(B,) or (B, L), and (M,) or (M, L)")
        all_labels = _as_ids(torch.cat([tensor.to(label_sets[0].device) for tensor in label_sets]))
        if self.class_paths is not None:
            if all_labels.ndim == 2:
                raise ShapeError(f"labels of shape {tuple(label_sets[0].shape)}", expected="(B,), with class_paths")
            check_classes(all_labels.cpu().numpy(), len(self.class_paths), expected_for="row of class_paths")
            all_labels = self.class_paths.to(all_labels.device)[all_labels]
        batch_paths, *ref_paths = torch.split(all_labels, [len(tensor) for tensor in label_sets])
        return batch_paths, ref_paths[0] if ref_paths else None

    def _get_name(self) -> str:
        return "MetricLearningLoss"


MetricLearningLoss.__name__ = "ContrastiveLoss"
"""The library's CrossBatchMemory and SelfSupervisedLoss take losses whose class bears one of a list of names."""


def _as_ids(labels: Tensor) -> Tensor:
    """Keep labels that equal integers ≥ 0, and the −1 of paths; number the others from the highest of these on."""
    ids = labels.long()
    is_id = ids >= (0 if labels.ndim == 1 else UNKNOWN)
    if labels.is_floating_point():
        is_id &= (ids == labels) & (labels < LARGEST_ID)
    if not bool(is_id.all()):
        highest = ids[is_id].max() if bool(is_id.any()) else -1
        ids[~is_id] = highest + 1 + torch.unique(labels[~is_id], return_inverse=True)[1]
    return ids


def _masks(indices: Any, shape: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """(B, M) booleans, positive pairs and negative ones, of three tensors of triplets or four of pairs."""
    if not isinstance(indices, tuple) or len(indices) not in (3, 4):
        description = f"a tuple of {len(indices)}" if isinstance(indices, tuple) else type(indices).__name__
        raise ShapeError(f"indices_tuple that is {description}", expected="3 or 4 tensors of rows, as a miner returns")
    anchors, positives, *rest = (torch.as_tensor(rows, device=device) for rows in indices)
    other_anchors, negatives = (anchors, rest[0]) if len(rest) == 1 else rest
    masks = torch.zeros((2, *shape), dtype=torch.bool, device=device)
    for mask, queries, candidates in zip(masks, (anchors, other_anchors), (positives, negatives), strict=True):
        if len(queries) and (int(queries.max()) >= shape[0] or int(candidates.max()) >= shape[1]):
            raise ShapeError("indices_tuple with rows beyond the batch", expected=f"rows below {shape}")
        mask[queries, candidates] = True
    return masks[0], masks[1]
