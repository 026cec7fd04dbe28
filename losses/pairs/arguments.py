"""The arguments and the result that every functional loss has in common."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError

from ..kernels.choice import Backend, check_backend
from .blocks import QueryLosses
from .checks import require
from .pairs import Pairs


def checked_pairs(scores: Any, levels: Any, table: Any, valid: Any, backend: Backend = "auto") -> tuple[Pairs, Tensor]:
    """The arguments as pairs and a table on one device, or a typed refusal."""
    check_backend(backend)
    scores = torch.as_tensor(scores)
    levels, table = torch.as_tensor(levels, device=scores.device), torch.as_tensor(table, device=scores.device)
    valid = torch.ones_like(scores, dtype=torch.bool) if valid is None else torch.as_tensor(valid, device=scores.device)
    if scores.ndim != 2 or scores.shape[1] == 0 or not levels.shape == valid.shape == scores.shape:
        shapes = ", ".join(str(tuple(array.shape)) for array in (scores, levels, valid))
        raise ShapeError(f"scores, levels, valid of shapes {shapes}", expected="one shape (B, M) with M ≥ 1")
    if table.ndim != 2 or len(table) != len(scores) or table.shape[1] < 2:
        raise ShapeError(f"table of shape {tuple(table.shape)}", expected=f"({len(scores)}, L+1) with L ≥ 1")
    check_scores(scores)
    bad = ~((table >= 0) & (table < torch.inf)).all(dim=1)
    if bool(bad.any()):
        raise OptionError(
            f"table with {table[bad][0].tolist()} in row {int(bad.nonzero()[0])}", expected="finite numbers ≥ 0"
        )
    num_levels = table.shape[1] - 1
    if levels.is_floating_point() or bool((levels < 0).any() | (levels > num_levels).any()):
        raise PathError(
            f"levels of type {levels.dtype} beside a table for {num_levels} levels", expected="integers 0 … L"
        )
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return Pairs(scores, levels.to(torch.uint8), valid.bool(), num_levels, backend), table


def check_scores(scores: Tensor) -> None:
    """Refuse scores that are not numbers, by row."""
    if not bool(scores.isfinite().all()):
        row = int((~scores.isfinite()).any(dim=1).nonzero()[0])
        raise EmbeddingError(f"scores hold NaN or infinite values, first in row {row}", expected="finite numbers")


def binary_pairs(scores: Any, levels: Any, level: int, valid: Any) -> Pairs:
    """Pairs of one level: positives are at ``level`` and finer."""
    require(level >= 1, "level", level, "an integer ≥ 1")
    scores, positive = torch.as_tensor(scores), (torch.as_tensor(levels) >= level).to(torch.uint8)
    return checked_pairs(scores, positive, torch.ones(len(scores), 2), valid)[0]


def reduced(losses: QueryLosses, reduction: str) -> Tensor:
    """The mean over the queries that have a loss, or all of them."""
    require(reduction in ("mean", "none"), "reduction", reduction, "'mean' or 'none'")
    return losses.mean() if reduction == "mean" else losses.values
