"""Blocks of queries shared out over threads, and what comes next loaded meanwhile.

Each thread takes a block of its own through product, ranking and formulas, with a BLAS of one thread, so that none
waits or spins for another. Where memory holds the scores of fewer blocks, threads share one: first the columns of its
product, then its rows. No result depends on the sharing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from hiertree.jit import Array

BUDGET = 2**28  # bytes of scores, and again of what is made of them, that are held at once
_ROWS_AT_ONCE = 64
Key = TypeVar("Key")
Value = TypeVar("Value")
Way: TypeAlias = Literal["in memory", "tiled", "on a device"]


class Layout(NamedTuple):
    """How the work is cut."""

    way: Way  # where the scores of a block are held
    height: int  # queries multiplied at once, a power of two
    rows: int  # queries in a block, a multiple of the height


def num_threads() -> int:
    """The processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(work: Callable[[Key], object], keys: Iterable[Key], threads: int) -> None:
    """Call ``work`` on every key, from several threads; one is the caller's own."""
    if threads <= 1:
        for key in keys:
            work(key)
        return
    with ThreadPoolExecutor(threads, initializer=_limit_thread) as pool:
        for _ in pool.map(work, keys):
            pass


def row_ranges(num_rows: int, *, row_bytes: int, threads: int | None = None) -> tuple[list[slice], int]:
    """Consecutive ranges of rows for :func:`for_each`, and how many threads memory allows, of all unless given."""
    everyone = num_threads()
    threads = max(min(threads or everyone, max(BUDGET // row_bytes, 1), num_rows), 1)
    rows = min(_ROWS_AT_ONCE, BUDGET // (row_bytes * everyone), -(-num_rows // threads))
    return ranges(num_rows, max(rows, 1)), threads


@contextmanager
def block_pool(number: int, *, block_bytes: int) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """A pool for as many of the blocks at once as memory allows, and how many threads each has to itself."""
    everyone = num_threads()
    blocks = max(min(everyone, BUDGET // max(block_bytes, 1), number), 1)
    pool = ThreadPoolExecutor(blocks, initializer=_limit_thread)
    try:
        yield pool, -(-everyone // blocks)
    finally:
        pool.shutdown(cancel_futures=True)


def ranges(number: int, size: int) -> list[slice]:
    """0 … number in parts of one size, the last one smaller."""
    return [slice(start, min(start + size, number)) for start in range(0, number, size)]


class Memory:
    """Arrays of one size and type for the scores of blocks, kept for the next block, as new pages cost time."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self._size, self._dtype = size, dtype
        self._free: list[Array] = []

    @contextmanager
    def lent(self, num_rows: int, num_columns: int) -> Iterator[Array]:
        """A matrix in one of them."""
        try:
            array = self._free.pop()
        except IndexError:
            array = np.empty(self._size, self._dtype)
        try:
            yield array[: num_rows * num_columns].reshape(num_rows, num_columns)
        finally:
            self._free.append(array)


class _SingleThreadedBlas:
    """Products by one thread as long as any evaluation needs it; then the user's own settings again."""

    def __init__(self) -> None:
        self._lock, self.users = threading.Lock(), 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self.users == 0:
                self._limit, self._owner = _blas().limit(limits=1), threading.current_thread()
            self.users += 1
        try:
            yield
        finally:
            with self._lock:
                self.users -= 1
                if self.users == 0:
                    _release_blas(force=threading.current_thread() is not self._owner)
                    self._limit.restore_original_limits()
                    _release_blas(force=False)


single_threaded_blas = _SingleThreadedBlas()


def _limit_thread() -> None:
    """For a new thread, where BLAS has a number of threads for each thread that calls it."""
    if single_threaded_blas.users:
        _blas().limit(limits=1)


def _release_blas(*, force: bool) -> None:
    """Let any thread set the number of threads, where threadpoolctl (from 3.7) leaves it to the one that began."""
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=force)


@cache
def _blas() -> Any:
    """The BLAS libraries of the process; looked for once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def loaded(load: Callable[[Key], Value], keys: Iterable[Key]) -> Iterator[tuple[Key, Value]]:
    """What is loaded for each key, the next one meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        ahead: list[tuple[Key, Future[Value]]] = []
        for key in keys:
            ready = [(known, future.result()) for known, future in ahead]
            ahead = [(key, pool.submit(load, key))]
            yield from ready
        for known, future in ahead:
            yield known, future.result()
