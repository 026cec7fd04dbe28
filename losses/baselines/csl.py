"""Composite similarity learning: one softmax loss a level over proxies of the finest classes, coarser margins wider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as nn_functional

from hiertree.arrays import as_integer_paths
from hiertree.errors import PathError, ShapeError
from hiertree.metrics.engine.device import sent
from hiertree.options import check_each, check_number, require

from ..decomposability import ProxyLoss
from ..pairs.inputs import CheckedPaths, unit_vectors
from ..pairs.pairs import cosine

if TYPE_CHECKING:
    from numpy.typing import NDArray

FINEST_MARGIN, MARGIN_PER_LEVEL = 0.25, 0.1  # 0.45, 0.35, 0.25 for three levels, as in the authors' code


class CSL(ProxyLoss):
    r"""Composite similarity learning: an item should be nearer to its own proxy than to those of other branches.

    .. math:: \sum_{l=1}^{L} \log\left(1 + \sum_{c:\, level(c, y) < l}
              \exp\left(\gamma\,(\cos(e, p_c) - \cos(e, p_y) + m_l)\right)\right)

    averaged over the batch, with one proxy p_c for every finest class c and y the item's own. Reference embeddings are
    not used. Source: Sun et al., *Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple
    Semantic Scales* (CVPR 2021), in the form of Ramzi et al.'s public code.

    Args:
        class_paths: (C, L) path of each finest class, in any order; every item of a batch must have one of them, or
            an unknown class.
        embedding_size: d.
        margins: m_l of each level, coarse → fine; None: 0.25 at the finest and 0.1 more for each level above.
        scale: γ.
        initial: how proxies start, see :class:`hiertree.losses.ProxyOptions`.

    >>> import torch
    >>> loss = CSL(torch.tensor([[0, 0], [0, 1], [1, 2]]), 4)
    >>> loss(torch.eye(4), torch.tensor([[0, 0], [0, 0], [0, 1], [1, 2]])).shape, loss.margins
    (torch.Size([]), (0.35, 0.25))
    """

    _shown = ("num_classes", "embedding_size", "margins", "scale")

    class_paths: Tensor
    """(C, L) paths, by their finest ids; row c belongs to proxy c."""

    def __init__(
        self,
        class_paths: Any,
        embedding_size: int,
        *,
        margins: tuple[float, ...] | None = None,
        scale: float = 32.0,
        initial: str | float = "normal",
    ) -> None:
        paths = _sort_by_finest_id(as_integer_paths(class_paths, name="class_paths"))
        super().__init__(len(paths), embedding_size, initial=initial)
        check_number("scale", scale, above=0)
        self.margins, self.scale, self._ids = _margins(margins, paths.shape[1]), scale, paths
        self.register_buffer("class_paths", torch.tensor(paths), persistent=False)

    def _item_losses(self, vectors: Tensor, paths: CheckedPaths) -> Tensor:
        item_rows = sent(self._proxies_of(paths.ids), vectors.device)
        logits = self.scale * cosine(vectors, unit_vectors(self.proxies, name="proxies"))
        differences = logits - logits.gather(1, item_rows[:, None])
        total = torch.zeros_like(differences[:, 0])
        in_same_node = torch.ones_like(differences, dtype=torch.bool)
        for level, margin in enumerate(self.margins, start=1):
            column = self.class_paths[:, level - 1]
            in_same_node = in_same_node & (column[item_rows, None] == column)
            other_differences = differences.masked_fill(
                in_same_node, torch.finfo(differences.dtype).min / 4
            )  # finite, as gradients must be
            total = total + nn_functional.softplus(other_differences.logsumexp(dim=1) + self.scale * margin)
        return total

    def _proxies_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the proxy of each item."""
        if ids.shape[1] != len(self.margins):
            raise ShapeError(f"paths of {ids.shape[1]} levels", expected=f"{len(self.margins)}, as class_paths have")
        rows = np.searchsorted(self._ids[:, -1], ids[:, -1]).clip(max=len(self._ids) - 1)
        unknown_rows = np.flatnonzero((self._ids[rows] != ids).any(axis=1) & (ids[:, -1] >= 0))
        if len(unknown_rows):
            row = int(unknown_rows[0])
            raise PathError(f"path {tuple(ids[row].tolist())} in row {row}", expected="one of class_paths")
        return rows


def _sort_by_finest_id(paths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The paths ordered by their finest ids, which must be distinct."""
    if not len(paths):
        raise PathError("empty class_paths", expected="a path for each class")
    sorted_paths = paths[paths[:, -1].argsort()]
    repeats = np.flatnonzero(sorted_paths[1:, -1] == sorted_paths[:-1, -1])
    if len(repeats):
        raise PathError(f"class_paths with finest id {sorted_paths[repeats[0], -1]} twice", expected="each id once")
    return sorted_paths


def _margins(margins: Sequence[float] | None, num_levels: int) -> tuple[float, ...]:
    if margins is None:
        return tuple(round(FINEST_MARGIN + MARGIN_PER_LEVEL * height, 10) for height in reversed(range(num_levels)))
    expected = f"{num_levels} finite numbers, coarse → fine"
    margins = check_each("margins", margins, check_number, expected)
    require(len(margins) == num_levels, "margins", margins, expected)
    return margins
