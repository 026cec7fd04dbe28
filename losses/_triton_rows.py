"""Step sums of many rows on a GPU, in Triton: each program owns what it writes, so that nothing depends on their order.

A row's *sources* act on its *destinations*: Σ over sources of weight·step(t), t = source − destination; forward,
candidates act on targets; backward, targets act on candidates by the slope, t = destination − source. Both stand in
falling order, so that a tile of neighbours spans little. A program holds one tile of destinations and meets each tile
of sources in one of four ways:

* all t far below 0: the step is 0, the tile is skipped;
* all t beyond δ: the step is a line, and the tile's weight and lean tell all, exactly;
* the tile spans a few τ and no break of the step (0, δ) lies among its t: ``POINTS`` weighted points at Chebyshev's
  nodes stand for it (``condense``): σ is analytic up to ±iπτ, so that the error is near 1e-8 where the span is 4 τ;
* otherwise every source is met, ``POINTS`` at a time.

Matrices are (rows, width) and contiguous; ``number`` says how many items of a row count. ``step`` holds τ, ρ, δ, start,
offset, where the step is 0 (below −reach), how much a tile may span for points to stand for it, and log2(e)/τ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@jit
def choose(
    values: tl.tensor,
    items: tl.tensor,
    mask: tl.tensor,
    chosen_values: tl.tensor,
    chosen_items: tl.tensor,
    number: tl.tensor,
    width: tl.tensor,
    BLOCK: tl.constexpr,  # noqa: N803 — Triton's way to say that it is known when compiling
) -> None:
    """Bring a row's items under a mask to its front, in their order; one program a row."""
    row = tl.program_id(0)
    base = row.to(tl.int64) * width
    found = 0
    for first in range(0, width, BLOCK):
        places = first + tl.arange(0, BLOCK)
        inside = places < width
        value = tl.load(values + base + places, mask=inside, other=0)
        item = tl.load(items + base + places, mask=inside, other=0)
        taken = tl.load(mask + base + item, mask=inside, other=0).to(tl.int32)
        place = found + tl.cumsum(taken, 0) - taken
        tl.store(chosen_values + base + place, value, mask=taken > 0)
        tl.store(chosen_items + base + place, item, mask=taken > 0)
        found += tl.sum(taken, 0)
    tl.store(number + row, found)


@jit
def condense(
    values: tl.tensor,
    items: tl.tensor,
    number: tl.tensor,
    weights: tl.tensor,
    cosines: tl.tensor,
    points: tl.tensor,
    weight: tl.tensor,
    lean: tl.tensor,
    width: tl.tensor,
    TILE: tl.constexpr,  # noqa: N803
    POINTS: tl.constexpr,  # noqa: N803
) -> None:
    """The weights of the points that stand for a tile, its whole weight, and Σ weight·(value − centre).

    Point m weighs (1/p)·Σ_d c_d·cos(d·θ_m)·Σ_j w_j·T_d(x_j), with c_0 = 1 and else 2: Lagrange's polynomials on
    Chebyshev's nodes, added up over the tile.
    """
    row, tile = tl.program_id(0), tl.program_id(1)
    base, first = row.to(tl.int64) * width, tile * TILE
    count = tl.load(number + row)
    if first < count:
        places = first + tl.arange(0, TILE)
        inside = places < count
        item = tl.load(items + base + places, mask=inside, other=0)
        mass = tl.load(weights + base + item, mask=inside, other=0).to(values.dtype.element_ty)
        high, low = _ends(values + base, first, tl.minimum(first + TILE, count))
        away = tl.where(inside, tl.load(values + base + places, mask=inside, other=0) - (high + low) / 2, 0)
        place = away / tl.where(high > low, (high - low) / 2, 1)
        whole = tl.sum(mass, 0)
        columns = tl.arange(0, POINTS)
        condensed = tl.zeros([POINTS], dtype=values.dtype.element_ty) + whole
        before, polynomial = tl.where(inside, place * 0 + 1, 0), place
        for degree in range(1, POINTS):
            condensed += 2 * tl.sum(mass * polynomial, 0) * tl.load(cosines + degree * POINTS + columns)
            after = 2 * place * polynomial - before
            before = polynomial
            polynomial = after
        own_tile = row.to(tl.int64) * tl.num_programs(1) + tile
        tl.store(points + own_tile * POINTS + columns, condensed / POINTS)
        tl.store(weight + own_tile, whole)
        tl.store(lean + own_tile, tl.sum(mass * away, 0))


@jit
def sum_steps(
    values: tl.tensor,
    items: tl.tensor,
    number: tl.tensor,
    weights: tl.tensor,
    points: tl.tensor,
    weight: tl.tensor,
    lean: tl.tensor,
    own_values: tl.tensor,
    own_items: tl.tensor,
    own_number: tl.tensor,
    step: tl.tensor,
    cosines: tl.tensor,
    sums: tl.tensor,
    slopes: tl.tensor,
    width: tl.tensor,
    num_tiles: tl.tensor,
    FORWARD: tl.constexpr,  # noqa: N803
    OWN: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
    POINTS: tl.constexpr,  # noqa: N803
) -> None:
    """Write Σ weight·step(t) (forward only) and Σ weight·slope(t) at the items of a tile of destinations."""
    row = tl.program_id(0)
    base, first = row.to(tl.int64) * width, tl.program_id(1) * OWN
    own_count, count = tl.load(own_number + row), tl.load(number + row)
    if first < own_count:
        places, columns = first + tl.arange(0, OWN), tl.arange(0, POINTS)
        top, bottom = _ends(own_values + base, first, tl.minimum(first + OWN, own_count))
        own = tl.load(own_values + base + places, mask=places < own_count, other=0)
        line, weight_beyond = tl.zeros_like(own), tl.zeros_like(own)
        value = tl.zeros([OWN, POINTS], dtype=own.dtype)
        slope = tl.zeros([OWN, POINTS], dtype=own.dtype)
        for begin in range(0, count, TILE):
            end, tile = tl.minimum(begin + TILE, count), row.to(tl.int64) * num_tiles + begin // TILE
            high, low = _ends(values + base, begin, end)
            most, least = (high - bottom, low - top) if FORWARD else (top - low, bottom - high)
            if least > tl.load(step + 2):
                weight_here = tl.load(weight + tile)
                weight_beyond += weight_here
                if FORWARD:
                    line += _line(weight_here, tl.load(lean + tile), (high + low) / 2 - own, step)
            elif (most > -tl.load(step + 5)) & _is_smooth(most, least, high - low, step):
                met = _nodes(high, low, cosines, POINTS)
                mass = tl.load(points + tile * POINTS + columns)
                value, slope = _add(value, slope, met, mass, own, step, FORWARD)
            elif most > -tl.load(step + 5):
                for chunk in range(begin, end, POINTS):
                    others = chunk + columns
                    met = tl.load(values + base + others, mask=others < end, other=0)
                    item = tl.load(items + base + others, mask=others < end, other=0)
                    mass = tl.load(weights + base + item, mask=others < end, other=0).to(own.dtype)
                    value, slope = _add(value, slope, met, mass, own, step, FORWARD)
        own_item = tl.load(own_items + base + places, mask=places < own_count, other=0)
        slope_sums = tl.load(step + 1) * weight_beyond + tl.sum(slope, 1) / tl.load(step)
        tl.store(slopes + base + own_item, slope_sums, mask=places < own_count)
        if FORWARD:
            tl.store(sums + base + own_item, line + tl.sum(value, 1), mask=places < own_count)


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
def _line(weight: tl.tensor, lean: tl.tensor, centre: tl.tensor, step: tl.tensor) -> tl.tensor:
    """Σ weight·(ρ(t − δ) + offset) over a tile whose centre is at t = ``centre``."""
    rho = tl.load(step + 1)
    return weight * (rho * (centre - tl.load(step + 2)) + tl.load(step + 4)) + rho * lean


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
