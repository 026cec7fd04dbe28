"""Pairs on a GPU, compiled by Triton: one order of each row serves every count and every sum, of all levels at once.

Pairs are evaluated one by one only in tiles that δ crosses or that span more than 5 τ; the others at a few points.
``benchmarks/gpu.py`` checks and times it.
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

from . import triton_groups as _triton_groups
from . import triton_rows as _triton_rows
from .base import BlockPlan, PairKernel, StepParameters

ActingGroups: TypeAlias = Literal["below", "not below", "above", "positive", "all"]
"""Which groups of sources act on a group of destinations."""

SCORES_AT_ONCE = 1 << 24  # enough to keep a GPU busy: a dozen matrices of 64 MiB
BLOCK = 1024  # items that a program arranges
TILE, OWN, POINTS = 64, 32, 16  # sources in a tile, destinations in a tile, points that replace a run of tiles
SUMMED, COUNTED = 256, 128  # slots that are added up at a time, items for which a program counts
ONE_WARP = {
    torch.float32: frozenset({(8, False), (9, True), (9, False), (10, False)}),
    torch.float64: frozenset({(9, False)}),
}
"""Major capability and whether forward: where programs of one warp spill no register, and enough fit in."""


class TileAccuracy(NamedTuple):
    """What a floating-point type asks for, in τ: where σ counts as 0, and the widest run that points replace."""

    reach: float
    narrow: float


ACCURACY = {torch.float32: TileAccuracy(25.0, 5.0), torch.float64: TileAccuracy(40.0, 1.5)}


class GroupedItems(NamedTuple):
    """Items of every row in groups, and in a group by falling score."""

    values: Tensor  # (B, M) scores
    items: Tensor  # (B, M) int32, where they come from
    first: Tensor  # (B, groups + 1) int32, where each group begins, and the last ends


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

    def not_below(self) -> Tensor:
        """rank⁺: a step sum too, of H."""
        return self._counts("not below").clamp_(min=1)

    def shared_relevance(self, table: Tensor) -> Tensor:
        """H-rank⁺: the same, weighted."""
        return self._counts("positive", table)

    def rank(self, step: StepParameters) -> tuple[Tensor, SavedTiles]:
        """rank⁺ + rank⁻ of all levels, and what the backward pass needs."""
        items = self._by_level
        sums, slopes = _sum_steps([*items, self._ones], list(items), "below", list(step), forward=True)
        return sums.add_(self.not_below()), SavedTiles(items, items, "above", step, slopes)

    def forward(self, candidates: Tensor, targets: Tensor, step: StepParameters) -> tuple[Tensor, SavedTiles]:
        """Step sums, and what the backward pass needs."""
        sources, wanted = (self._arranged(mask.short() - 1, 1) for mask in (candidates, targets))
        sums, slopes = _sum_steps([*sources, self._ones], list(wanted), "all", list(step), forward=True)
        themselves = candidates & targets
        sums.sub_(themselves.to(sums.dtype), alpha=0.5 + step.start)
        return sums, SavedTiles(sources, wanted, "all", step, slopes)

    def backward(self, upstream: Tensor, saved: SavedTiles) -> Tensor:
        """Gradient with respect to the scores; a target's pair with itself adds and takes away the same."""
        sources, wanted = [*saved.targets, upstream.contiguous()], list(saved.candidates)
        _, received = _sum_steps(sources, wanted, saved.acting, list(saved.step), forward=False)
        gradient: Tensor = received.addcmul_(upstream, saved.slopes, value=-1.0)
        return gradient

    def _counts(self, acting: ActingGroups, table: Tensor | None = None) -> Tensor:
        """Candidates of the acting groups that are not behind, weighted by a table (B, groups)."""
        factors = self._values.new_ones((len(self._values), self._by_level.first.shape[1] - 1))
        factors = factors if table is None else table.to(factors.dtype).contiguous()
        counts: Tensor = _count_ahead(list(self._by_level), acting, factors)
        return counts

    def _arranged(self, groups: Tensor, num_groups: int) -> GroupedItems:
        """Items by group; those of group −1 are left out."""
        return GroupedItems(*_arrange(self._values, self._items, groups.contiguous(), num_groups))


# Operators of torch, so that it knows the shapes of what comes out where no kernel can run. The constants that their
# kernels read are cached for good: a CUDA graph reads them where they are.


@custom_op("hiertree::arrange", mutates_args=())
def _arrange(values: Tensor, items: Tensor, groups: Tensor, num_groups: int) -> tuple[Tensor, Tensor, Tensor]:
    (rows, width), num_blocks = groups.shape, triton.cdiv(groups.shape[1], BLOCK)
    arranged = torch.empty_like(values), torch.empty_like(items)
    counts = groups.new_empty((rows, num_groups * num_blocks), dtype=torch.int32)
    with current(groups.device):
        grid, sizes = (rows, num_blocks), (width, num_groups)
        _triton_groups.count_groups[grid](items, groups, counts, *sizes, BLOCK=BLOCK)
        ahead = pad(counts.cumsum(dim=1, dtype=torch.int32), (1, 0))
        _triton_groups.arrange[grid](values, items, groups, ahead, *arranged, *sizes, BLOCK=BLOCK)
    return *arranged, ahead[:, ::num_blocks].contiguous()


@_arrange.register_fake
def _(values: Tensor, items: Tensor, groups: Tensor, num_groups: int) -> tuple[Tensor, Tensor, Tensor]:
    first = groups.new_empty((len(groups), num_groups + 1), dtype=torch.int32)
    return torch.empty_like(values), torch.empty_like(items), first


@custom_op("hiertree::count_ahead", mutates_args=())
def _count_ahead(own: list[Tensor], acting: str, factors: Tensor) -> Tensor:
    values, first = own[0], own[2]
    counts, num_groups = torch.zeros_like(values), first.shape[1] - 1
    with current(values.device):
        _triton_rows.count_ahead[(len(values), _num_slots(values, first, COUNTED))](
            *own, _bounds(acting, num_groups, values.device), factors, counts, values.shape[1], num_groups,
            GROUPS=triton.next_power_of_2(num_groups), OWN=COUNTED,
        )  # fmt: skip
    return counts


@_count_ahead.register_fake
def _(own: list[Tensor], acting: str, factors: Tensor) -> Tensor:
    del acting, factors
    return torch.zeros_like(own[0])


@custom_op("hiertree::sum_steps", mutates_args=())
def _sum_steps(
    sources: list[Tensor], own: list[Tensor], acting: str, step: list[float], forward: bool
) -> tuple[Tensor, Tensor]:
    """(B, M) sums of the step and of its slope, weighted by item, at the items of the destinations; 0 elsewhere."""
    values, first = own[0], own[2]
    (rows, width), num_groups = values.shape, first.shape[1] - 1
    sums, slopes = _empty_sums(sources, own, acting, step, forward)
    kind = values.dtype, values.device
    parameters, cosines = _parameters(StepParameters(*step), *kind), _cosines(*kind)
    num_slots = _num_slots(values, sources[2], TILE)
    runs = torch.empty((rows, num_slots), dtype=torch.int32, device=values.device)
    condensed = [values.new_zeros((rows, num_slots + 1, n), dtype=torch.float64) for n in (POINTS, 1, 1)]
    constants = {"GROUPS": triton.next_power_of_2(num_groups), "TILE": TILE, "POINTS": POINTS, "enable_fp_fusion": True}
    with current(values.device):
        _triton_rows.condense[(rows, num_slots)](
            *sources, parameters, cosines, runs, *condensed, width, num_groups, num_warps=1, **constants
        )
        for table in condensed:
            _triton_rows.accumulate[(rows,)](
                table, num_slots + 1, COLUMNS=table.shape[2], BLOCK=SUMMED // table.shape[2]
            )
        _triton_rows.sum_steps[(rows, _num_slots(values, first, OWN))](
            *sources, runs, *condensed, *own, _bounds(acting, num_groups, values.device), parameters, cosines,
            sums, slopes, width, num_slots, num_groups, FORWARD=forward, OWN=OWN,
            num_warps=_num_warps(values, forward=forward), **constants,
        )  # fmt: skip
    return sums, slopes


@_sum_steps.register_fake
def _empty_sums(
    sources: list[Tensor], own: list[Tensor], acting: str, step: list[float], forward: bool
) -> tuple[Tensor, Tensor]:
    """Backward there are no sums, and no room for them."""
    del sources, acting, step
    slopes = torch.zeros_like(own[0])
    return torch.zeros_like(slopes) if forward else slopes.new_empty(0), slopes


def _num_warps(values: Tensor, *, forward: bool) -> int:
    """All threads of a program repeat its searches: the fewer, the better. No sum depends on them."""
    major = torch.cuda.get_device_capability(values.device)[0] if values.is_cuda else 0
    return 1 if (major, forward) in ONE_WARP[values.dtype] else 2


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
    """A step as the kernels read it: δ finite, offset beside start, where it is 0, how wide a run may be, log2(e)/τ."""
    accuracy = ACCURACY[dtype]
    finite = step._replace(margin=min(step.margin, torch.finfo(dtype).max), offset=step.offset - step.start)
    scales = (accuracy.reach * step.tau, accuracy.narrow * step.tau, math.log2(math.e) / step.tau)
    return torch.tensor([*finite, *scales], dtype=dtype, device=device)


@cache
def _cosines(dtype: torch.dtype, device: torch.device) -> Tensor:
    """(p, p) Chebyshev polynomials of every degree at the nodes, cos(degree·θ_m); the nodes are those of degree 1."""
    angles = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (math.pi / POINTS)
    return torch.cos(torch.arange(POINTS, dtype=torch.float64)[:, None] * angles).to(dtype).to(device)
