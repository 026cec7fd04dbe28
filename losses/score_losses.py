"""Shared by the functional losses: check scores, levels and the table, evaluate a loss, reduce it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

import torch
from torch import Tensor

from hiertree.arrays import MAX_LEVELS
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.options import check_choice, check_integer

from .base import PairLoss
from .pairs.blocks import LossPerQuery
from .pairs.inputs import full_mask, real_tensor
from .pairs.objectives import StepOptions
from .pairs.one_batch import whole_batch
from .pairs.pairs import ScoredPairs

Reduction: TypeAlias = Literal["mean", "none"]


class ScoreOptions(TypedDict, total=False):
    """Options that the functional rank losses have in common.

    * ``valid``: booleans that broadcast to (B, M); False where the item is no candidate of the query (itself, say).
      Default None: all are candidates.
    * ``reduction``: "mean" over the queries that have a positive (0 when none has), the default; or "none": (B,), 0 for
      the others.
    """

    valid: Any
    reduction: Reduction


class SupOptions(StepOptions, ScoreOptions, total=False):
    """Options of the functional Sup losses."""


def loss_of_scores(
    loss_type: type[PairLoss],
    scores: Any,
    levels: Any,
    table: Any,
    *,
    valid: Any = None,
    reduction: Reduction = "mean",
    **options: Any,
) -> Tensor:
    """Evaluate a loss, made with these options, of given scores, with the relevance of a table, and reduce it."""
    loss = loss_type(**options)
    pairs, table = checked_pairs(scores, levels, table, valid)
    return reduced(loss.losses_of(pairs, table), reduction)


def checked_pairs(scores: Any, levels: Any, table: Any, valid: Any) -> tuple[ScoredPairs, Tensor]:
    """The arguments, checked, as pairs and a table on one device."""
    scores = whole_batch(real_tensor(scores, "scores"))
    levels, table = real_tensor(levels, "levels", scores.device), real_tensor(table, "table", scores.device)
    if scores.ndim != 2 or scores.shape[1] == 0 or levels.shape != scores.shape:
        shapes = f"{tuple(scores.shape)}, {tuple(levels.shape)}"
        raise ShapeError(f"scores, levels of shapes {shapes}", expected="one shape (B, M) with M ≥ 1")
    mask = full_mask(valid, (scores.shape[0], scores.shape[1]), scores.device)
    if table.ndim != 2 or len(table) != len(scores) or table.shape[1] < 2:
        raise ShapeError(f"table of shape {tuple(table.shape)}", expected=f"({len(scores)}, L+1) with L ≥ 1")
    check_scores(scores)
    bad = ~((table >= 0) & (table < torch.inf)).all(dim=1)
    if bool(bad.any()):
        raise OptionError(
            f"table with {table[bad][0].tolist()} in row {int(bad.nonzero()[0])}", expected="finite numbers ≥ 0"
        )
    num_levels = table.shape[1] - 1
    if num_levels > MAX_LEVELS:
        raise ShapeError(f"table of {num_levels} levels", expected=f"at most {MAX_LEVELS}", remedy="merge some levels")
    if levels.is_floating_point() or bool((levels < 0).any() | (levels > num_levels).any()):
        raise PathError(
            f"levels of type {levels.dtype} with a table for {num_levels} levels", expected="integers 0 … L"
        )
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    span = 2 * float(scores.detach().masked_fill(~mask, 0).abs().amax()) if len(scores) else 0.0
    return ScoredPairs(scores, levels.to(torch.uint8), mask, num_levels, span), table


def check_scores(scores: Tensor) -> None:
    """Refuse scores that are not numbers, by row."""
    if not bool(scores.isfinite().all()):
        row = int((~scores.isfinite()).any(dim=1).nonzero()[0])
        raise EmbeddingError(f"scores hold NaN or infinite values, first in row {row}", expected="finite numbers")


def binary_pairs(scores: Any, levels: Any, level: int, valid: Any) -> ScoredPairs:
    """Pairs of one level: positives are at ``level`` and finer."""
    check_integer("level", level)
    scores, positive = real_tensor(scores, "scores"), (real_tensor(levels, "levels") >= level).to(torch.uint8)
    return checked_pairs(scores, positive, positive.new_ones(*scores.shape[:1], 2), valid)[0]


def reduced(losses: LossPerQuery, reduction: str) -> Tensor:
    """The mean over the queries that have a loss, or all of them."""
    check_choice("reduction", reduction, Reduction)
    return losses.mean() if reduction == "mean" else losses.values
