"""Communication between the processes of a run; an error in one of them ends all with one message.

All processes take the same steps, each with its part of every batch; only the first writes files and messages. Code
that may fail in one process alone runs in an ``agreeing()`` block, which must not wait for other processes: at its end
all learn of the error, the first raises it and the others exit. An error elsewhere ends its process, and whoever
started the processes ends the others. Messages go over gloo, whatever backend carries the gradients, so that the
others can wait for as long as the first needs to measure and write: Fabric's own would go over NCCL and time out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, distributed, nn

from hiertree.errors import DeviceError, HiertreeError
from hiertree.losses import DistributedLoss, Loss

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Item = TypeVar("Item")
_TIMEOUT = timedelta(days=7)
_END: Any = object()


class Processes:
    """The processes of one run, seen from the one of ``rank``; that of rank 0 writes files and messages."""

    def __init__(self, fabric: Fabric | None = None) -> None:
        self.rank, self.size = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
        self.is_first = self.rank == 0
        self._group: distributed.ProcessGroup | None = None
        if self.size > 1:
            self._group = cast(distributed.ProcessGroup, distributed.new_group(backend="gloo", timeout=_TIMEOUT))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        if self.size == 1:
            return flag
        flags = torch.tensor([flag], dtype=torch.int32)
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._group)
        return bool(flags)

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """A block that succeeds in all processes or in none."""
        if self.size == 1:
            yield
            return
        failure: Exception | None = None
        try:
            yield
        except (HiertreeError, OSError) as error:
            failure = error
        if self.any(failure is not None):
            self.fail(next(filter(None, self.from_each(failure))))

    def fail(self, error: Exception) -> NoReturn:
        """Stop with an error known to all processes: the first raises it, the others exit with status 0."""
        if self.is_first:
            raise error
        raise SystemExit(0)

    def in_step(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, equally many in every process; if getting the next one fails in one process, all end."""
        iterator = iter(items)
        while True:
            with self.agreeing():
                item = next(iterator, _END)
            if item is _END:
                return
            yield item

    def from_first(self, make: Callable[[], Item]) -> Item:
        """Call ``make`` in the first process and return its result in all."""
        results: list[Any] = [None]
        with self.agreeing():
            results = [make() if self.is_first else None]
        if self.size > 1:
            distributed.broadcast_object_list(results, src=0, group=self._group)
        return cast(Item, results[0])

    def from_each(self, value: Item) -> list[Item]:
        """The values of all processes, by rank."""
        values: list[Any] = [value] * self.size
        if self.size > 1:
            distributed.all_gather_object(values, value, group=self._group)
        return values

    def from_first_tensor(self, tensor: Tensor) -> Tensor:
        """The first process's tensor, whose shape the others do not know."""
        shape, dtype = self.from_first(lambda: (tensor.shape, tensor.dtype))
        result = tensor if self.is_first else torch.empty(shape, dtype=dtype)
        self.copy_from_first([result])
        return result

    def concatenated(self, tensors: Iterable[Tensor]) -> Tensor:
        """Concatenate in the first process the tensors that each made of every ``size``-th item, from its rank on."""
        iterator = iter(tensors)
        collected: list[Tensor] = []
        while True:
            with self.agreeing():
                tensor = next(iterator, None)
            if not self.any(tensor is not None):
                return torch.cat(collected) if collected else torch.empty(0)
            collected += self.gathered(tensor)

    def gathered(self, tensor: Tensor | None) -> list[Tensor]:
        """Collect the tensors of all processes, by rank, in the first one; the others get an empty list."""
        by_rank: list[Tensor | None] = [tensor]
        if self.size > 1:
            by_rank = [None] * self.size
            distributed.gather_object(tensor, by_rank if self.is_first else None, dst=0, group=self._group)
        return [value for value in by_rank if value is not None]

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors, on any device, with those of the first process."""
        if self.size > 1:
            for tensor in tensors:
                sent = tensor.detach().cpu().contiguous()
                distributed.broadcast(sent, src=0, group=self._group)
                tensor.detach().copy_(sent)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Average gradients over the processes; all must have gradients of the same parameters."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.size == 1 or not gradients:
            return
        means = torch.cat([gradient.flatten() for gradient in gradients]) / self.size
        distributed.all_reduce(means)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, mean in zip(gradients, torch.split(means, sizes), strict=True):
            gradient.copy_(mean.view(gradient.shape))


ALONE = Processes()


def loss_of_whole_batch(loss: Loss, processes: Processes) -> Loss:
    """Make a loss cover the batches of all processes; each ranks its own queries if the loss is a mean over queries."""
    if processes.size == 1:
        return loss
    divisible = all(inner.is_mean_over_queries for inner in loss.modules() if isinstance(inner, Loss))
    return DistributedLoss(loss, queries="own" if divisible else "all")


def synchronized_batch_norm(network: nn.Module, device: torch.device) -> nn.Module:
    """Make BatchNorm normalize over the whole batch of several processes."""
    if device.type != "cuda":
        remedy = "set model.freeze_batch_norm=true, or training.devices=1"
        raise DeviceError("model.sync_batch_norm=true on a CPU", expected="GPUs", remedy=remedy)
    from timm.layers.norm_act import convert_sync_batchnorm

    convert: Callable[[nn.Module], nn.Module] = convert_sync_batchnorm  # also handles timm's fused norm-activation
    return convert(network)


def seed_torch(*seeds: int) -> None:
    """Seed torch's generators from several numbers."""
    torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))


def forked_rng(device: torch.device) -> AbstractContextManager[None]:
    """A block that restores the state of torch's generators."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextmanager
def randomness_by_rank(processes: Processes, device: torch.device, *seeds: int) -> Iterator[None]:
    """A block in which each of several processes draws from its own seed; afterwards all draw alike, as before."""
    if processes.size == 1:
        yield
        return
    with forked_rng(device):
        seed_torch(*seeds, processes.rank)
        yield


@contextmanager
def worker_errors() -> Iterator[None]:
    """A block in which torch, when a worker has ended too early, raises a DeviceError: in a step, or between two."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker (pid"):
            raise
        raise DeviceError(
            f"a process that decodes images has ended ({str(error).splitlines()[0].rstrip('. ')})",
            expected="all of them until the work is done",
            remedy="where memory is short, lower images.workers or the size of batches; the same command goes on",
        ) from error
