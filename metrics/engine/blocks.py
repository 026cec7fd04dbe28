"""Rows of a ranking shared out over threads, and what comes next loaded meanwhile.

Every row is computed alone, so no result depends on the sharing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

BUDGET = 2**28  # bytes of scores, and again of what is made of them, that are held at once
_ROWS_AT_ONCE = 16
Key = TypeVar("Key")
Loaded = TypeVar("Loaded")


def num_threads() -> int:
    """The processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_row_ranges(work: Callable[[slice], None], num_rows: int, *, row_bytes: int) -> None:
    """Call ``work`` on consecutive ranges of rows from several threads.

    Args:
        work: writes the results of its rows.
        num_rows: how many rows there are.
        row_bytes: memory that ``work`` needs for one row.
    """
    threads = min(num_threads(), max(BUDGET // row_bytes, 1), num_rows)
    if threads < 1:
        return
    rows = max(min(_ROWS_AT_ONCE, BUDGET // (row_bytes * threads), -(-num_rows // threads)), 1)
    ranges = [slice(start, min(start + rows, num_rows)) for start in range(0, num_rows, rows)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, ranges):
            pass


def products_of(num_rows: int, height: int) -> list[slice]:
    """The rows of a block that each product has."""
    return [slice(start, min(start + height, num_rows)) for start in range(0, num_rows, height)]


def loaded(load: Callable[[Key], Loaded], keys: Iterable[Key]) -> Iterator[tuple[Key, Loaded]]:
    """What is loaded for each key, the next one meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        ahead: list[tuple[Key, Future[Loaded]]] = []
        for key in keys:
            ready = [(known, future.result()) for known, future in ahead]
            ahead = [(key, pool.submit(load, key))]
            yield from ready
        for known, future in ahead:
            yield known, future.result()
