"""Step sums of many rows on a GPU, in Triton: each program owns what it writes, so that nothing depends on their order.

A row's *sources* act on its *destinations*: Σ over sources of weight·step(t), t = source − destination; forward,
candidates act on targets; backward, targets act on candidates by the slope, t = destination − source. Both stand in
groups (the levels, so that one pass serves all of them), and in a group in falling order, so that a tile of neighbors
spans little. A program holds one tile of destinations and evaluates each tile of sources in one of four ways:

* all t far below 0: the step is 0, the tile is skipped;
* all t beyond δ: the step is a line, and the tile's weight and lean suffice, exactly;
* all t up to δ, and the tile narrow: the step is σ, and a jump at 0. Neighboring tiles that span a few τ together are a
  *run*, and ``POINTS`` weighted points at Chebyshev's nodes replace what the destinations meet of it (``condense``): σ
  is analytic up to ±iπτ, so that the error is near 5e-8 where the span is 5 τ, and below it where all t are below −5 τ
  and one tile spans up to 10 τ. Of the jump the sources are counted;
* otherwise every source is evaluated, ``POINTS`` at a time.

In a group tiles fall too, so that those of the first two kinds are found by bisection, and running sums over tiles hold
all of the line, and any part of a run: a row needs as many points as it spans τ, however many items it has. No program
waits for another, and none decides by its place in the grid what it adds to what.

Matrices are (rows, width) and contiguous; ``first`` (rows, groups + 1) says where each group of a row begins, and the
last ends. Tiles have slots: tile i of group g has slot first // TILE + g + i. ``step`` holds τ, ρ, δ, start, what
offset adds to it, where the step is 0 (below −reach), how much a run of tiles may span, and log2(e)/τ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@jit
def condense(
    values: tl.tensor,
    items: tl.tensor,
    first: tl.tensor,
    weights: tl.tensor,
    step: tl.tensor,
    cosines: tl.tensor,
    runs: tl.tensor,
    points: tl.tensor,
    weight: tl.tensor,
    moment: tl.tensor,
    width: tl.tensor,
    num_groups: tl.tensor,
    GROUPS: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803 — Triton's way to say that it is known when compiling
    POINTS: tl.constexpr,  # noqa: N803
) -> None:
    """For each tile its run, its weights at the points of that run, its weight, and Σ weight·value; one program a tile.

    Point m weighs (1/p)·Σ_d c_d·cos(d·θ_m)·Σ_j w_j·T_d(x_j), with c_0 = 1 and else 2: Lagrange's polynomials on
    Chebyshev's nodes, added up over the tile. The run of a tile has as many tiles as ``runs`` (rows, slots) says, the
    most, of 2^n that begin at a multiple of 2^n, that are narrow; 0 where one tile is too wide, which has points of its
    own up to twice that span. The others hold 0, have slots + 1 places in a row, and begin with one.
    """
    row, base, columns = tl.program_id(0), tl.program_id(0).to(tl.int64) * width, tl.arange(0, POINTS)
    slot = row.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    own = slot + row + 1
    group, begin, end = _tile(first + row * (num_groups + 1), tl.program_id(1), num_groups, GROUPS, TILE)
    if begin < end:
        begins, ends = _bounds(first, row, group, num_groups)
        tile, sizes = (begin - begins) // TILE, 1 << tl.arange(0, 16)
        _heads, _stops, highs, lows = _run(values + base, begins, ends, tile, sizes, TILE)
        narrow = tl.load(step + 6)
        run = tl.max(tl.where(highs - lows <= narrow, sizes, 0), 0)
        tl.store(runs + slot, run)
        places = begin + tl.arange(0, TILE)
        inside = places < end
        item = tl.load(items + base + places, mask=inside, other=0)
        mass = tl.load(weights + base + item, mask=inside, other=0).to(values.dtype.element_ty)
        value = tl.load(values + base + places, mask=inside, other=0)
        total, center = tl.sum(mass, 0), tl.load(values + base + begin)
        lean = tl.sum(mass * tl.where(inside, value - center, 0), 0)
        tl.store(weight + own, total.to(tl.float64))
        tl.store(moment + own, total.to(tl.float64) * center.to(tl.float64) + lean.to(tl.float64))
        _head, _stop, high, low = _run(values + base, begins, ends, tile, tl.maximum(run, 1), TILE)
        if high - low <= 2 * narrow:
            away = tl.where(inside, value - (high + low) / 2, 0)
            place = away / tl.where(high > low, (high - low) / 2, 1)
            condensed = tl.zeros([POINTS], dtype=values.dtype.element_ty) + total
            before, polynomial = tl.where(inside, place * 0 + 1, 0), place
            for degree in range(1, POINTS):
                condensed += 2 * tl.sum(mass * polynomial, 0) * tl.load(cosines + degree * POINTS + columns)
                after = 2 * place * polynomial - before
                before = polynomial
                polynomial = after
            tl.store(points + own * POINTS + columns, (condensed / POINTS).to(tl.float64))


@jit
def accumulate(
    sums: tl.tensor,
    length: tl.tensor,
    COLUMNS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
) -> None:
    """Replace each number of a row's columns by the sum up to it; one program a row."""
    total, columns = tl.zeros([COLUMNS], dtype=tl.float64), tl.arange(0, COLUMNS)
    for begin in range(0, length, BLOCK):
        places = begin + tl.arange(0, BLOCK)
        here = sums + (tl.program_id(0).to(tl.int64) * length + places[:, None]) * COLUMNS + columns[None, :]
        own = tl.load(here, mask=places[:, None] < length, other=0)
        tl.store(here, total[None, :] + tl.cumsum(own, 0), mask=places[:, None] < length)
        total += tl.sum(own, 0)


@jit
def count_ahead(
    values: tl.tensor,
    items: tl.tensor,
    first: tl.tensor,
    acting: tl.tensor,
    factors: tl.tensor,
    counts: tl.tensor,
    width: tl.tensor,
    num_groups: tl.tensor,
    GROUPS: tl.constexpr,  # noqa: N803
    OWN: tl.constexpr,  # noqa: N803
) -> None:
    """Write how many items are not behind, by value, at the items of a tile.

    Groups act as in :func:`sum_steps`, each with the smaller of the two groups' ``factors`` (rows, groups).
    """
    row, base = tl.program_id(0), tl.program_id(0).to(tl.int64) * width
    group, begin, end = _tile(first + row * (num_groups + 1), tl.program_id(1), num_groups, GROUPS, OWN)
    if begin < end:
        places = begin + tl.arange(0, OWN)
        own = tl.load(values + base + places, mask=places < end, other=0)
        count = tl.zeros_like(own)
        for other in range(tl.load(acting + group), tl.load(acting + num_groups + group)):
            begins, ends = _bounds(first, row, other, num_groups)
            factor = tl.minimum(
                tl.load(factors + row * num_groups + group), tl.load(factors + row * num_groups + other)
            )
            count += factor * _count_tiles(values + base, begins, ends, own, 0, False, 0, 1).to(own.dtype)
        item = tl.load(items + base + places, mask=places < end, other=0)
        tl.store(counts + base + item, count, mask=places < end)


@jit
def sum_steps(
    values: tl.tensor,
    items: tl.tensor,
    first: tl.tensor,
    weights: tl.tensor,
    runs: tl.tensor,
    points: tl.tensor,
    weight: tl.tensor,
    moment: tl.tensor,
    own_values: tl.tensor,
    own_items: tl.tensor,
    own_first: tl.tensor,
    acting: tl.tensor,
    step: tl.tensor,
    cosines: tl.tensor,
    sums: tl.tensor,
    slopes: tl.tensor,
    width: tl.tensor,
    num_slots: tl.tensor,
    num_groups: tl.tensor,
    FORWARD: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr,  # noqa: N803
    OWN: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
    POINTS: tl.constexpr,  # noqa: N803
) -> None:
    """Write Σ weight·step(t) (forward only) and Σ weight·slope(t) at the items of a tile of destinations.

    On destinations of group g act the groups ``acting``[0, g] … ``acting``[1, g] − 1 of sources. ``points``,
    ``weight`` and ``moment`` (rows, slots + 1) are the sums before each slot. Forward every source weighs 1.
    """
    row, base = tl.program_id(0), tl.program_id(0).to(tl.int64) * width
    group, own_begin, own_end = _tile(own_first + row * (num_groups + 1), tl.program_id(1), num_groups, GROUPS, OWN)
    if own_begin < own_end:
        places, columns = own_begin + tl.arange(0, OWN), tl.arange(0, POINTS)
        top, bottom = _ends(own_values + base, own_begin, own_end)
        own = tl.load(own_values + base + places, mask=places < own_end, other=0)
        line, beyond = tl.zeros_like(own), tl.zeros([1], dtype=tl.float64)
        value, slope = tl.zeros([OWN, POINTS], dtype=own.dtype), tl.zeros([OWN, POINTS], dtype=own.dtype)
        rho, margin, reach, narrow = tl.load(step + 1), tl.load(step + 2), tl.load(step + 5), tl.load(step + 6)
        for other in range(tl.load(acting + group), tl.load(acting + num_groups + group)):
            begins, ends = _bounds(first, row, other, num_groups)
            slot = row.to(tl.int64) * num_slots + begins // TILE + other
            held = slot + row  # of one slot more
            here, edge = values + base, bottom if FORWARD else top
            on_line = _count_tiles(here, begins, ends, top if FORWARD else bottom, margin, FORWARD, 0, TILE)
            crossing = _count_tiles(here, begins, ends, edge, margin, FORWARD, 1, TILE)
            in_reach = _count_tiles(here, begins, ends, edge, -reach, FORWARD, 1, TILE)
            if FORWARD:
                number = _between(weight + held, 0, on_line)
                moved = _between(moment + held, 0, on_line)
                start = own.to(tl.float64) + margin.to(tl.float64)
                added = tl.load(step + 4).to(tl.float64) * number + rho.to(tl.float64) * (moved - start * number)
                line += added.to(own.dtype)
                beyond += number
                if tl.load(step + 3) != 0:
                    ahead = _count_tiles(here, begins, ends, own, 0, False, 0, 1)
                    line += tl.load(step + 3) * ahead.to(own.dtype)
            else:
                beyond += _between(weight + held, on_line, tl.cdiv(ends - begins, TILE))
            tile, last = (on_line, in_reach) if FORWARD else (in_reach, on_line)
            while tile < last:
                run = tl.load(runs + slot + tile)
                whole, stop, high, low = _run(here, begins, ends, tile, tl.maximum(run, 1), TILE)
                is_far = (high - low <= 2 * narrow) & ((high - bottom if FORWARD else top - low) < -narrow)
                if ((run > 0) | is_far) & ((tile >= crossing) if FORWARD else (tile < crossing)):
                    begin, tile = (tile, stop) if FORWARD else (whole, tl.minimum(stop, crossing))
                    met = (high + low) / 2 + (high - low) / 2 * tl.load(cosines + POINTS + columns)
                    mass = _between(points + held * POINTS + columns, begin * POINTS, tile * POINTS).to(own.dtype)
                    value, slope = _add(value, slope, met, mass, own, step, FORWARD, False)
                else:
                    end = tl.minimum(begins + (tile + 1) * TILE, ends)
                    for chunk in range(begins + tile * TILE, end, POINTS):
                        others = chunk + columns
                        met = tl.load(here + others, mask=others < end, other=0)
                        item = tl.load(items + base + others, mask=others < end, other=0)
                        mass = tl.load(weights + base + item, mask=others < end, other=0).to(own.dtype)
                        value, slope = _add(value, slope, met, mass, own, step, FORWARD, True)
                    tile += 1
        own_item = tl.load(own_items + base + places, mask=places < own_end, other=0)
        slope_sums = (rho.to(tl.float64) * beyond).to(own.dtype) + tl.sum(slope, 1) / tl.load(step)
        tl.store(slopes + base + own_item, slope_sums, mask=places < own_end)
        if FORWARD:
            tl.store(sums + base + own_item, line + tl.sum(value, 1), mask=places < own_end)


@jit
def _tile(
    first: tl.tensor,
    slot: tl.tensor,
    num_groups: tl.tensor,
    GROUPS: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The group of the tile in a slot, where it begins and where it ends; a slot without a tile ends where it begins.

    ``GROUPS`` is a power of two, no less than their number.
    """
    groups = tl.arange(0, GROUPS)
    begins = tl.load(first + groups, mask=groups < num_groups, other=0) // TILE + groups
    group = tl.sum(((groups < num_groups) & (begins <= slot)).to(tl.int32), 0) - 1
    start, end = tl.load(first + group), tl.load(first + group + 1)
    begin = start + (slot - start // TILE - group) * TILE
    return group, begin, tl.maximum(begin, tl.minimum(begin + TILE, end))


@jit
def _count_tiles(
    values: tl.tensor,
    begins: tl.tensor,
    ends: tl.tensor,
    edge: tl.tensor,
    limit: tl.tensor,
    FORWARD: tl.constexpr,  # noqa: N803
    REACH: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
) -> tl.tensor:
    """How many tiles of a group come before the first on the other side of a limit of t, by bisection, for each edge.

    Forward, t falls from tile to tile: those with all t above δ come first; then those with some t above −reach.
    Backward, t rises: those with no t above −reach come first; then those with some t up to δ.
    """
    low = (edge != edge).to(tl.int32)  # 0 for each
    high, left = low + tl.cdiv(ends - begins, TILE), tl.cdiv(ends - begins, TILE)
    while left > 0:
        middle = (low + high) // 2
        begin = begins + middle * TILE
        nearest = begin if FORWARD == REACH else tl.minimum(begin + TILE, ends) - 1
        met = tl.load(values + nearest, mask=low < high, other=0)
        passed = (met - edge > limit) if FORWARD else (edge - met <= limit)
        low, high = (
            tl.where((low < high) & passed, middle + 1, low),
            tl.where((low < high) & ~passed, middle, high),
        )
        left //= 2
    return low


@jit
def _bounds(first: tl.tensor, row: tl.tensor, group: tl.tensor, num_groups: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Where a group of a row begins and ends."""
    here = first + row * (num_groups + 1) + group
    return tl.load(here), tl.load(here + 1)


@jit
def _between(sums: tl.tensor, begin: tl.tensor, end: tl.tensor) -> tl.tensor:
    """What the slots from one to another hold, of the sums before each."""
    return tl.load(sums + end) - tl.load(sums + begin)


@jit
def _ends(values: tl.tensor, begin: tl.tensor, end: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """The highest and the lowest value of a tile."""
    return tl.load(values + begin), tl.load(values + end - 1)


@jit
def _run(
    values: tl.tensor,
    begins: tl.tensor,
    ends: tl.tensor,
    tile: tl.tensor,
    size: tl.tensor,
    TILE: tl.constexpr,  # noqa: N803
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The run of so many tiles around one: its first, where it stops, its highest and its lowest value."""
    start = tile & -size
    stop = tl.minimum(start + size, tl.cdiv(ends - begins, TILE))
    high, low = _ends(values, begins + start * TILE, tl.minimum(begins + stop * TILE, ends))
    return start, stop, high, low


@jit
def _add(
    value: tl.tensor,
    slope: tl.tensor,
    met: tl.tensor,
    mass: tl.tensor,
    own: tl.tensor,
    step: tl.tensor,
    FORWARD: tl.constexpr,  # noqa: N803
    CROSSING: tl.constexpr,  # noqa: N803
) -> tuple[tl.tensor, tl.tensor]:
    """Add what sources do to each destination, but for jumps, slopes in units of 1/τ; only ``CROSSING`` ones pass δ.

    e^−|t|/τ neither overflows nor cancels. A root squared takes fewer instructions than a quotient.
    """
    t = met[None, :] - own[:, None] if FORWARD else own[:, None] - met[None, :]
    decay = tl.exp2(-tl.abs(t) * tl.load(step + 7))
    root = tl.rsqrt(1 + decay)
    share = root * root
    behind = decay * share
    near, steepness = tl.where(t >= 0, share, behind), behind * share
    if CROSSING:
        rho, beyond = tl.load(step + 1), t > tl.load(step + 2)
        near = tl.where(beyond, rho * (t - tl.load(step + 2)) + tl.load(step + 4), near)
        steepness = tl.where(beyond, rho * tl.load(step), steepness)
    slope += mass[None, :] * steepness
    if FORWARD:
        value += mass[None, :] * near
    return value, slope
