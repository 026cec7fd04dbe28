"""Checks of what losses are called with: embeddings, paths and masks become tensors on one device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hiertree.arrays import as_paths
from hiertree.errors import EmbeddingError, ShapeError


def unit_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """Embeddings on the unit sphere, in float32 (float64 stays), or an EmbeddingError that names the bad rows."""
    vectors = float_vectors(embeddings, name=name)
    largest = vectors.detach().abs().amax(dim=1, keepdim=True)
    refuse_rows(~((largest > 0) & largest.isfinite())[:, 0], f"{name} holds NaN, infinite or zero-norm vectors")
    scaled = vectors / largest  # so that the norm of tiny or huge vectors neither vanishes nor overflows
    unit: Tensor = scaled / torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return unit


def finite_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """(n, d) floats in float32 or better, or an EmbeddingError that names the rows that hold NaN or infinite values."""
    vectors = float_vectors(embeddings, name=name)
    refuse_rows(~vectors.isfinite().all(dim=1), f"{name} holds NaN or infinite values")
    return vectors


def float_vectors(embeddings: Any, *, name: str = "embeddings") -> Tensor:
    """(n, d) floats in float32 or better; NaN and infinite values pass."""
    vectors = torch.as_tensor(embeddings)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ShapeError(f"{name} of shape {tuple(vectors.shape)}", expected="shape (n, d) with n, d ≥ 1")
    if not vectors.is_floating_point():
        raise EmbeddingError(f"{name} of type {vectors.dtype}", expected="floating-point numbers")
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32))


def path_tensor(paths: Any, vectors: Tensor, *, name: str = "paths") -> Tensor:
    """Checked (n, L) int64 paths of these vectors, on their device."""
    return torch.from_numpy(as_paths(paths, name=name, num_items=len(vectors))).to(vectors.device)


def checked_mask(valid: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """Booleans that broadcast to this shape."""
    mask = torch.as_tensor(valid, device=device)
    if (
        mask.dtype != torch.bool
        or mask.ndim != 2
        or any(a not in (1, b) for a, b in zip(mask.shape, shape, strict=True))
    ):
        raise ShapeError(
            f"valid of shape {tuple(mask.shape)} and type {mask.dtype}", expected=f"booleans that broadcast to {shape}"
        )
    return mask


def full_mask(valid: Any, shape: tuple[int, int], device: torch.device) -> Tensor:
    """A new mask of this shape; None makes every item a candidate of every query."""
    if valid is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    return checked_mask(valid, shape, device).expand(shape).clone()


def has_candidate(valid: Any, vectors: Tensor, ref_embeddings: Any) -> Tensor:
    """(B,) booleans: the items that have a valid candidate, for losses that compare with proxies instead."""
    if valid is None:
        return torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
    num_candidates = len(vectors if ref_embeddings is None else ref_embeddings)
    return full_mask(valid, (len(vectors), num_candidates), vectors.device).any(dim=1)


def refuse_rows(bad: Tensor, given: str) -> None:
    """Refuse embeddings that have bad rows, and name these."""
    if not bool(bad.any()):
        return
    rows = bad.nonzero()[:, 0].tolist()
    shown = ", ".join(map(str, rows[:5])) + (", …" if len(rows) > 5 else "")
    raise EmbeddingError(
        f"{given} ({len(rows)} rows: {shown})",
        expected="finite vectors that can be normalized",
        remedy="lower the learning rate, or fix these rows",
    )
