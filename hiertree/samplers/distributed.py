"""The batches of one sampler, shared among several processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from ..errors import OptionError
from ..options import check_choice, check_integer
from .epochs import BatchSampler, PlannedBatches, epoch_and_batch

Share = Literal["split", "deal", "replicate"]


class DistributedBatches(BatchSampler):
    """The share of one process in a sampler's batches. Every process plans the same epoch, without communication.

    * ``"split"``: every batch is cut into ``world_size`` pieces of whole class visits, one per process. Gathered
      embeddings (:func:`hiertree.losses.all_gather`) are the batch again, in its order.
    * ``"deal"``: whole batches are dealt out in turn. Batches at the end that are too few for all processes are
      dropped.
    * ``"replicate"``: every process takes every batch.

    All processes take the same number of batches and have equal states: a run can resume from the state of any.

    Args:
        sampler: a sampler of :mod:`hiertree.samplers`, made with equal arguments in every process.
        share: as above.
        rank: of this process, from 0. Default: that of ``torch.distributed``, or 0 if it is not initialized.
        world_size: number of processes. Default: that of ``torch.distributed``, or 1.

    Raises:
        OptionError: a rank outside, an unknown share, a batch that does not split evenly, or fewer batches than
            processes.

    >>> from hiertree.samplers import ClassBalancedSampler
    >>> labels = [0, 0, 1, 1, 2, 2, 3, 3]
    >>> def batches(rank):
    ...     sampler = ClassBalancedSampler(labels, batch_size=8, images_per_class=2)
    ...     return [len(batch) for batch in DistributedBatches(sampler, rank=rank, world_size=2)]
    >>> batches(0), batches(1)
    ([4], [4])
    """

    def __init__(
        self,
        sampler: PlannedBatches,
        *,
        share: Share = "split",
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        own_rank, own_size = _rank_and_size()
        self.rank = own_rank if rank is None else rank
        self.world_size = own_size if world_size is None else world_size
        self.planned, self.share = sampler, share
        self.sampler, self.batch_size, self.drop_last = sampler.sampler, sampler.batch_size, True
        check_choice("share", share, Share)
        check_integer("rank", self.rank, least=0)
        check_integer("world_size", self.world_size)
        if self.rank >= self.world_size:
            raise OptionError(f"rank={self.rank} of {self.world_size}", expected="a rank from 0 below world_size")
        if share == "split" and sampler.classes_per_batch % self.world_size:
            pieces = self.world_size * sampler.images_per_class
            raise OptionError(
                f"batches of {sampler.classes_per_batch} class visits for {self.world_size} processes",
                expected="as many for each",
                remedy=f"pass a batch_size that is a multiple of {pieces}",
            )
        if share == "deal" and len(sampler) < self.world_size:
            raise OptionError(
                f"{len(sampler)} batches for {self.world_size} processes",
                expected="at least one for each",
                remedy="pass a smaller batch_size or share='split'",
            )

        if share == "split":
            self.batch_size //= self.world_size

    def __len__(self) -> int:
        """Number of this process's batches in a whole epoch."""
        return len(self.planned) // self._stride

    def __iter__(self) -> Iterator[list[int]]:
        for number, batch in enumerate(self.planned.next_epoch(stop=self._stride * len(self))):
            if self.share == "split":
                size = len(batch) // self.world_size
                yield batch[self.rank * size : (self.rank + 1) * size]
            elif self.share == "replicate" or number % self.world_size == self.rank:
                yield batch

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of this epoch (from 0), from its first batch; without it, epochs count up."""
        self.planned.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """The epoch, and how many of its batches each process has taken."""
        state = self.planned.state_dict()
        return {**state, "batch": -(-state["batch"] // self._stride)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Make the next iteration go on where :meth:`state_dict` was taken, in this process or another.

        Raises:
            OptionError: a negative epoch, or more batches than an epoch has.
        """
        epoch, taken = epoch_and_batch(state, most=len(self))
        batch = len(self.planned) if taken == len(self) else taken * self._stride
        self.planned.load_state_dict({"epoch": epoch, "batch": batch})

    @property
    def _stride(self) -> int:
        """How many of the sampler's batches make one for every process."""
        return self.world_size if self.share == "deal" else 1


def _rank_and_size() -> tuple[int, int]:
    """Rank and number of processes, without importing torch if nothing else has."""
    import sys

    if "torch" not in sys.modules:
        return 0, 1
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
