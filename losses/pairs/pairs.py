"""Pairs of queries and candidates: vectors that are yet to be compared, scores, and the kernel that evaluates them.

Conventions: similarity is the cosine, computed in float32 or better even under autocast. Without reference embeddings
the candidates are the batch itself and a query is not its own candidate, unless ``include_self``. With reference
embeddings (a memory) all of them are candidates, unless they *are* the batch's embeddings (the same tensor).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hiertree import levels as shared_levels
from hiertree.arrays import MAX_LEVELS
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.level_columns import path_nodes
from hiertree.options import check_integer, require

from ..kernels.sigmoid_grid import num_cells
from ..kernels.sorted_pairs import SortedPairs
from ..kernels.steps import AllPairs, PairKernel, StepParameters
from .inputs import (
    CheckedPaths,
    GivenLevels,
    RowGrades,
    check_references,
    check_same_depth,
    check_same_paths,
    checked_mask,
    checked_paths,
    full_mask,
    real_tensor,
    unit_vectors,
)
from .one_batch import OneBatch, keep_full_precision, plain, whole_batch

PAIR, ITEM, LEVEL, CELL = 12.0, 110.0, 30.0, 200.0
"""Nanoseconds on a CPU, forward and backward: a pair; an item of a sorted row beyond that, for each level; a cell."""
COSINES = 2.0 + 1e-5  # how much they differ at most


class ScoredPairs(NamedTuple):
    """B queries compared with M candidates."""

    scores: Tensor  # (B, M) float32 or float64 similarities, with the graph that leads to them
    levels: Tensor  # (B, M) uint8, depth of the lowest common ancestor
    valid: Tensor  # (B, M) booleans; False where the item is no candidate of the query
    num_levels: int  # L
    span: float = math.inf  # how much the scores of a query differ at most, as far as is known
    most_positives: tuple[int, ...] = ()  # of a query, at each level or finer, where that is known without a look

    def select_queries(self, rows: slice) -> ScoredPairs:
        """The pairs of some queries."""
        return self._replace(scores=self.scores[rows], levels=self.levels[rows], valid=self.valid[rows])

    def counts(self) -> Tensor:
        """(B, L+1) valid candidates at each level."""
        return plain(_counts, self.levels, self.valid, self.num_levels)

    def positives(self) -> Tensor:
        """(B, M) booleans: the valid candidates of level 1 or finer."""
        return self.valid & (self.levels > 0)

    def table(self, relevance: Callable[[Any], Any]) -> Tensor:
        """(B, L+1) relevance of the levels, from their counts; on a CPU by numpy, whose small operations are faster."""
        counts = self.counts()
        table = relevance(counts.numpy() if counts.device.type == "cpu" else counts)
        return torch.as_tensor(table, device=counts.device)

    def binary(self, level: int | None) -> ScoredPairs:
        """The same pairs with two levels: positives agree down to ``level`` (None: the finest), the others do not."""
        level = self.num_levels if level is None else level
        expected = f"a level of these labels, 1 (coarsest) to {self.num_levels}"
        check_integer("level", level)
        require(level <= self.num_levels, "level", level, expected)
        most_positives = self.most_positives[level - 1 : level]
        return self._replace(levels=(self.levels >= level).to(torch.uint8), num_levels=1, most_positives=most_positives)

    def kernel(self, step: StepParameters) -> PairKernel:
        """What evaluates these pairs: a grid, unless positives are few, or the scores need too many cells."""
        scores, span, num_items = scores_in_range(self.scores.detach(), self.valid), self.span, self.scores.shape[1]
        num_targets = min((num_items, *self.most_positives[:1]))
        if not waits_for_a_look(scores.device):
            span, num_targets = span_and_targets(scores, self.positives())
        by_pairs = PAIR * num_targets
        sorted_first = ITEM + LEVEL * self.num_levels
        if span < math.inf:
            sorted_first += CELL * self.num_levels * num_cells(step.tau, span, scores.dtype) / num_items
        if sorted_first < by_pairs and span < math.inf:
            return SortedPairs(scores, self.levels, self.valid, self.num_levels, span, num_targets)
        return AllPairs(scores, self.levels, self.valid, self.num_levels, span, num_targets)


class VectorPairs(NamedTuple):
    """B queries and M candidates, not yet compared: a matrix of all their scores may never be needed."""

    queries: Tensor  # (B, d) vectors, with the graph that leads to them
    candidates: Tensor  # (M, d) vectors, with the graph that leads to them
    query_paths: Tensor | GivenLevels  # (B, L), or the levels of the pairs
    candidate_paths: Tensor | None  # (M, L), with (B, L) paths of the queries
    valid: Tensor | None  # booleans that broadcast to (B, M); None: every item is a candidate of every query
    excludes_self: bool  # whether candidate q is query q, which is no candidate of its own
    grades: RowGrades | None = None  # what compares the paths, unless common ancestors do
    most_positives: tuple[int, ...] = ()  # see ScoredPairs; by common ancestors

    def compared(self, rows: slice = slice(None)) -> ScoredPairs:
        """Compare some queries with all candidates."""
        scores = cosine(self.queries[rows], self.candidates)
        valid = self.valid if self.valid is None or len(self.valid) == 1 else self.valid[rows]
        mask = full_mask(valid, (scores.shape[0], scores.shape[1]), scores.device)
        if self.excludes_self:
            mask.diagonal(offset=rows.start or 0).fill_(False)
        if isinstance(self.query_paths, GivenLevels):
            return ScoredPairs(scores, self.query_paths.levels[rows].to(torch.uint8), mask, 1, COSINES)
        paths = self.query_paths[rows]
        compare = shared_levels if self.grades is None else self.grades.levels
        num_levels = paths.shape[1] if self.grades is None else self.grades.highest
        most_positives = self.most_positives if self.grades is None else ()
        pair_levels = plain(compare, paths, self.candidate_paths)
        return ScoredPairs(scores, pair_levels, mask, num_levels, COSINES, most_positives)


def pairs_of(
    embeddings: Any,
    paths: Any,
    ref_embeddings: Any = None,
    ref_paths: Any = None,
    *,
    valid: Any = None,
    include_self: bool = False,
    to_vectors: Callable[..., Tensor] = unit_vectors,
) -> VectorPairs:
    """What is to be compared, checked; arguments as those of a loss.

    ``to_vectors(embeddings, name=…)`` makes the vectors whose inner products are the scores.
    """
    check_references(ref_embeddings, ref_paths)
    within_batch = ref_embeddings is None or ref_embeddings is embeddings
    queries = to_vectors(embeddings, name="embeddings")
    candidates = queries if within_batch else to_vectors(ref_embeddings, name="ref_embeddings")
    if isinstance(paths, GivenLevels):
        return VectorPairs(queries, candidates, paths, None, valid, excludes_self=False)
    query_paths = checked_paths(paths, queries)
    candidate_paths = query_paths if ref_paths is None else checked_paths(ref_paths, candidates, name="ref_paths")
    check_same_depth(query_paths.tensor, candidate_paths.tensor)
    if within_batch:
        check_same_paths(query_paths, candidate_paths)
    mask = None if valid is None else checked_mask(valid, (len(queries), len(candidates)), queries.device)
    most = most_positives(query_paths, candidate_paths) if waits_for_a_look(queries.device) else ()
    return VectorPairs(
        queries,
        candidates,
        query_paths.tensor,
        candidate_paths.tensor,
        mask,
        excludes_self=within_batch and not include_self,
        most_positives=most,
    )


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


def cosine(queries: Tensor, candidates: Tensor) -> Tensor:
    """(B, M) similarities of unit vectors; autocast and TF32 would give three digits of them, fewer than τ needs."""
    if queries.shape[1] != candidates.shape[1]:
        raise ShapeError(f"vectors of {queries.shape[1]} and {candidates.shape[1]} dimensions", expected="the same")
    dtype = torch.promote_types(queries.dtype, candidates.dtype)
    scores: Tensor = _Cosines.apply(queries.to(dtype), candidates.to(dtype))
    return scores


class _Cosines(OneBatch):
    """In full precision, and so is its gradient."""

    @staticmethod
    def forward(queries: Tensor, candidates: Tensor) -> Tensor:
        with keep_full_precision(queries.device):
            return queries @ candidates.T

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates = ctx.saved_tensors
        with keep_full_precision(upstream.device):
            return (
                upstream @ candidates if ctx.needs_input_grad[0] else None,
                upstream.T @ queries if ctx.needs_input_grad[1] else None,
            )


def scores_in_range(scores: Tensor, valid: Tensor) -> Tensor:
    """The scores; what is not valid gets the lowest valid one of its query, so that no kernel needs a case for it."""
    lowest = torch.where(valid, scores, torch.inf).amin(dim=1, keepdim=True).nan_to_num_(posinf=0.0)
    return torch.where(valid, scores, lowest)


def waits_for_a_look(device: torch.device) -> bool:
    """Whether reading a value of a tensor waits for all that the device has yet to do."""
    return device.type != "cpu"


def most_positives(query_paths: CheckedPaths, candidate_paths: CheckedPaths) -> tuple[int, ...]:
    """How many candidates a query shares its path with at most, down to each level; nothing where that is unknown."""
    if query_paths.read is None or candidate_paths.read is None:
        return ()
    nodes, num_queries = path_nodes(np.concatenate([query_paths.read, candidate_paths.read])), len(query_paths.read)
    num_items = np.bincount(nodes[num_queries:, 1:].ravel(), minlength=nodes.max() + 1)
    return tuple(num_items[nodes[:num_queries, 1:]].max(axis=0).tolist())


def span_and_targets(scores: Tensor, positive: Tensor) -> tuple[float, int]:
    """How much the scores of a query differ at most, and how many positives it has at most."""
    if not scores.numel():
        return 0.0, 0
    return float((scores.amax(dim=1) - scores.amin(dim=1)).max()), int(positive.sum(dim=1).max())


def _counts(levels: Tensor, valid: Tensor, num_levels: int) -> Tensor:
    counts = torch.zeros(len(levels), num_levels + 1, dtype=torch.int64, device=levels.device)
    return counts.scatter_add_(1, levels.long(), valid.long())
