"""Threads and processes that compute blocks of queries while another thread loads the next data.

Each thread takes one block through product, ranking and formulas and uses a single-threaded BLAS, so that no thread
waits or spins for another. If memory cannot hold a block per thread, threads share a block: first the columns of its
product, then its rows. Results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from hiertree.errors import HiertreeError, OptionError
from hiertree.jit import Array

BUDGET = 2**28  # bytes of scores held at once, and as many bytes of data derived from them
_ROWS_AT_ONCE = 64
_LARGEST_MAPPING = 31 << 20  # bytes: glibc does not count larger ones
Key = TypeVar("Key")
Value = TypeVar("Value")
Ranking: TypeAlias = Literal["whole lists", "tile by tile", "on a device"]


class Layout(NamedTuple):
    """How the work is divided."""

    ranking: Ranking  # what scores of a block exist at once, or where
    height: int  # queries multiplied at once, a power of two
    rows: int  # queries in a block, a multiple of the height


def num_threads() -> int:
    """The processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(
    work: Callable[[Key], object],
    keys: Iterable[Key],
    threads: int,
    *,
    start_thread: Callable[[], object] | None = None,
) -> None:
    """Call ``work`` on every key from so many threads, one of them the caller's; after an error none begins another."""
    _keep_freed_memory()
    waiting = deque(keys)

    def work_off() -> None:
        while waiting:
            try:
                key = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                work(key)
            except BaseException:
                waiting.clear()
                raise

    if threads <= 1:
        work_off()
        return
    with ThreadPoolExecutor(threads - 1, initializer=start_thread or _limit_thread) as pool:
        helpers = [pool.submit(work_off) for _ in range(threads - 1)]
        work_off()
        for helper in helpers:
            helper.result()


def row_ranges(num_rows: int, *, row_bytes: int, threads: int | None = None) -> tuple[list[slice], int]:
    """Consecutive ranges of rows for :func:`for_each`, and how many threads memory allows, at most ``threads``."""
    everyone = num_threads()
    threads = max(min(threads or everyone, max(BUDGET // row_bytes, 1), num_rows), 1)
    rows = min(_ROWS_AT_ONCE, BUDGET // (row_bytes * everyone), -(-num_rows // threads))
    return ranges(num_rows, max(rows, 1)), threads


@contextmanager
def block_pool(num_blocks: int, *, block_bytes: int) -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """A pool that runs as many blocks at once as memory allows, and the number of threads for each block."""
    everyone = num_threads()
    blocks = max(min(everyone, BUDGET // max(block_bytes, 1), num_blocks), 1)
    pool = ThreadPoolExecutor(blocks, initializer=_limit_thread)
    try:
        yield pool, -(-everyone // blocks)
    finally:
        pool.shutdown(cancel_futures=True)


def ranges(end: int, size: int, *, start: int = 0) -> list[slice]:
    """Split ``start`` … ``end`` into ranges of one size; the last one may be smaller."""
    return [slice(first, min(first + size, end)) for first in range(start, end, size)]


class Memory:
    """Score arrays that one block after another reuses, because new memory pages cost time."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self._size, self._dtype = size, dtype
        self._free: list[Array] = []

    @contextmanager
    def lent(self, num_rows: int, num_columns: int) -> Iterator[Array]:
        """A matrix in a free array."""
        try:
            array = self._free.pop()
        except IndexError:
            array = np.empty(self._size, self._dtype)
        try:
            yield array[: num_rows * num_columns].reshape(num_rows, num_columns)
        finally:
            self._free.append(array)


class _SingleThreadedBlas:
    """Single-threaded BLAS while any evaluation runs; the user's setting is restored afterwards."""

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
    """Set the limit in a new thread, since some BLAS libraries keep one per calling thread."""
    if single_threaded_blas.users:
        _blas().limit(limits=1)


def _release_blas(*, force: bool) -> None:
    """Let any thread change the limit; threadpoolctl ≥ 3.7 reserves this for the thread that set it."""
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=force)


@cache
def _blas() -> Any:
    """The BLAS libraries of the process, looked up once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def loaded(load: Callable[[Key], Value], keys: Iterable[Key]) -> Iterator[tuple[Key, Value]]:
    """Yield each key with its loaded value, and load the next value in the background."""
    with ThreadPoolExecutor(1) as pool:
        pending: list[tuple[Key, Future[Value]]] = []
        for key in keys:
            ready = [(done_key, future.result()) for done_key, future in pending]
            pending = [(key, pool.submit(load, key))]
            yield from ready
        for done_key, future in pending:
            yield done_key, future.result()


@cache
def _keep_freed_memory() -> None:
    """Free as much as glibc then keeps for the next block; it returns more than twice the largest mapping ever freed.

    Else each block would have its memory mapped and cleared anew, in up to a third of the time.
    """
    np.empty(_LARGEST_MAPPING, np.uint8)


class ProcessGroup(NamedTuple):
    """The processes that divide the queries, seen from the one of ``rank``; all take the same steps."""

    rank: int
    size: int

    def agree(self, layout: Layout) -> Layout:
        """The smallest layout of all processes: what each one chooses may depend on the free memory of its device."""
        height, rows = self.reduce(np.array([layout.height, layout.rows]), "min").tolist()
        return layout._replace(height=height, rows=rows)

    def reduce(self, values: Array, operation: Literal["sum", "min", "max"] = "sum") -> Array:
        """The elementwise sum, minimum or maximum of an array over all processes."""
        import torch
        from torch import distributed

        tensor = torch.from_numpy(values).to("cuda" if distributed.get_backend() == "nccl" else "cpu")
        distributed.all_reduce(tensor, op=getattr(distributed.ReduceOp, operation.upper()))
        return tensor.cpu().numpy()

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """A block that succeeds in all processes or in none. It must not wait for other processes."""
        from torch import distributed

        failures: list[Exception | None] = [None] * self.size
        failure: Exception | None = None
        try:
            yield
        except (HiertreeError, OSError) as error:
            failure = error
        distributed.all_gather_object(failures, failure)
        for failed in filter(None, failures):
            raise failed


def current_group() -> ProcessGroup:
    """The group that this process belongs to."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        remedy = "call Fabric.launch or torch.distributed.init_process_group first, or leave distributed out"
        raise OptionError("distributed=True", expected="an initialized process group", remedy=remedy)
    return ProcessGroup(distributed.get_rank(), distributed.get_world_size())
