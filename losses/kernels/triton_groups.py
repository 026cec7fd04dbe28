"""The items of many rows brought together in groups, each in its order, on a GPU, in Triton.

Matrices are (rows, width) and contiguous. A program takes one block of a row and owns what it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@jit
def count_groups(
    items: tl.tensor,
    groups: tl.tensor,
    counts: tl.tensor,
    width: tl.tensor,
    num_groups: tl.tensor,
    BLOCK: tl.constexpr,  # noqa: N803 — Triton's way to say that it is known when compiling
) -> None:
    """(rows, groups, blocks) items of each group in each block of a row; one program a block."""
    row, block, num_blocks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    _, own = _groups_of(items, groups, row.to(tl.int64) * width, block, width, BLOCK)
    for group in range(num_groups):
        here = counts + (row * num_groups + group) * num_blocks + block
        tl.store(here, tl.sum((own == group).to(tl.int32), 0))


@jit
def arrange(
    values: tl.tensor,
    items: tl.tensor,
    groups: tl.tensor,
    ahead: tl.tensor,
    arranged_values: tl.tensor,
    arranged_items: tl.tensor,
    width: tl.tensor,
    num_groups: tl.tensor,
    BLOCK: tl.constexpr,  # noqa: N803
) -> None:
    """Bring the items of a group together, in their order; one program a block. Items of group −1 drop out.

    ``ahead`` (rows, groups·blocks + 1) says how many items stand before those of each group and block.
    """
    row, block, num_blocks = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    base, places = row.to(tl.int64) * width, block * BLOCK + tl.arange(0, BLOCK)
    item, own = _groups_of(items, groups, base, block, width, BLOCK)
    value = tl.load(values + base + places, mask=places < width, other=0)
    for group in range(num_groups):
        taken = (own == group).to(tl.int32)
        start = tl.load(ahead + row * (num_groups * num_blocks + 1) + group * num_blocks + block)
        to = base + start + tl.cumsum(taken, 0) - taken
        tl.store(arranged_values + to, value, mask=taken > 0)
        tl.store(arranged_items + to, item, mask=taken > 0)


@jit
def _groups_of(
    items: tl.tensor,
    groups: tl.tensor,
    base: tl.tensor,
    block: tl.tensor,
    width: tl.tensor,
    BLOCK: tl.constexpr,  # noqa: N803
) -> tuple[tl.tensor, tl.tensor]:
    """The items of a block, and their groups; −1 beyond the end."""
    places = block * BLOCK + tl.arange(0, BLOCK)
    item = tl.load(items + base + places, mask=places < width, other=0)
    return item, tl.load(groups + base + item, mask=places < width, other=-1)
