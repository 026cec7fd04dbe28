"""Blocks of work shared out over threads, each of which computes alone.

torch's own threads go on spinning for about 10 ms after every operation that they took part in, and take the processor
from others meanwhile. Before blocks are shared out these threads are therefore ended, and while they are torch starts
none: a block's products, too, are its thread's.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import torch

ForEach: TypeAlias = Callable[[Callable[[slice], Any], Iterable[slice]], None]
"""Calls a function on every range of rows; returns when all have been worked on."""


@contextmanager
def sharing(threads: int) -> Iterator[ForEach]:
    """A ``for_each(work, ranges)`` that uses so many threads, the caller's among them; one leaves torch its own."""
    if threads == 1:
        yield _work_off
        return
    of_caller = torch.get_num_threads()
    torch.set_num_threads(1)
    _end_torchs_threads()
    try:
        with ThreadPoolExecutor(threads - 1, initializer=torch.set_num_threads, initargs=(1,)) as pool:

            def for_each(work: Callable[[slice], Any], ranges: Iterable[slice]) -> None:
                waiting = deque(ranges)
                others = [pool.submit(_work_off, work, waiting) for _ in range(min(threads, len(waiting)) - 1)]
                _work_off(work, waiting)
                for other in others:
                    other.result()

            yield for_each
    finally:
        torch.set_num_threads(of_caller)  # each thread has its own number, which new ones take from the last one set


def ranges(first: int, end: int, size: int) -> Iterator[slice]:
    """From ``first`` to ``end`` in parts of one size, the last one smaller."""
    for start in range(first, end, size):
        yield slice(start, min(start + size, end))


def _end_torchs_threads() -> None:
    """End the threads that OpenMP keeps for this one; it starts new ones when torch next asks for them (0.1 ms)."""
    if (pause := _openmp_pause()) is not None:
        pause(1)  # omp_pause_soft


@cache
def _openmp_pause() -> Callable[[int], int] | None:
    """``omp_pause_resource_all`` of the OpenMP library that torch loaded, where it can be found."""
    return getattr(ctypes.CDLL(None), "omp_pause_resource_all", None) if sys.platform == "linux" else None


def _work_off(work: Callable[[slice], Any], given: Iterable[slice]) -> None:
    """Take ranges until none is left; a deque may serve several threads."""
    waiting = given if isinstance(given, deque) else deque(given)
    while True:
        try:
            rows = waiting.popleft()
        except IndexError:
            return
        work(rows)
