"""Pairs on a CPU, compiled: one order of each row serves every count and every sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hiertree.losses import _grid_rows, _pair_rows
from hiertree.losses._kernels import Blocks
from hiertree.losses._sorted_rows import (
    Chosen,
    SortedRows,
    choose,
    count_not_below,
    sort_rows,
    sum_shared_relevance,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.losses._pairs import Pairs
    from hiertree.losses._steps import Pieces, Step

PAIR, ITEM, NODE = 1.0, 30.0, 0.12  # nanoseconds of a pair; of an item on the grid; of a node and a value of its table
MOST_TERMS = 40


class Accuracy(NamedTuple):
    """What a floating-point type asks for.

    Attributes:
        per_tau: nodes of the grid in τ.
        reach: where the sigmoid counts as 0 or 1, in τ.
        exponents: e^−exponents is small enough to end a series.
    """

    per_tau: int
    reach: float
    exponents: float


SCORES_AT_ONCE = (
    1 << 15
) - 1  # below what torch shares out over threads: the blocks of a batch are what runs in parallel
ACCURACY = {torch.float32: Accuracy(4, 25.0, 18.5), torch.float64: Accuracy(16, 37.0, 37.0)}


class Saved(NamedTuple):
    """What the backward pass of a step sum reads again."""

    candidates: Chosen
    targets: Chosen
    step: Pieces
    slopes: NDArray[np.float64]
    by_pairs: NDArray[np.int64]
    by_grid: NDArray[np.int64]


class NumbaKernel:
    """See :class:`hiertree.losses._kernels.PairKernel`; each row by pairs or by a grid, whichever costs less."""

    @staticmethod
    def plan(scores: Tensor) -> Blocks:
        """Small blocks, one to a thread: a kernel holds no lock."""
        return Blocks(max(1, SCORES_AT_ONCE // scores.shape[1]), torch.get_num_threads())

    def __init__(self, pairs: Pairs) -> None:
        scores = pairs.scores.detach()
        self._dtype, self._num_levels = scores.dtype, pairs.num_levels
        self._levels = pairs.levels.contiguous().numpy()
        self._rows = np.arange(len(scores))
        values = scores.contiguous().numpy()
        shape = values.shape
        self._ranking = SortedRows(np.empty_like(values), np.empty(shape, np.int32), np.empty(shape[0], np.int64))
        sort_rows(self._rows, values, pairs.valid.contiguous().numpy(), self._ranking)

    def not_below(self) -> Tensor:
        """rank⁺."""
        counts = torch.ones(self._levels.shape, dtype=self._dtype)
        count_not_below(self._rows, self._ranking, self._levels, self._num_levels, counts.numpy())
        return counts

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺."""
        sums = torch.ones(self._levels.shape, dtype=self._dtype)
        relevance = table.contiguous().numpy()
        sum_shared_relevance(self._rows, self._ranking, self._levels, relevance, sums.numpy())
        return sums

    def forward(self, candidates: Tensor, targets: Tensor, step: Step) -> tuple[Tensor, Saved]:
        """Step sums, and what the backward pass needs."""
        saved = self._prepare(self._choose(candidates), self._choose(targets), step.pieces)
        sums = torch.zeros(candidates.shape, dtype=self._dtype)
        self._run_both("forward", saved, sums.numpy(), saved.slopes)
        themselves = candidates & targets
        if themselves.any():
            sums.sub_(themselves.to(sums.dtype), alpha=0.5 + saved.step.start)
        return sums, saved

    def backward(self, upstream: Tensor, saved: Saved) -> Tensor:
        """Gradient with respect to the scores; a target's pair with itself adds and takes away the same."""
        gradient = torch.zeros_like(upstream)
        self._run_both("backward", saved, upstream.contiguous().numpy(), saved.slopes, gradient.numpy())
        return gradient

    def _choose(self, mask: Tensor) -> Chosen:
        shape = (len(mask), mask.shape[1] + 1)
        chosen = Chosen(np.empty(shape), np.empty(shape, np.int32), np.empty(len(mask), np.int64))
        choose(self._rows, self._ranking, mask.contiguous().numpy(), chosen)
        return chosen

    def _prepare(self, candidates: Chosen, targets: Chosen, step: Pieces) -> Saved:
        """Settle which rows go which way, by what each would cost."""
        pairs = candidates.number * targets.number
        rows = np.flatnonzero(pairs)
        accuracy = ACCURACY[self._dtype]
        by_grid = np.zeros(len(rows), np.bool_)
        if _num_terms(step, accuracy) <= MOST_TERMS:
            num_nodes = _span(rows, candidates, targets) * accuracy.per_tau / step.tau + 2 * _grid_rows.NODES
            on_grid = ITEM * (candidates.number + targets.number)[rows]
            on_grid += NODE * num_nodes * 2 * accuracy.reach * accuracy.per_tau
            by_grid = on_grid < PAIR * pairs[rows]
        slopes = np.empty((len(pairs), int(targets.number.max())))
        return Saved(candidates, targets, step, slopes, rows[~by_grid], rows[by_grid])

    def _run_both(self, direction: str, saved: Saved, *ends: NDArray[Any]) -> None:
        accuracy, arguments = ACCURACY[self._dtype], (saved.candidates, saved.targets, saved.step)
        by_pairs, by_grid = getattr(_pair_rows, direction), getattr(_grid_rows, direction)
        by_pairs(saved.by_pairs, *arguments, accuracy.reach * saved.step.tau, *ends)
        if len(saved.by_grid):
            grid = _grid_rows.tabulate(accuracy.per_tau, accuracy.reach, _num_terms(saved.step, accuracy))
            by_grid(saved.by_grid, *arguments, grid, *ends)


def _num_terms(step: Pieces, accuracy: Accuracy) -> int:
    """Terms that the series of σ beyond δ needs; none where nothing lies beyond, many where δ is near 0."""
    if step.margin == math.inf:
        return 0
    return math.ceil(min(accuracy.exponents * step.tau / max(step.margin, 1e-300), MOST_TERMS + 1))


def _span(rows: NDArray[np.int64], candidates: Chosen, targets: Chosen) -> NDArray[np.float64]:
    """From the lowest to the highest score of each row."""
    ends = [(chosen.values[rows, 0], chosen.values[rows, chosen.number[rows] - 1]) for chosen in (candidates, targets)]
    (top, low), (other_top, other_low) = ends
    span: NDArray[np.float64] = np.maximum(top, other_top) - np.minimum(low, other_low)
    return span
