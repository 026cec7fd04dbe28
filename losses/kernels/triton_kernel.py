"""Pairs on a GPU, compiled by Triton: one order of each row serves every count and every sum, of all levels at once.

Pairs are evaluated one by one only in tiles that a break of the step crosses or that span more than 4 τ; the others
at a few points. ``benchmarks/gpu.py`` checks and times it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import torch
import triton
from torch import Tensor
from torch.library import custom_op
from torch.nn.functional import pad

from hiertree.metrics.engine.device import current

from . import triton_rows as _triton_rows
from .base import BlockPlan, PairKernel, StepParameters

ActingGroups: TypeAlias = Literal["below", "not below", "above", "positive", "all"]
"""Which groups of sources act on a group of destinations."""

SCORES_AT_ONCE = 1 << 24  # enough to keep a GPU busy: a dozen matrices of 64 MiB
BLOCK = 1024  # items that a program arranges
TILE, OWN, POINTS = 128, 64, 16  # sources in a tile, destinations in a tile, points that replace a tile of sources
SUMMED = 256  # slots that are added up at a time


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
    weight: Tensor  # (B, slots + 1) float64, the weight of the tiles before each slot
    moment: Tensor  # (B, slots + 1) float64, Σ weight·value of the tiles before each slot

    @classmethod
    def of(cls, items: GroupedItems, weights: Tensor) -> SourceTiles:
        """The tiles of items of these weights (B, M)."""
        return cls(items, weights, *_condense(*items, weights))


class SavedTiles(NamedTuple):
    """What the backward pass of step sums reads again."""

    candidates: GroupedItems
    targets: GroupedItems
    acting: ActingGroups
    step: StepParameters
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
        self._by_level = self._arranged(groups, num_levels + 1)
        self._sources = SourceTiles.of(self._by_level, self._ones)

    def not_below(self) -> Tensor:
        """rank⁺: a step sum too, of H."""
        return self._counts("not below").clamp_(min=1)

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺: the same, weighted."""
        return self._counts("positive", table)

    def rank(self, step: StepParameters) -> tuple[Tensor, SavedTiles]:
        """rank⁺ + rank⁻ of all levels, and what the backward pass needs."""
        sums, slopes = _sums(self._sources, self._by_level, "below", step, forward=True)
        return sums.add_(self.not_below()), SavedTiles(self._by_level, self._by_level, "above", step, slopes)

    def forward(self, candidates: Tensor, targets: Tensor, step: StepParameters) -> tuple[Tensor, SavedTiles]:
        """Step sums, and what the backward pass needs."""
        sources, wanted = (self._arranged(mask.short() - 1, 1) for mask in (candidates, targets))
        sums, slopes = _sums(SourceTiles.of(sources, self._ones), wanted, "all", step, forward=True)
        themselves = candidates & targets
        sums.sub_(themselves.to(sums.dtype), alpha=0.5 + step.start)
        return sums, SavedTiles(sources, wanted, "all", step, slopes)

    def backward(self, upstream: Tensor, saved: SavedTiles) -> Tensor:
        """Gradient with respect to the scores; a target's pair with itself adds and takes away the same."""
        sources = SourceTiles.of(saved.targets, upstream.contiguous())
        _, received = _sums(sources, saved.candidates, saved.acting, saved.step, forward=False)
        return received.addcmul_(upstream, saved.slopes, value=-1.0)

    def _counts(self, acting: ActingGroups, table: Tensor | None = None) -> Tensor:
        """Sums of H, a limit of H⁻: no temperature, and a line from 0 on that has no slope; ties are within 1e-32."""
        step = StepParameters(1e-34, 0.0, -torch.finfo(self._values.dtype).tiny, 0.0, 1.0)
        return _sums(self._sources, self._by_level, acting, step, forward=True, factors=table)[0]

    def _arranged(self, groups: Tensor, num_groups: int) -> GroupedItems:
        """Items by group; those of group −1 are left out."""
        return GroupedItems(*_arrange(self._values, self._items, groups.contiguous(), num_groups))


def _sums(
    sources: SourceTiles,
    own: GroupedItems,
    acting: ActingGroups,
    step: StepParameters,
    *,
    forward: bool,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(B, M) weighted sums of the step and of its slope, at the items of the destinations; 0 elsewhere."""
    factors = None if factors is None else factors.to(own.values.dtype).contiguous()
    summed: tuple[Tensor, Tensor]
    summed = _sum_steps([*sources.items, *sources[1:]], list(own), factors, acting, list(step), forward)
    return summed


# Operators of torch, so that it knows the shapes of what comes out where no kernel can run.


@custom_op("hiertree::arrange", mutates_args=())
def _arrange(values: Tensor, items: Tensor, groups: Tensor, num_groups: int) -> tuple[Tensor, Tensor, Tensor]:
    (rows, width), num_blocks = groups.shape, triton.cdiv(groups.shape[1], BLOCK)
    arranged = torch.empty_like(values), torch.empty_like(items)
    counts = groups.new_empty((rows, num_groups * num_blocks), dtype=torch.int32)
    with current(groups.device):
        grid, sizes = (rows, num_blocks), (width, num_groups)
        _triton_rows.count_groups[grid](items, groups, counts, *sizes, BLOCK=BLOCK)
        ahead = pad(counts.cumsum(dim=1, dtype=torch.int32), (1, 0))
        _triton_rows.arrange[grid](values, items, groups, ahead, *arranged, *sizes, BLOCK=BLOCK)
    return *arranged, ahead[:, ::num_blocks].contiguous()


@_arrange.register_fake
def _(values: Tensor, items: Tensor, groups: Tensor, num_groups: int) -> tuple[Tensor, Tensor, Tensor]:
    first = groups.new_empty((len(groups), num_groups + 1), dtype=torch.int32)
    return torch.empty_like(values), torch.empty_like(items), first


@custom_op("hiertree::condense", mutates_args=())
def _condense(values: Tensor, items: Tensor, first: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    condensed: tuple[Tensor, Tensor, Tensor] = _empty_tiles(values, items, first, weights)
    num_groups = first.shape[1] - 1
    rows, num_slots, _ = condensed[0].shape
    with current(values.device):
        _triton_rows.condense[(rows, num_slots)](
            values, items, first, weights, _cosines(values.dtype, values.device), *condensed, values.shape[1],
            num_groups, GROUPS=triton.next_power_of_2(num_groups), TILE=TILE, POINTS=POINTS, num_warps=1,
            enable_fp_fusion=True,
        )  # fmt: skip
        for sums in condensed[1:]:
            _triton_rows.accumulate[(rows,)](sums, num_slots + 1, BLOCK=SUMMED)
    return condensed


@_condense.register_fake
def _empty_tiles(values: Tensor, items: Tensor, first: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    del items, weights
    rows, num_slots = len(values), _num_slots(values, first, TILE)
    weight, moment = (values.new_zeros((rows, num_slots + 1), dtype=torch.float64) for _ in range(2))
    return values.new_empty((rows, num_slots, POINTS)), weight, moment


@custom_op("hiertree::sum_steps", mutates_args=())
def _sum_steps(
    sources: list[Tensor], own: list[Tensor], factors: Tensor | None, acting: str, step: list[float], forward: bool
) -> tuple[Tensor, Tensor]:
    values, first = own[0], own[2]
    (rows, width), num_groups = values.shape, first.shape[1] - 1
    sums, slopes = _empty_sums(sources, own, factors, acting, step, forward)
    factors = values.new_ones((rows, num_groups)) if factors is None else factors
    sizes = width, _num_slots(values, sources[2], TILE), num_groups
    with current(values.device):
        _triton_rows.sum_steps[(rows, _num_slots(values, first, OWN))](
            *sources, *own, _bounds(acting, num_groups, values.device), factors,
            _parameters(StepParameters(*step), values.dtype, values.device), _cosines(values.dtype, values.device),
            sums, slopes, *sizes, FORWARD=forward, GROUPS=triton.next_power_of_2(num_groups), OWN=OWN, TILE=TILE,
            POINTS=POINTS, enable_fp_fusion=True,
        )  # fmt: skip
    return sums, slopes


@_sum_steps.register_fake
def _empty_sums(
    sources: list[Tensor], own: list[Tensor], factors: Tensor | None, acting: str, step: list[float], forward: bool
) -> tuple[Tensor, Tensor]:
    """Backward there are no sums, and no room for them."""
    del sources, factors, acting, step
    slopes = torch.zeros_like(own[0])
    return torch.zeros_like(slopes) if forward else slopes.new_empty(0), slopes


def _num_slots(values: Tensor, first: Tensor, tile: int) -> int:
    """Of a row's tiles in groups: no more than these are ever needed."""
    return -(-values.shape[1] // tile) + first.shape[1] - 1


@cache
def _bounds(acting: str, num_groups: int, device: torch.device) -> Tensor:
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


@cache
def _parameters(step: StepParameters, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A step as the kernels read it: its pieces, with δ finite, where it is 0, how wide a tile may be, log2(e)/τ."""
    accuracy = ACCURACY[dtype]
    finite = step._replace(margin=min(step.margin, torch.finfo(dtype).max))
    scales = (accuracy.reach * step.tau, accuracy.narrow * step.tau, math.log2(math.e) / step.tau)
    return torch.tensor([*finite, *scales], dtype=dtype, device=device)


@cache
def _cosines(dtype: torch.dtype, device: torch.device) -> Tensor:
    """(p, p) Chebyshev polynomials of every degree at the nodes, cos(degree·θ_m); the nodes are those of degree 1."""
    angles = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (math.pi / POINTS)
    return torch.cos(torch.arange(POINTS, dtype=torch.float64)[:, None] * angles).to(dtype).to(device)
