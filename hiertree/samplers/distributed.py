"""One plan of batches for several processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Literal, get_args

from ..errors import OptionError
from .epochs import PlannedBatches

Share = Literal["split", "deal", "replicate"]


class DistributedBatches:
    """What one of several processes takes of a sampler's batches; all make the same plan, so none asks another.

    * ``"split"``: every batch is cut into ``world_size`` pieces of whole class visits, one a process. Gathered
      embeddings (:func:`hiertree.losses.all_gather`) are the batch again, in its order.
    * ``"deal"``: whole batches are dealt out in turn; those left when not all processes would get one are dropped.
    * ``"replicate"``: every process takes every batch.

    The processes take the same number of batches, and their states are equal: a run can resume with any of them.

    Args:
        sampler: one of this module's, made with equal arguments in every process.
        share: as above.
        rank: of this process, from 0; default: as ``torch.distributed`` says, or 0 where it is not in use.
        world_size: number of processes; default: likewise, or 1.

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
        own_rank, own_size = _position()
        self.rank = own_rank if rank is None else rank
        self.world_size = own_size if world_size is None else world_size
        self.sampler, self.share = sampler, share
        if share not in get_args(Share):
            raise OptionError(f"share={share!r}", expected="'split', 'deal' or 'replicate'")
        if not 0 <= self.rank < self.world_size:
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

    def __len__(self) -> int:
        """Batches of this process in a whole epoch."""
        return len(self.sampler) // self._stride

    def __iter__(self) -> Iterator[list[int]]:
        for number, batch in enumerate(islice(self.sampler, self._stride * len(self) - self.sampler.start)):
            if self.share == "split":
                size = len(batch) // self.world_size
                yield batch[self.rank * size : (self.rank + 1) * size]
            elif self.share == "replicate" or number % self.world_size == self.rank:
                yield batch

    def set_epoch(self, epoch: int) -> None:
        """Iterate from the first batch of this epoch (from 0)."""
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, int]:
        """The epoch and the number of batches that each process has taken."""
        state = self.sampler.state_dict()
        return {**state, "batch": -(-state["batch"] // self._stride)}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Iterate from where :meth:`state_dict` was taken, in this process or another.

        Raises:
            OptionError: a negative epoch, or more batches than an epoch has.
        """
        if not 0 <= state["batch"] <= len(self):
            raise OptionError(f"state {dict(state)}", expected=f"a batch from 0 to {len(self)}")
        self.sampler.load_state_dict({**state, "batch": state["batch"] * self._stride})

    @property
    def _stride(self) -> int:
        """Batches of the plan for one of each process."""
        return self.world_size if self.share == "deal" else 1


def _position() -> tuple[int, int]:
    """Rank and number of processes, without importing torch where nobody has."""
    import sys

    if "torch" not in sys.modules:
        return 0, 1
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
