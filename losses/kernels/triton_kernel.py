"""Pairs on a GPU, compiled by Triton: one order of each row serves every count and every sum, of all levels at once.

Pairs are evaluated one by one only in tiles that a break of the step crosses or that span more than 4 τ; the others
at a few points. ``benchmarks/losses_gpu.py`` checks and times it.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import torch
import triton
from torch import Tensor

from . import triton_rows as _triton_rows
from .base import BlockPlan, PairKernel, StepParameters

ActingGroups: TypeAlias = Literal["below", "not below", "above", "positive", "all"]
"""Which groups of sources act on a group of destinations."""

SCORES_AT_ONCE = 1 << 24  # enough to keep a GPU busy: a dozen matrices of 64 MiB
BLOCK = 1024  # items that are arranged at a time
TILE, OWN, POINTS = 128, 64, 16  # sources in a tile, destinations in a tile, points that replace a tile of sources


class TileAccuracy(NamedTuple):
    """What a floating-point type asks for, in τ: where σ counts as 0, and the widest tile that points replace."""

    reach: float
    narrow: float


ACCURACY = {torch.float32: TileAccuracy(25.0, 4.0), torch.float64: TileAccuracy(40.0, 1.5)}


class GroupedItems(NamedTuple):
    """Items of every row in groups, and in a group by falling score."""

    values: Tensor  # (B, M) scores
    items: Tensor  # (B, M) int32, where they come from
    first: Tensor  # (B, groups + 1) int32, where each group begins, and the last ends


class SourceTiles(NamedTuple):
    """Items that act on others, and what replaces their tiles."""

    items: GroupedItems
    weights: Tensor  # (B, M) by item, of any type
    points: Tensor  # (B, slots, POINTS) weights
    weight: Tensor  # (B, slots) the weight of each tile
    lean: Tensor  # (B, slots) Σ weight·(value − center) of each tile


class SavedTiles(NamedTuple):
    """What the backward pass of step sums reads again."""

    candidates: GroupedItems
    targets: GroupedItems
    acting: ActingGroups
    step: Tensor
    slopes: Tensor


class TritonKernel(PairKernel):
    """See :class:`hiertree.losses.kernels.base.PairKernel`; the same bit for bit each time."""

    @staticmethod
    def plan(num_candidates: int, device: torch.device) -> BlockPlan:  # noqa: ARG004
        """Large blocks in turn."""
        return BlockPlan(max(1, SCORES_AT_ONCE // num_candidates), threads=1)

    def __init__(self, scores: Tensor, levels: Tensor, valid: Tensor, num_levels: int) -> None:
        masked = scores.detach().masked_fill(~valid, -torch.inf).contiguous()
        self._values, order = masked.sort(dim=1, descending=True, stable=True)
        self._items = order.int()
        groups = levels.short().masked_fill_(~valid, -1)
        self._ones = torch.ones_like(self._values, dtype=torch.uint8)
        self._by_level = self._arrange(groups, num_levels + 1)
        self._sources = _condensed(self._by_level, self._ones)

    def not_below(self) -> Tensor:
        """rank⁺: a step sum too, of H."""
        step = _heaviside(self._values.dtype, self._values.device)
        return _sums(self._sources, self._by_level, "not below", step, forward=True)[0].clamp_(min=1)

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺: the same, weighted."""
        step = _heaviside(self._values.dtype, self._values.device)
        return _sums(self._sources, self._by_level, "positive", step, forward=True, factors=table)[0]

    def rank(self, step: StepParameters) -> tuple[Tensor, SavedTiles]:
        """rank⁺ + rank⁻ of all levels, and what the backward pass needs."""
        parameters = _parameters(step, self._values.dtype, self._values.device)
        sums, slopes = _sums(self._sources, self._by_level, "below", parameters, forward=True)
        return sums.add_(self.not_below()), SavedTiles(self._by_level, self._by_level, "above", parameters, slopes)

    def forward(self, candidates: Tensor, targets: Tensor, step: StepParameters) -> tuple[Tensor, SavedTiles]:
        """Step sums, and what the backward pass needs."""
        parameters = _parameters(step, self._values.dtype, self._values.device)
        sources, wanted = (self._arrange(mask.short() - 1, 1) for mask in (candidates, targets))
        sums, slopes = _sums(_condensed(sources, self._ones), wanted, "all", parameters, forward=True)
        themselves = candidates & targets
        sums.sub_(themselves.to(sums.dtype), alpha=0.5 + step.start)
        return sums, SavedTiles(sources, wanted, "all", parameters, slopes)

    def backward(self, upstream: Tensor, saved: SavedTiles) -> Tensor:
        """Gradient with respect to the scores; a target's pair with itself adds and takes away the same."""
        sources = _condensed(saved.targets, upstream.contiguous())
        _, received = _sums(sources, saved.candidates, saved.acting, saved.step, forward=False)
        return received.addcmul_(upstream, saved.slopes, value=-1.0)

    def _arrange(self, groups: Tensor, num_groups: int) -> GroupedItems:
        """Items by group; those of group −1 are left out."""
        groups, (rows, width) = groups.contiguous(), groups.shape
        first = torch.empty((rows, num_groups + 1), dtype=torch.int32, device=groups.device)
        arranged = GroupedItems(torch.empty_like(self._values), torch.empty_like(self._items), first)
        with _current(groups.device):
            _triton_rows.arrange[(rows, num_groups)](
                self._values, self._items, groups, *arranged, width, BLOCK=BLOCK, enable_fp_fusion=True
            )
        return arranged


def _condensed(items: GroupedItems, weights: Tensor) -> SourceTiles:
    rows, width = items.values.shape
    num_groups = items.first.shape[1] - 1
    num_slots = triton.cdiv(width, TILE) + num_groups
    weight, lean = (items.values.new_empty((rows, num_slots)) for _ in range(2))
    sources = SourceTiles(items, weights, items.values.new_empty((rows, num_slots, POINTS)), weight, lean)
    cosines = _cosines(weight.dtype, weight.device)
    with _current(weight.device):
        _triton_rows.condense[(rows, num_groups)](
            *items, weights, cosines, *sources[2:], width, num_slots,
            TILE=TILE, POINTS=POINTS, num_warps=1, enable_fp_fusion=True,
        )  # fmt: skip
    return sources


def _sums(
    sources: SourceTiles,
    own: GroupedItems,
    acting: ActingGroups,
    step: Tensor,
    *,
    forward: bool,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(B, M) weighted sums of the step and of its slope, at the items of the destinations; 0 elsewhere."""
    (rows, width), num_groups = own.values.shape, own.first.shape[1] - 1
    sums, slopes = torch.zeros_like(own.values) if forward else step, torch.zeros_like(own.values)
    factors = step.new_ones((rows, num_groups)) if factors is None else factors.to(step.dtype).contiguous()
    bounds, cosines = _bounds(acting, num_groups, step.device), _cosines(step.dtype, step.device)
    with _current(step.device):
        _triton_rows.sum_steps[(rows, triton.cdiv(width, OWN), num_groups)](
            *sources.items, *sources[1:], *own, bounds, factors, step, cosines, sums, slopes,
            width, sources.weight.shape[1],
            FORWARD=forward, OWN=OWN, TILE=TILE, POINTS=POINTS, enable_fp_fusion=True,
        )  # fmt: skip
    return sums, slopes


def _current(device: torch.device) -> AbstractContextManager[object]:
    """Triton starts kernels on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@lru_cache(maxsize=64)
def _bounds(acting: ActingGroups, num_groups: int, device: torch.device) -> Tensor:
    """(2, groups) int32: the groups that act on each, from and up to; none on level 0, which is no target."""
    groups = torch.arange(num_groups, dtype=torch.int32)
    everywhere = torch.full_like(groups, num_groups)
    begin, end = {
        "below": (groups * 0, groups),
        "not below": (groups, everywhere),
        "above": (groups + 1, everywhere),
        "positive": (groups * 0 + 1, everywhere),
        "all": (groups * 0, everywhere),
    }[acting]
    if acting in ("not below", "positive"):
        end = end * (groups > 0)
    return torch.stack([begin, end]).int().to(device)


@lru_cache(maxsize=64)
def _parameters(step: StepParameters, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A step as the kernels read it: its pieces, with δ finite, where it is 0, how wide a tile may be, log2(e)/τ."""
    accuracy = ACCURACY[dtype]
    finite = step._replace(margin=min(step.margin, torch.finfo(dtype).max))
    scales = (accuracy.reach * step.tau, accuracy.narrow * step.tau, math.log2(math.e) / step.tau)
    return torch.tensor([*finite, *scales], dtype=dtype, device=device)


def _heaviside(dtype: torch.dtype, device: torch.device) -> Tensor:
    """H as a limit of H⁻: no temperature, and a line from 0 on that has no slope; scores tie within 1e-32."""
    return _parameters(StepParameters(1e-34, 0.0, -torch.finfo(dtype).tiny, 0.0, 1.0), dtype, device)


@lru_cache(maxsize=8)
def _cosines(dtype: torch.dtype, device: torch.device) -> Tensor:
    """(p, p) Chebyshev polynomials of every degree at the nodes, cos(degree·θ_m); the nodes are those of degree 1."""
    angles = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (math.pi / POINTS)
    return torch.cos(torch.arange(POINTS, dtype=torch.float64)[:, None] * angles).to(dtype).to(device)
