"""Similarity mixup: virtual images between two of one class, by their similarities alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hiertree.options import require

from .inputs import check_same_paths, float_vectors, full_mask, path_tensor, unit_vectors
from .pairs import VectorPairs, pairs_of


def mixed_pairs_of(
    embeddings: Any,
    paths: Any,
    ref_embeddings: Any = None,
    ref_paths: Any = None,
    *,
    level: int | None = None,
    valid: Any = None,
    include_self: bool = False,
) -> VectorPairs:
    """The embeddings and every mixture of two of one class, to be compared with every candidate.

    A virtual image is α·x + (1 − α)·z, α ~ U(0, 1), not normalized: its inner product with any vector is the mixture
    of the two similarities. It follows the embeddings as a query and, without reference embeddings, as a candidate;
    what is valid for x and for z is valid for it.

    Args:
        embeddings: (B, d).
        paths: (B, L) or (B,); a virtual image has the path of x.
        ref_embeddings: (M, d) candidates; None compares the batch, virtual images included, with itself.
        ref_paths: (M, L) or (M,).
        level: a class is what agrees down to this level; None: the finest.
        valid: booleans that broadcast to (B, M), as in :func:`hiertree.losses.pairs.pairs.pairs_of`.
        include_self: whether a query is its own candidate.
    """
    vectors = unit_vectors(embeddings)
    classes = path_tensor(paths, vectors)
    x, z = _same_class(classes, level)
    alpha = torch.rand(len(x), 1, dtype=vectors.dtype, device=vectors.device)
    mixed = torch.cat([vectors, alpha * vectors[x] + (1 - alpha) * vectors[z]])
    mixed_paths = torch.cat([classes, classes[x]])
    within_batch = ref_embeddings is None or ref_embeddings is embeddings
    if within_batch and ref_paths is not None:
        check_same_paths(classes, path_tensor(ref_paths, vectors, name="ref_paths"))
    if valid is not None:
        shape = len(vectors), len(vectors) if within_batch else len(ref_embeddings)
        valid = _extended(full_mask(valid, shape, vectors.device), x, z, both=within_batch)
    references = (None, None) if within_batch else (unit_vectors(ref_embeddings, name="ref_embeddings"), ref_paths)
    return pairs_of(mixed, mixed_paths, *references, valid=valid, include_self=include_self, to_vectors=float_vectors)


def _same_class(paths: Tensor, level: int | None) -> tuple[Tensor, Tensor]:
    """Every two rows of one class, the smaller first."""
    require(level is None or 1 <= level <= paths.shape[1], "level", level, f"None, or 1 to {paths.shape[1]}")
    same = torch.unique(paths[:, :level], dim=0, return_inverse=True)[1]
    pairs = (same[:, None] == same[None, :]).triu(diagonal=1).nonzero()
    return pairs[:, 0], pairs[:, 1]


def _extended(valid: Tensor, x: Tensor, z: Tensor, *, both: bool) -> Tensor:
    """The mask with rows, and columns too where the batch is compared with itself, of virtual images."""
    valid = torch.cat([valid, valid[x] & valid[z]])
    return torch.cat([valid, valid[:, x] & valid[:, z]], dim=1) if both else valid
