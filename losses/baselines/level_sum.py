"""Flat losses for hierarchies: one at each level, added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor, nn

from hiertree.errors import ShapeError
from hiertree.options import require

from ..base import Loss
from ..pairs.inputs import float_vectors, path_tensor
from .metric_learning import PytorchMetricLearning, check_level_sizes

LossFactory: TypeAlias = Callable[[int], nn.Module]
"""Makes a loss for so many classes."""


class LevelSum(Loss):
    """Σ over levels of a loss whose classes are that level's nodes: ΣTL, ΣNSM, ΣNCA++ of the papers' tables.

    The loss of level l gets column l of the paths as flat labels. Its term is called ``level l``.

    Args:
        loss: makes the loss of a level from its number of classes: a loss of this package, or one of
            pytorch-metric-learning.
        level_sizes: classes at each level, coarse → fine, :attr:`hiertree.LabelTree.level_sizes`.

    Raises:
        OptionError: no levels.
        ShapeError: paths of another depth.

    >>> import torch
    >>> from hiertree.losses import ProxyDecomposability
    >>> loss = LevelSum(lambda num_classes: ProxyDecomposability(num_classes, 4), level_sizes=(2, 3))
    >>> sorted(loss.terms(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])))
    ['level 1', 'level 2']
    """

    def __init__(self, loss: LossFactory, level_sizes: Sequence[int]) -> None:
        super().__init__()
        require(callable(loss), "loss", loss, "a function that makes a loss for so many classes")
        check_level_sizes(level_sizes)
        self.losses = nn.ModuleList(_as_loss(loss(size)) for size in level_sizes)
        self.weights = {f"level {level}": 1.0 for level in range(1, len(self.losses) + 1)}

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive, counted anew at each level."""
        return sum(loss.last_num_skipped for loss in self._by_level().values())

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The loss of each level."""
        own = self._checked(paths, embeddings, "paths")
        refs = None if ref_paths is None else self._checked(ref_paths, ref_embeddings, "ref_paths")
        terms = {}
        for column, (name, loss) in enumerate(self._by_level().items()):
            ref_column = None if refs is None else refs[:, column]
            terms[name] = loss(embeddings, own[:, column], ref_embeddings, ref_column, valid=valid)
        return terms

    def _by_level(self) -> Mapping[str, Loss]:
        losses: Mapping[str, Any] = dict(zip(self.weights, self.losses, strict=True))
        return losses

    def _checked(self, paths: Any, embeddings: Any, name: str) -> Tensor:
        tensor = path_tensor(paths, float_vectors(embeddings), name=name)
        if tensor.shape[1] != len(self.losses):
            raise ShapeError(f"{name} of {tensor.shape[1]} levels", expected=f"{len(self.losses)}, as level_sizes has")
        return tensor


def _as_loss(made: nn.Module) -> Loss:
    return made if isinstance(made, Loss) else PytorchMetricLearning(made)
