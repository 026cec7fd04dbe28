"""Differentiable recall at k, normalized by the number of positives: a second sigmoid acts on the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hiertree.metrics.engine.device import sent
from hiertree.options import require, with_options_of

from .base import PairLoss
from .functional import KS, checked_cutoffs, recall_losses
from .pairs.blocks import LossPerQuery
from .pairs.inputs import check_same_paths, checked_paths, float_vectors, full_mask, unit_vectors
from .pairs.pairs import ScoredPairs, VectorPairs, pairs_of
from .pairs.soft_ranks import Sigmoid, StepOptions, SupStep

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack


class SupRecall(PairLoss):
    r"""Sup-R@k: recall at several k, from ranks that are never too small where a negative stands ahead.

    .. math:: 1 - \frac{1}{|K|} \sum_{k \in K} \frac{1}{\min(k, |\Omega^+|)}
              \sum_{j \in \Omega^+} \sigma\left(\frac{k - rank^+(j) - rank^-_s(j)}{\tau^*}\right)

    averaged over the queries that have a positive. The second sigmoid is no step: the loss is above 0 even for a
    perfect ranking, and no bound of 1 − TR@k. A recall counts as 1 at most, which Eq. 16 does not say; this makes a
    difference only where τ* > 1.05.
    Source: Ramzi et al., *Optimization of Rank Losses for Image Retrieval* (TPAMI 2025), Eq. 16.

    Args:
        ks: K, the lengths of lists.
        tau_star: temperature τ* of the second sigmoid.
        level: positives agree with the query down to this level; None: the finest.
        include_self: a query is its own candidate, as in the authors' code.
        tau, rho, delta, start, offset: the step H⁻, see :class:`hiertree.losses.StepOptions`.

    >>> import torch
    >>> perfect = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> round(float(SupRecall(ks=(1,))(perfect, torch.tensor([0, 0, 1, 1]))), 4)  # σ(0) of the one positive, at rank 1
    0.5
    """

    _shown = ("ks", "tau_star", "level", "step")

    @with_options_of(SupStep)
    def __init__(
        self,
        *,
        ks: tuple[int, ...] = KS,
        tau_star: float = 1.0,
        level: int | None = None,
        include_self: bool = False,
        **step: Unpack[StepOptions],
    ) -> None:
        super().__init__(level=level, include_self=include_self)
        self.ks, self.tau_star = checked_cutoffs(ks, tau_star), tau_star
        self.step: SupStep | Sigmoid = SupStep(**step)

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """The formula for the positives of this level."""
        return recall_losses(pairs, level=self.level, step=self.step, ks=self.ks, tau_star=self.tau_star)


class SmoothRecall(SupRecall):
    r"""Smooth-R@k, the recall@k surrogate: :class:`SupRecall` with σ(t/τ) for every step. Options as there and below.

    Many positives with one score each rank in their middle, so that more of them seem found than k: a recall counts as
    1 at most. Source: Patel et al., *Recall@k Surrogate Loss with Large Batches and Similarity Mixup* (CVPR 2022).

    Args:
        tau: temperature τ of the first sigmoid.
        similarity_mixup: SiMix; while training, every two images of a class make a virtual one, which queries and is
            ranked like the others and whose similarities are α and 1 − α parts of theirs, α ~ U(0, 1) from torch's
            generator. A class of n images in the batch adds n(n − 1)/2.

    >>> import torch
    >>> 0 < float(SmoothRecall()(torch.eye(3), torch.tensor([0, 0, 1]))) < 1
    True
    """

    def __init__(
        self,
        *,
        ks: tuple[int, ...] = KS,
        tau_star: float = 1.0,
        level: int | None = None,
        tau: float = 0.01,
        similarity_mixup: bool = False,
        include_self: bool = False,
    ) -> None:
        super().__init__(ks=ks, tau_star=tau_star, level=level, include_self=include_self)
        self.step, self.similarity_mixup = Sigmoid(tau), similarity_mixup
        self.is_mean_over_queries = self._compares_pairs = not similarity_mixup  # which mixes images of a class

    def pairs_of(self, embeddings: Any, paths: Any, ref_embeddings: Any, ref_paths: Any, *, valid: Any) -> VectorPairs:
        """The batch and, with similarity mixup, every mixture of two of one class, as further queries.

        A virtual image is α·x + (1 − α)·z, α ~ U(0, 1), not normalized: its inner product with any vector is the
        mixture of the two similarities. Without reference embeddings it is a candidate too; what is valid for x and for
        z is valid for it.
        """
        if not (self.similarity_mixup and self.training):
            return super().pairs_of(embeddings, paths, ref_embeddings, ref_paths, valid=valid)
        vectors = unit_vectors(embeddings)
        classes = checked_paths(paths, vectors)
        pairs = _same_class(classes.ids, self.level)
        x, z = sent(pairs, vectors.device)
        alpha = torch.rand(len(x), 1, dtype=vectors.dtype, device=vectors.device)
        mixed = torch.cat([vectors, alpha * vectors[x] + (1 - alpha) * vectors[z]])
        mixed_paths = np.concatenate([classes.ids, classes.ids[pairs[0]]])
        within_batch = ref_embeddings is None or ref_embeddings is embeddings
        if within_batch and ref_paths is not None:
            check_same_paths(classes, checked_paths(ref_paths, vectors, name="ref_paths"))
        if valid is not None:
            valid = full_mask(valid, (len(vectors), len(vectors if within_batch else ref_embeddings)), vectors.device)
            valid = torch.cat([valid, valid[x] & valid[z]])
            valid = torch.cat([valid, valid[:, x] & valid[:, z]], dim=1) if within_batch else valid
        references = (None, None) if within_batch else (unit_vectors(ref_embeddings, name="ref_embeddings"), ref_paths)
        options: dict[str, Any] = {"valid": valid, "include_self": self.include_self, "to_vectors": float_vectors}
        return pairs_of(mixed, mixed_paths, *references, **options)


def _same_class(ids: NDArray[np.int64], level: int | None) -> NDArray[np.int64]:
    """(2, n) all pairs of rows of one class, which agree down to the level, the smaller row first."""
    require(level is None or 1 <= level <= ids.shape[1], "level", level, f"None, or 1 to {ids.shape[1]}")
    nodes = ids[:, :level]
    classes = np.unique(nodes, axis=0, return_inverse=True)[1].ravel()
    return np.stack(np.nonzero(np.triu((classes[:, None] == classes) & (nodes[:, -1] >= 0), k=1)))
