"""Counting the other items among the sorted positives on a GPU, in Triton: each score is read once.

A program takes some items of one query. It looks each up among the query's positives by bisection; of few positives it
keeps its own counts, of many it adds to the query's, which then are so many that few programs meet at one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch.library import custom_op

from .device import current

BLOCK, BLOCKS = 1024, 8  # items that a program looks up at a time, and how often
MOST_CELLS = 512  # that a program keeps

jit: Callable[[Callable[..., Any]], Any] = triton.jit


@custom_op("hiertree::count_others", mutates_args=("others",))
def count_others(
    scores: torch.Tensor,
    low: torch.Tensor,
    high: torch.Tensor,
    falling: torch.Tensor,
    number: torch.Tensor,
    others: torch.Tensor,
    key: torch.Tensor | None,
    index: torch.Tensor | None,
) -> None:
    """Add the items of each row outside columns ``low`` … ``high`` to the counts at the positives.

    An item counts at the first positive that it does not stand behind, apart where it ties with that. Items behind all
    positives are left out.

    Args:
        scores: (r, n) scores, their rows contiguous.
        low: (r, 1) int64.
        high: (r, 1) int64.
        falling: (r, P) the negated scores of the positives, rising.
        number: (r, 1) int64, how many positives there are; what follows them is not read.
        others: (r · (P+1) · 2 or more,) int32 counts.
        key: where the index breaks ties, (r, P) int64, whose last 32 bits are the index of a positive.
        index: the index of each item, (n,) int64, with ``key``.
    """
    (rows, width), most = scores.shape, falling.shape[1]
    cells = triton.next_power_of_2(2 * most + 3)
    with current(scores.device):
        count_items[(rows, triton.cdiv(width, BLOCK * BLOCKS))](
            scores, low, high, falling, number, others, number if key is None else key,
            number if index is None else index, scores.stride(0), width, most, BY_INDEX=key is not None,
            CELLS=cells if cells <= MOST_CELLS else 0, BLOCK=BLOCK, BLOCKS=BLOCKS,
        )  # fmt: skip


@count_others.register_fake
def _(*_: Any) -> None:
    """Nothing comes out."""


@jit
def count_items(
    scores: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    falling: tl.tensor,
    number: tl.tensor,
    others: tl.tensor,
    key: tl.tensor,
    index: tl.tensor,
    stride: tl.tensor,
    width: tl.tensor,
    most: tl.tensor,
    BY_INDEX: tl.constexpr,  # noqa: N803 — Triton's way to say that it is known when compiling
    CELLS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    BLOCKS: tl.constexpr,  # noqa: N803
) -> None:
    """``CELLS`` is 0 where a program keeps no counts; the last of them is for what is not counted."""
    row = tl.program_id(0).to(tl.int64)
    first, end, found = tl.load(low + row), tl.load(high + row), tl.load(number + row).to(tl.int32)
    counts = others + row * (most + 1) * 2
    kept = tl.zeros([CELLS if CELLS > 0 else 1], dtype=tl.int32)
    start = tl.program_id(1) * BLOCKS * BLOCK
    for begin in range(start, tl.minimum(start + BLOCKS * BLOCK, width), BLOCK):
        column = begin + tl.arange(0, BLOCK)
        inside = (column < width) & ((column < first) | (column >= end))
        own = 0 - tl.load(scores + row * stride + column, mask=inside, other=0)
        ahead = tl.zeros([BLOCK], dtype=tl.int32)
        behind = ahead + found
        left = found
        while left > 0:
            middle = (ahead + behind) // 2
            is_open = ahead < behind
            met = tl.load(falling + row * most + middle, mask=is_open, other=0)
            passed = met < own
            if BY_INDEX:
                of_positive = tl.load(key + row * most + middle, mask=is_open, other=0) & 0xFFFFFFFF
                passed |= (met == own) & (of_positive < tl.load(index + column, mask=inside, other=0))
            ahead = tl.where(is_open & passed, middle + 1, ahead)
            behind = tl.where(is_open & ~passed, middle, behind)
            left = left // 2
        inside &= ahead < found
        cell = 2 * ahead
        if not BY_INDEX:
            met = tl.load(falling + row * most + ahead, mask=inside, other=0)
            cell += (met == own).to(tl.int32)
        if CELLS > 0:
            kept += tl.histogram(tl.where(inside, cell, CELLS - 1), CELLS)
        else:
            tl.atomic_add(counts + cell, 1, mask=inside, sem="relaxed")
    if CELLS > 0:
        cells = tl.arange(0, CELLS)
        tl.atomic_add(counts + cells, kept, mask=(cells < 2 * found) & (kept > 0), sem="relaxed")
