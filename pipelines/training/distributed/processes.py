"""The processes of one run: what they agree on, and how an error of one ends all of them with one message.

All take the same steps, each with its part of every batch; only the first writes and speaks. What may go wrong in one
of them alone stands in an ``agreeing()`` block: at its end the error of one becomes an error of all, the first raises
it, and the others end quietly. Nothing inside may wait for the others. An error between two processes' exchanges (a
full GPU, say) cannot be agreed on: that process ends with it, and whoever started the processes ends the rest.

They talk over gloo beside whatever carries the gradients, so that a wait for the first, who measures and writes, may
last as long as it must. A process alone talks to nobody, and none of this costs it anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import torch
from torch import Tensor, distributed

from hiertree.errors import HiertreeError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Item = TypeVar("Item")
_PATIENCE = timedelta(days=7)
_END: Any = object()


class Processes:
    """The processes of one run, this one among them.

    Args:
        fabric: of a run that has been launched; None stands for a process alone.

    Attributes:
        rank: of this process, from 0.
        size: how many there are.
        is_first: whether this is the one that writes and speaks.

    >>> alone = Processes()
    >>> alone.rank, alone.size, alone.any(True), alone.first_makes(lambda: 3)
    (0, 1, True, 3)
    """

    def __init__(self, fabric: Fabric | None = None) -> None:
        self.rank, self.size = (0, 1) if fabric is None else (fabric.global_rank, fabric.world_size)
        self.is_first = self.rank == 0
        self._talk: distributed.ProcessGroup | None = None
        if self.size > 1:
            self._talk = cast(distributed.ProcessGroup, distributed.new_group(backend="gloo", timeout=_PATIENCE))

    def any(self, flag: bool) -> bool:
        """Whether the flag of any process is set."""
        if self.size == 1:
            return flag
        flags = torch.tensor([flag], dtype=torch.int32)
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._talk)
        return bool(flags)

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """A block that ends well in all processes or in none.

        Raises:
            HiertreeError, OSError: in the first process, what any of them met.
            SystemExit: then in the others, with status 0, as the first one's counts.
        """
        if self.size == 1:
            yield
            return
        own: Exception | None = None
        try:
            yield
        except (HiertreeError, OSError) as error:
            own = error
        if self.any(own is not None):
            met: list[Exception | None] = [None] * self.size
            distributed.all_gather_object(met, own, group=self._talk)
            self.fail(next(error for error in met if error is not None))

    def fail(self, error: Exception) -> NoReturn:
        """End with an error that all processes have: the first raises it, the others end quietly."""
        if self.is_first:
            raise error
        raise SystemExit(0)

    def together(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items, as many in every process; if one cannot have its next one, none goes on."""
        iterator = iter(items)
        while True:
            with self.agreeing():
                item = next(iterator, _END)
            if item is _END:
                return
            yield item

    def first_makes(self, make: Callable[[], Item]) -> Item:
        """What the first process makes, given to all; the others wait for it."""
        made: list[Any] = [None]
        with self.agreeing():
            made = [make() if self.is_first else None]
        if self.size > 1:
            distributed.broadcast_object_list(made, src=0, group=self._talk)
        found: Item = made[0]
        return found

    def dealt(self, items: Sequence[Item]) -> Sequence[Item]:
        """Every ``size``-th of the items, from the one with the number of this process on."""
        return items[self.rank :: self.size]

    def joined(self, own: Iterable[Tensor]) -> Tensor:
        """What the processes made of the items that were dealt out, in their order, at the first; the others get none.

        Args:
            own: (n, …) tensors on the CPU, made as they are asked for; each n ≥ 1.
        """
        if self.size == 1:
            return torch.cat(list(own))
        iterator = iter(own)
        parts: list[Tensor] = []
        while True:
            with self.agreeing():
                part = next(iterator, None)
            if not self.any(part is not None):
                return torch.cat(parts) if parts else torch.empty(0)
            parts += self.gathered(part)

    def gathered(self, own: Tensor | None) -> list[Tensor]:
        """What every process has, by rank, at the first; nothing at the others."""
        if self.size == 1:
            return [] if own is None else [own]
        parts: list[Tensor | None] | None = [None] * self.size if self.is_first else None
        distributed.gather_object(own, parts, dst=0, group=self._talk)
        return [part for part in parts or [] if part is not None]

    def take_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors, on whatever device, with those of the first process."""
        if self.size > 1:
            for tensor in tensors:
                sent = tensor.detach().cpu().contiguous()
                distributed.broadcast(sent, src=0, group=self._talk)
                tensor.detach().copy_(sent)

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace gradients by their mean over the processes, which must have the same ones."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self.size == 1 or not gradients:
            return
        means = torch.cat([gradient.flatten() for gradient in gradients]) / self.size
        distributed.all_reduce(means)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, mean in zip(gradients, torch.split(means, sizes), strict=True):
            gradient.copy_(mean.view(gradient.shape))
