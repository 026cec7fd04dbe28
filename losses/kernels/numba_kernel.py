"""Pairs on a CPU, compiled: each row is sorted once for all counts and sums."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hiertree.jit import Array, Bools, jit

from . import grid_rows as _grid_rows
from . import line_rows as _line_rows
from . import pair_rows as _pair_rows
from .base import BlockPlan, PairKernel, StepParameters
from .sorted_rows import (
    Decays,
    GradedItems,
    SortedRows,
    StepSums,
    count_levels,
    count_shared,
    exponentiate,
    grade_rows,
    sort_rows,
    sum_not_below,
    sum_shared_relevance,
)

PAIR, ITEM, NODE, TAP = 1.3, 45.0, 22.0, 0.32
"""Nanoseconds, forward and backward: a pair; an item, where many are on the grid; a node; a value tabulated for it."""
MOST_TERMS = 40
LARGEST_POWER = 600.0  # e to this power, times itself, is finite, also when thousands are added up


class GridAccuracy(NamedTuple):
    """The accuracy settings of a floating-point type."""

    per_tau: int  # nodes of the grid in τ
    reach: float  # beyond so many τ the sigmoid of a pair counts as 0 or 1
    exponents: float  # e^−exponents is small enough to end a series


QUERIES_AT_ONCE = 128  # large enough for fast products, small enough for threads to end together
SCORES_AT_ONCE = 1 << 17  # a few megabytes of temporaries per thread
ACCURACY = {torch.float32: GridAccuracy(4, 25.0, 18.0), torch.float64: GridAccuracy(20, 37.0, 36.5)}


class SavedRows(NamedTuple):
    """Saved for the backward pass of a step sum."""

    pairs: StepSums
    slopes: Tensor
    by_pairs: Bools
    by_grid: Bools
    grid: _grid_rows.Grid
    terms: int
    beyond: Array


class NumbaKernel(PairKernel):
    """See :class:`hiertree.losses.kernels.base.PairKernel`; each row by pairs or by a grid, whichever is faster."""

    @staticmethod
    def plan(num_candidates: int, device: torch.device) -> BlockPlan:  # noqa: ARG004
        """Small blocks, one to a thread: a kernel holds no lock."""
        return BlockPlan(max(1, min(QUERIES_AT_ONCE, SCORES_AT_ONCE // num_candidates)), torch.get_num_threads())

    @staticmethod
    def levels(query_paths: Tensor, candidate_paths: Tensor) -> Tensor:
        """Compiled, since the torch operations that it replaces make other threads wait."""
        levels = query_paths.new_empty((len(query_paths), len(candidate_paths)), dtype=torch.uint8)
        count_shared(query_paths.contiguous().numpy(), candidate_paths.T.contiguous().numpy(), levels.numpy())
        return levels

    @staticmethod
    def counts(levels: Tensor, valid: Tensor, num_levels: int) -> Tensor:
        """Candidates at each level."""
        counts = levels.new_empty((len(levels), num_levels + 1), dtype=torch.int64)
        count_levels(levels.contiguous().numpy(), valid.contiguous().numpy(), counts.numpy())
        return counts

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int) -> None:
        self._dtype, values = scores.dtype, scores.detach().contiguous().numpy()
        self._ranking = SortedRows.empty(values)
        sort_rows(values, valid.contiguous().numpy(), self._ranking)
        self._levels = self._grade(levels, num_levels)

    def not_below(self) -> Tensor:
        """rank⁺."""
        return self._count(self._levels, self._levels, same=1.0, lower=0.0)

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺."""
        sums = table.new_zeros(self._ranking.values.shape, dtype=self._dtype)
        sum_shared_relevance(self._ranking, self._levels, table.contiguous().numpy(), sums.numpy())
        return sums

    def rank(self, step: StepParameters) -> tuple[Tensor, SavedRows]:
        """rank⁺ plus the step sums over lower levels, all levels at once, and what the backward pass needs."""
        rank = self._count(self._levels, self._levels, same=1.0, lower=step.start)
        return rank, self._add_sums(rank, self._levels, self._levels, step)

    def forward(self, candidates: Tensor, targets: Tensor, step: StepParameters) -> tuple[Tensor, SavedRows]:
        """Step sums, and the state for the backward pass."""
        lower, higher = self._grade(~candidates, 1), self._grade(targets, 1)
        sums = targets.new_zeros(targets.shape, dtype=self._dtype)
        if step.start:
            sums = self._count(lower, higher, same=0.0, lower=step.start).mul_(targets)
        saved = self._add_sums(sums, lower, higher, step)
        themselves = candidates & targets
        return sums.sub_(themselves.to(sums.dtype), alpha=0.5 + step.start), saved

    def backward(self, upstream: Tensor, saved: SavedRows) -> Tensor:
        """Gradient with respect to the scores; a target's pair with itself adds and takes away the same."""
        gradient = (upstream * saved.slopes).neg_()
        self._each_route("backward", saved, upstream.contiguous().numpy(), gradient.numpy())
        return gradient

    def _grade(self, grades: Tensor, highest: int) -> GradedItems:
        shape, start = grades.shape, np.empty((len(grades), highest + 2), np.int32)
        graded = GradedItems(np.empty(shape, np.uint8), np.empty(shape, np.int32), start)
        grade_rows(self._ranking, grades.contiguous().view(torch.uint8).numpy(), graded)
        return graded

    def _count(self, candidates: GradedItems, targets: GradedItems, *, same: float, lower: float) -> Tensor:
        """For each item, those as high: of its grade and higher ones ``same`` counts, of lower ones ``lower``."""
        weights = np.where(np.tri(candidates.start.shape[1] - 1, dtype=np.bool_), same, lower)
        sums = torch.ones(self._ranking.values.shape, dtype=self._dtype, device="cpu")
        sum_not_below(self._ranking, candidates, targets, weights, sums.numpy())
        return sums

    def _add_sums(self, sums: Tensor, candidates: GradedItems, targets: GradedItems, step: StepParameters) -> SavedRows:
        """Add the step sums, without the jump at 0, which is counted."""
        accuracy = ACCURACY[self._dtype]
        grid, terms = _grid_rows.tabulate(accuracy.per_tau, accuracy.exponents), _num_terms(step, accuracy)
        decays = Decays(np.empty(sums.shape), np.empty(len(sums)), np.empty(len(sums), np.bool_))
        exponentiate(self._ranking, step.tau, decays)
        pairs = StepSums(self._ranking, decays, candidates, targets, step)
        by_pairs, by_grid = np.empty((2, len(sums), targets.start.shape[1] - 1), np.bool_)
        _choose(pairs, (PAIR, ITEM, NODE + TAP * len(grid.sigmoid.near)), grid.per_tau, terms, by_pairs, by_grid)
        beyond = np.empty(sums.shape, np.uint32)
        saved = SavedRows(pairs, torch.zeros_like(sums), by_pairs, by_grid, grid, terms, beyond)
        self._each_route("forward", saved, sums.numpy(), saved.slopes.numpy())
        return saved

    def _each_route(self, direction: str, saved: SavedRows, *ends: Array) -> None:
        """Forward or backward, by pairs and by the grid."""
        pairs, _, by_pairs, by_grid, grid, terms, beyond = saved
        if len(rows := np.flatnonzero(by_pairs.any(axis=1))):
            reach = ACCURACY[self._dtype].reach * pairs.step.tau
            getattr(_pair_rows, direction)(rows, by_pairs, pairs, reach, *ends)
        if len(rows := np.flatnonzero(by_grid.any(axis=1))):
            getattr(_grid_rows, direction)(rows, by_grid, pairs, grid, *ends)
            getattr(_line_rows, direction)(rows, by_grid, pairs, terms, beyond, *ends)


def _num_terms(step: StepParameters, accuracy: GridAccuracy) -> int:
    """Terms that the series of σ beyond δ needs: none where nothing lies beyond, −1 for too many, where δ is near 0."""
    if step.margin == math.inf:
        return 0
    first_left_out = accuracy.exponents * step.tau / max(step.margin, 1e-300)
    terms = math.ceil(min(first_left_out, MOST_TERMS + 2) / _line_rows.SIDE_BY_SIDE) * _line_rows.SIDE_BY_SIDE
    return terms if terms <= MOST_TERMS else -1


@jit
def _choose(
    pairs: StepSums, costs: tuple[float, float, float], per_tau: float, terms: int, by_pairs: Bools, by_grid: Bools
) -> None:
    """Assign the targets of each row and grade to pairs or to the grid; rows without pairs get neither.

    ``costs`` are those of a pair, of an item on the grid, and of a node. The grid has ``per_tau`` nodes in τ; the
    series beyond δ, which must stay finite, has so many ``terms``, or too many if negative.
    """
    ranking, _, candidates, targets, step = pairs
    pair, item, node = costs
    for row in range(len(by_grid)):
        number = ranking.number[row]
        span = (np.float64(ranking.values[row, 0]) - ranking.values[row, max(number - 1, 0)]) / step.tau
        on_grid = item * number + node * span * per_tau
        works = terms >= 0 and span * terms <= 2 * LARGEST_POWER
        for grade in range(by_grid.shape[1]):
            wanted = targets.start[row, grade + 1] - targets.start[row, grade]
            compared = grade > 0 and wanted > 0 and candidates.start[row, grade] > 0
            by_grid[row, grade] = compared and works and on_grid < pair * wanted * number
            by_pairs[row, grade] = compared and not by_grid[row, grade]
