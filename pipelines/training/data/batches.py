"""Keys of batches, which hold everything that a batch depends on, and the loader that turns them into tensors."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

from hiertree.errors import DeviceError
from hiertree.samplers import DistributedBatches
from hiertree.samplers.epochs import PlannedBatches

from ..distributed.processes import worker_errors

Batch = TypeVar("Batch")


class BatchKey(NamedTuple):
    """What a batch, or one process's rows of it, depends on besides the recipe."""

    epoch: int  # from 0
    batch: int  # of the epoch, from 0
    indices: list[int]  # of the images in the data set
    first: int = 0  # position of the first of these indices in the whole batch; above 0 in all processes but the first


class ImageBatch(NamedTuple):
    """Images by index."""

    indices: Tensor  # (B,) int64, in the data set
    images: Tensor  # (B, C, S, S) uint8


class EpochKeys:
    """The keys of one epoch's batches; a data loader iterates over them once per epoch."""

    def __init__(self, sampler: PlannedBatches | DistributedBatches, *, rank: int = 0) -> None:
        self.sampler, self.rank = sampler, rank
        self.epoch = self.first = 0

    def start(self, epoch: int, *, first: int = 0) -> None:
        """Go to an epoch and skip its first batches."""
        self.epoch, self.first = epoch, first
        self.sampler.load_state_dict({"epoch": epoch, "batch": first})

    def __iter__(self) -> Iterator[BatchKey]:
        for batch, indices in enumerate(self.sampler, start=self.first):
            yield BatchKey(self.epoch, batch, indices, first=self.rank * len(indices))

    def __len__(self) -> int:
        return len(self.sampler) - self.first


def keys_in_order(rows: Sequence[int], batch_size: int) -> list[BatchKey]:
    """Keys that go through some rows of a data set once, in order."""
    starts = range(0, len(rows), batch_size)
    return [BatchKey(0, start, list(rows[start : start + batch_size])) for start in starts]


def batch_loader(
    images: Dataset[Batch], keys: Iterable[BatchKey], *, workers: int = 0, pin_memory: bool = False
) -> DataLoader[Batch]:
    """Make a data loader that fetches whole batches by their keys."""
    return _Loader(
        images,
        batch_size=None,
        sampler=keys,
        num_workers=workers,
        pin_memory=pin_memory,
        persistent_workers=workers > 0,
        generator=torch.Generator(),  # unused: keeps the loader from drawing from torch's global generator
        worker_init_fn=_prepare_worker,
    )


def _prepare_worker(_worker: int) -> None:
    """Let a worker send through its pipe what /dev/shm has no room for, and end where it cannot send at all.

    Multiprocessing would leave out the batch, and the loader would wait for it without end.
    """
    ForkingPickler.register(Tensor, _reduce_tensor)
    Queue._on_queue_feeder_error = staticmethod(_end_worker)  # type: ignore[attr-defined]


def _end_worker(error: Exception, _batch: object) -> None:
    print(f"warning: a batch cannot be sent ({error})", file=sys.stderr, flush=True)
    os._exit(1)


def _reduce_tensor(tensor: Any) -> tuple[Any, ...]:
    """How a worker sends a tensor: in shared memory, or else by value."""
    reduce: Callable[[Tensor], tuple[Any, ...]] = reduce_tensor
    try:
        return reduce(tensor.share_memory_())
    except RuntimeError:
        return torch.from_numpy, (tensor.numpy(),)


class _Loader(DataLoader[Batch]):
    """A loader whose workers hear no Ctrl-C and no SIGTERM, and whose errors say that one was killed."""

    @override
    def __iter__(self) -> Any:
        with worker_errors():
            try:
                with _without_signals():
                    batches = super().__iter__()
            except OSError as error:  # no room for semaphores in a full /dev/shm, no more processes, no more files
                raise DeviceError(
                    f"images.workers={self.num_workers}: processes that decode images do not start ({error})",
                    expected="room for them, in /dev/shm too",
                    remedy="set images.workers=0, or raise the limit (of /dev/shm: docker run --shm-size=1g)",
                ) from error
            yield from batches


@contextmanager
def _without_signals() -> Iterator[None]:
    """A block whose new processes never hear what a terminal or a scheduler sends to the whole group.

    Their parent does, and needs them until it has saved its step.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


@atexit.register
def _end_workers() -> None:
    """At the exit multiprocessing would wait for workers that an error has left and that hear no SIGTERM."""
    if hasattr(signal, "SIGCHLD"):  # not on Windows
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # by which torch would report each of them as failed
    for child in active_children():
        if child.daemon:
            child.kill()
