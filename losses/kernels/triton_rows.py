"""Step sums of many rows on a GPU, in Triton: each program owns what it writes, so that nothing depends on their order.

A row's *sources* act on its *destinations*: Σ over sources of weight·step(t), t = source − destination; forward,
candidates act on targets; backward, targets act on candidates by the slope, t = destination − source. Both stand in
groups (the levels, so that one pass serves all of them), and in a group in falling order, so that a tile of neighbors
spans little. A program holds one tile of destinations and evaluates each tile of sources in one of four ways:

* all t far below 0: the step is 0, the tile is skipped;
* all t beyond δ: the step is a line, and the tile's weight and lean suffice, exactly;
* the tile spans a few τ and no break of the step (0, δ) lies among its t: ``POINTS`` weighted points at Chebyshev's
  nodes replace it (``condense``): σ is analytic up to ±iπτ, so that the error is near 1e-8 where the span is 4 τ;
* otherwise every source is evaluated, ``POINTS`` at a time.

Matrices are (rows, width) and contiguous; ``first`` (rows, groups + 1) says where each group of a row begins, and the
last ends. Tiles have slots: tile i of group g has slot first // TILE + g + i. ``step`` holds τ, ρ, δ, start, offset,
where the step is 0 (below −reach), how much a tile that points replace may span, and log2(e)/τ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@jit
def arrange(
    values: tl.tensor,
    items: tl.tensor,
    groups: tl.tensor,
    arranged_values: tl.tensor,
    arranged_items: tl.tensor,
    first: tl.tensor,
    width: tl.tensor,
    BLOCK: tl.constexpr,  # noqa: N803 — Triton's way to say that it is known when compiling
) -> None:
    """Bring the items of a group together, in their order; one program a row and group. Items of group −1 drop out."""
    row, group, num_groups = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    base = row.to(tl.int64) * width
    place = 0
    for begin in range(0, width, BLOCK):
        places = begin + tl.arange(0, BLOCK)
        own = tl.load(groups + base + places, mask=places < width, other=-1)
        place += tl.sum(((own >= 0) & (own < group)).to(tl.int32), 0)
    tl.store(first + row * (num_groups + 1) + group, place)
    for begin in range(0, width, BLOCK):
        places = begin + tl.arange(0, BLOCK)
        item = tl.load(items + base + places, mask=places < width, other=0)
        value = tl.load(values + base + places, mask=places < width, other=0)
        own = tl.load(groups + base + item, mask=places < width, other=-1)
        taken = (own == group).to(tl.int32)
        to = base + place + tl.cumsum(taken, 0) - taken
        tl.store(arranged_values + to, value, mask=taken > 0)
        tl.store(arranged_items + to, item, mask=taken > 0)
        place += tl.sum(taken, 0)
    if group == num_groups - 1:
        tl.store(first + row * (num_groups + 1) + num_groups, place)


@jit
def condense(
    values: tl.tensor,
    items: tl.tensor,
    first: tl.tensor,
    weights: tl.tensor,
    cosines: tl.tensor,
    points: tl.tensor,
    weight: tl.tensor,
    lean: tl.tensor,
    width: tl.tensor,
    num_slots: tl.tensor,
    TILE: tl.constexpr,  # noqa: N803
    POINTS: tl.constexpr,  # noqa: N803
) -> None:
    """For each tile the weights of the points that replace it, its weight, and Σ weight·(value − center).

    Point m weighs (1/p)·Σ_d c_d·cos(d·θ_m)·Σ_j w_j·T_d(x_j), with c_0 = 1 and else 2: Lagrange's polynomials on
    Chebyshev's nodes, added up over the tile. One program a row and group.
    """
    row, group = tl.program_id(0), tl.program_id(1)
    base, columns = row.to(tl.int64) * width, tl.arange(0, POINTS)
    begins, ends = _group(first, row, group, tl.num_programs(1))
    slot = row.to(tl.int64) * num_slots + begins // TILE + group
    for begin in range(begins, ends, TILE):
        places = begin + tl.arange(0, TILE)
        inside = places < ends
        item = tl.load(items + base + places, mask=inside, other=0)
        mass = tl.load(weights + base + item, mask=inside, other=0).to(values.dtype.element_ty)
        high, low = _ends(values + base, begin, tl.minimum(begin + TILE, ends))
        away = tl.where(inside, tl.load(values + base + places, mask=inside, other=0) - (high + low) / 2, 0)
        place = away / tl.where(high > low, (high - low) / 2, 1)
        condensed = tl.zeros([POINTS], dtype=values.dtype.element_ty) + tl.sum(mass, 0)
        before, polynomial = tl.where(inside, place * 0 + 1, 0), place
        for degree in range(1, POINTS):
            condensed += 2 * tl.sum(mass * polynomial, 0) * tl.load(cosines + degree * POINTS + columns)
            after = 2 * place * polynomial - before
            before = polynomial
            polynomial = after
        tl.store(points + slot * POINTS + columns, condensed / POINTS)
        tl.store(weight + slot, tl.sum(mass, 0))
        tl.store(lean + slot, tl.sum(mass * away, 0))
        slot += 1


@jit
def sum_steps(
    values: tl.tensor,
    items: tl.tensor,
    first: tl.tensor,
    weights: tl.tensor,
    points: tl.tensor,
    weight: tl.tensor,
    lean: tl.tensor,
    own_values: tl.tensor,
    own_items: tl.tensor,
    own_first: tl.tensor,
    acting: tl.tensor,
    factors: tl.tensor,
    step: tl.tensor,
    cosines: tl.tensor,
    sums: tl.tensor,
    slopes: tl.tensor,
    width: tl.tensor,
    num_slots: tl.tensor,
    FORWARD: tl.constexpr,  # noqa: N803
    OWN: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
    POINTS: tl.constexpr,  # noqa: N803
) -> None:
    """Write Σ weight·step(t) (forward only) and Σ weight·slope(t) at the items of a tile of destinations.

    On destinations of group g act the groups ``acting``[0, g] … ``acting``[1, g] − 1 of sources, each with the smaller
    of the two groups' ``factors`` (rows, groups).
    """
    row, group, num_groups = tl.program_id(0), tl.program_id(2), tl.num_programs(2)
    base = row.to(tl.int64) * width
    own_begin, own_end = _group(own_first, row, group, num_groups)
    own_begin += tl.program_id(1) * OWN
    if own_begin < own_end:
        places, columns = own_begin + tl.arange(0, OWN), tl.arange(0, POINTS)
        top, bottom = _ends(own_values + base, own_begin, tl.minimum(own_begin + OWN, own_end))
        own = tl.load(own_values + base + places, mask=places < own_end, other=0)
        line, beyond = tl.zeros_like(own), tl.zeros_like(own)
        value, slope = tl.zeros([OWN, POINTS], dtype=own.dtype), tl.zeros([OWN, POINTS], dtype=own.dtype)
        for other in range(tl.load(acting + group), tl.load(acting + num_groups + group)):
            begins, ends = _group(first, row, other, num_groups)
            slot = row.to(tl.int64) * num_slots + begins // TILE + other
            for begin in range(begins, ends, TILE):
                factor = _smaller_factor(factors + row * num_groups, group, other)
                end = tl.minimum(begin + TILE, ends)
                high, low = _ends(values + base, begin, end)
                most, least = (high - bottom, low - top) if FORWARD else (top - low, bottom - high)
                if least > tl.load(step + 2):
                    beyond += factor * tl.load(weight + slot)
                    if FORWARD:
                        center = (high + low) / 2 - own
                        line += factor * _line(tl.load(weight + slot), tl.load(lean + slot), center, step)
                elif (most > -tl.load(step + 5)) & _is_smooth(most, least, high - low, step):
                    met = _nodes(high, low, cosines, POINTS)
                    mass = factor * tl.load(points + slot * POINTS + columns)
                    value, slope = _add(value, slope, met, mass, own, step, FORWARD)
                elif most > -tl.load(step + 5):
                    for chunk in range(begin, end, POINTS):
                        others = chunk + columns
                        met = tl.load(values + base + others, mask=others < end, other=0)
                        item = tl.load(items + base + others, mask=others < end, other=0)
                        mass = tl.load(weights + base + item, mask=others < end, other=0).to(own.dtype)
                        value, slope = _add(value, slope, met, factor * mass, own, step, FORWARD)
                slot += 1
        own_item = tl.load(own_items + base + places, mask=places < own_end, other=0)
        slope_sums = tl.load(step + 1) * beyond + tl.sum(slope, 1) / tl.load(step)
        tl.store(slopes + base + own_item, slope_sums, mask=places < own_end)
        if FORWARD:
            tl.store(sums + base + own_item, line + tl.sum(value, 1), mask=places < own_end)


@jit
def _group(first: tl.tensor, row: tl.tensor, group: tl.tensor, num_groups: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Where a group of a row begins and ends."""
    here = first + row * (num_groups + 1) + group
    return tl.load(here), tl.load(here + 1)


@jit
def _smaller_factor(factors: tl.tensor, group: tl.tensor, other: tl.tensor) -> tl.tensor:
    return tl.minimum(tl.load(factors + group), tl.load(factors + other))


@jit
def _ends(values: tl.tensor, begin: tl.tensor, end: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The highest and the lowest value of a tile."""
    return tl.load(values + begin), tl.load(values + end - 1)


@jit
def _nodes(high: tl.tensor, low: tl.tensor, cosines: tl.tensor, POINTS: tl.constexpr) -> tl.tensor:  # noqa: N803
    """Where the points of a tile stand."""
    return (high + low) / 2 + (high - low) / 2 * tl.load(cosines + POINTS + tl.arange(0, POINTS))


@jit
def _is_smooth(most: tl.tensor, least: tl.tensor, span: tl.tensor, step: tl.tensor) -> tl.tensor:
    """Whether the step is σ, but for a constant, for all t from least to most, and the tile narrow."""
    jumps = (least < 0) & (most >= 0) & (tl.load(step + 3) != 0)
    return (most <= tl.load(step + 2)) & (span <= tl.load(step + 6)) & ~jumps


@jit
def _line(weight: tl.tensor, lean: tl.tensor, center: tl.tensor, step: tl.tensor) -> tl.tensor:
    """Σ weight·(ρ(t − δ) + offset) over a tile whose center is at t = ``center``."""
    rho = tl.load(step + 1)
    return weight * (rho * (center - tl.load(step + 2)) + tl.load(step + 4)) + rho * lean


@jit
def _add(
    value: tl.tensor,
    slope: tl.tensor,
    met: tl.tensor,
    mass: tl.tensor,
    own: tl.tensor,
    step: tl.tensor,
    FORWARD: tl.constexpr,  # noqa: N803
) -> tuple[tl.tensor, tl.tensor]:
    """Add what sources do to each destination, slopes in units of 1/τ; e^−|t|/τ neither overflows nor cancels."""
    tau, rho, margin = tl.load(step), tl.load(step + 1), tl.load(step + 2)
    start, offset, sharpness = tl.load(step + 3), tl.load(step + 4), tl.load(step + 7)
    t = met[None, :] - own[:, None] if FORWARD else own[:, None] - met[None, :]
    decay = tl.exp2(-tl.abs(t) * sharpness)
    share = 1 / (1 + decay)
    behind = decay * share
    beyond = t > margin
    slope += mass[None, :] * tl.where(beyond, rho * tau, behind * share)
    if FORWARD:
        near = tl.where(t >= 0, share + start, behind)
        value += mass[None, :] * tl.where(beyond, rho * (t - margin) + offset, near)
    return value, slope
