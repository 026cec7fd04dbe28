"""Pairs on a GPU, compiled by Triton: one order of each row serves every count and every sum.

What it costs. Were every pair of a target and a candidate met, forward and backward, each would be a step evaluation of
some fourteen operations, two of them (an exponential and a division) for the special-function units, which give 16 a
cycle and multiprocessor: 4 cycles for 32 pairs. That is the floor of a kernel of pairs. On an H200 (132
multiprocessors, 1.7 GHz), two levels and half of the batch positive: 19 ms at B = 4,096, 1.2 s at 16,384.

Here pairs are met one by one only in tiles that a break of the step crosses or that span more than 4 τ; of random
512-d embeddings at B = 512 all, at 4,096 a third of the floor's evaluations, at 16,384 a sixth (counted on a CPU, with
the compiled loop's 23 instructions, 5.7 cycles for 32 pairs: 9 and 280 ms). The bytes bind nothing: some thirty passes
over the scores a level, half a millisecond at 4,096. A gridded transform, as on a CPU, would need O(M) evaluations a
query; at 16,384 and beyond it would win, and below it launches and sorting already weigh as much. None of this was
measured; ``benchmarks/losses_gpu.py`` does that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
from torch import Tensor

from hiertree.losses import _triton_rows
from hiertree.losses._kernels import Blocks
from hiertree.losses._steps import Pieces

if TYPE_CHECKING:
    from hiertree.losses._pairs import Pairs
    from hiertree.losses._steps import Step

SCORES_AT_ONCE = 1 << 24  # what keeps a GPU busy; a dozen matrices of 64 MiB
BLOCK, TILE, OWN, POINTS = 1024, 128, 64, 16  # of choosing; of sources; of destinations; what stands for a tile


class Accuracy(NamedTuple):
    """What a floating-point type asks for, in τ: where σ counts as 0, and the widest tile that points stand for."""

    reach: float
    narrow: float


ACCURACY = {torch.float32: Accuracy(25.0, 4.0), torch.float64: Accuracy(40.0, 1.5)}


class Chosen(NamedTuple):
    """Some items of every row, by falling score, at its front."""

    values: Tensor
    """(B, M) scores."""
    items: Tensor
    """(B, M) int32, where they come from."""
    number: Tensor
    """(B,) int32."""


class Saved(NamedTuple):
    """What the backward pass of a step sum reads again."""

    candidates: Chosen
    targets: Chosen
    step: Tensor
    slopes: Tensor


class TritonKernel:
    """See :class:`hiertree.losses._kernels.PairKernel`; the same bit for bit each time."""

    @staticmethod
    def plan(scores: Tensor) -> Blocks:
        """Large blocks in turn."""
        return Blocks(max(1, SCORES_AT_ONCE // scores.shape[1]), threads=1)

    def __init__(self, pairs: Pairs) -> None:
        self._levels, self._valid, self._num_levels = pairs.levels, pairs.valid, pairs.num_levels
        scores = pairs.scores.detach().masked_fill(~pairs.valid, -torch.inf)
        self._values, order = scores.sort(dim=1, descending=True, stable=True)
        self._items = order.int()

    def not_below(self) -> Tensor:
        """rank⁺: a step sum too, of H."""
        counts = torch.zeros_like(self._values)
        for level, targets in self._levels_present():
            counts += self._heaviside_sums(self._valid & (self._levels >= level), targets)
        return counts.clamp_(min=1)

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺: a weighted one."""
        positives, relevance = self._valid & (self._levels > 0), table.gather(1, self._levels.long())
        sums = torch.zeros_like(self._values)
        for level, targets in self._levels_present():
            sums += self._heaviside_sums(positives, targets, torch.minimum(relevance, table[:, level, None]))
        return sums

    def forward(self, candidates: Tensor, targets: Tensor, step: Step) -> tuple[Tensor, Saved]:
        """Step sums, and what the backward pass needs."""
        chosen, wanted = self._choose(candidates), self._choose(targets)
        parameters = _parameters(step.pieces, self._values.dtype, self._values.device)
        sums, slopes = _sums(chosen, candidates.view(torch.uint8), wanted, parameters, forward=True)
        themselves = candidates & targets
        sums.sub_(themselves.to(sums.dtype), alpha=0.5 + step.pieces.start)
        return sums, Saved(chosen, wanted, parameters, slopes)

    def backward(self, upstream: Tensor, saved: Saved) -> Tensor:
        """Gradient with respect to the scores; a target's pair with itself adds and takes away the same."""
        upstream = upstream.contiguous()
        _, received = _sums(saved.targets, upstream, saved.candidates, saved.step, forward=False)
        return received.addcmul_(upstream, saved.slopes, value=-1.0)

    def _levels_present(self) -> Iterator[tuple[int, Tensor]]:
        for level in range(1, self._num_levels + 1):
            targets = self._valid & (self._levels == level)
            if targets.any():
                yield level, targets

    def _heaviside_sums(self, sources: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """Σ weight·[s_j ≥ s_k] over sources j, k itself included."""
        weights = sources.view(torch.uint8) if weights is None else weights
        parameters = _heaviside(self._values.dtype, self._values.device)
        return _sums(self._choose(sources), weights, self._choose(targets), parameters, forward=True)[0]

    def _choose(self, mask: Tensor) -> Chosen:
        rows, width = mask.shape
        number = torch.empty(rows, dtype=torch.int32, device=mask.device)
        chosen = Chosen(torch.empty_like(self._values), torch.empty_like(self._items), number)
        mask = mask.contiguous().view(torch.uint8)
        with _current(mask.device):
            _triton_rows.choose[(rows,)](
                self._values, self._items, mask, *chosen, width, BLOCK=BLOCK, enable_fp_fusion=True
            )
        return chosen


def _sums(sources: Chosen, weights: Tensor, own: Chosen, step: Tensor, *, forward: bool) -> tuple[Tensor, Tensor]:
    """(B, M) weighted sums of the step and of its slope, at the items of the destinations; 0 elsewhere."""
    rows, width = sources.values.shape
    num_tiles = triton.cdiv(width, TILE)
    points = step.new_empty((rows, num_tiles, POINTS))
    weight, lean = step.new_empty((rows, num_tiles)), step.new_empty((rows, num_tiles))
    sums, slopes = torch.zeros_like(own.values) if forward else step, torch.zeros_like(own.values)
    cosines = _cosines(step.dtype, step.device)
    tile = (points, weight, lean)
    with _current(step.device):
        _triton_rows.condense[(rows, num_tiles)](
            *sources, weights, cosines, *tile, width, TILE=TILE, POINTS=POINTS, enable_fp_fusion=True
        )
        _triton_rows.sum_steps[(rows, triton.cdiv(width, OWN))](
            *sources, weights, *tile, *own, step, cosines, sums, slopes, width, num_tiles,
            FORWARD=forward, OWN=OWN, TILE=TILE, POINTS=POINTS, enable_fp_fusion=True,
        )  # fmt: skip
    return sums, slopes


def _current(device: torch.device) -> AbstractContextManager[object]:
    """Triton starts kernels on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@lru_cache(maxsize=64)
def _parameters(step: Pieces, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A step as the kernels read it: its pieces, with δ finite, where it is 0, how wide a tile may be, log2(e)/τ."""
    accuracy = ACCURACY[dtype]
    finite = step._replace(margin=min(step.margin, torch.finfo(dtype).max))
    scales = (accuracy.reach * step.tau, accuracy.narrow * step.tau, math.log2(math.e) / step.tau)
    return torch.tensor([*finite, *scales], dtype=dtype, device=device)


def _heaviside(dtype: torch.dtype, device: torch.device) -> Tensor:
    """H as a limit of H⁻: no temperature, and a line from 0 on that has no slope."""
    return _parameters(Pieces(1e-30, 0.0, -torch.finfo(dtype).tiny, 0.0, 1.0), dtype, device)


@lru_cache(maxsize=64)
def _cosines(dtype: torch.dtype, device: torch.device) -> Tensor:
    """(p, p) Chebyshev polynomials of every degree at the nodes, cos(degree·θ_m); the nodes are those of degree 1."""
    angles = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (math.pi / POINTS)
    return torch.cos(torch.arange(POINTS, dtype=torch.float64)[:, None] * angles).to(dtype).to(device)
