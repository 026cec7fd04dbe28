"""Communication between the processes that share an evaluation; all of them run the same steps."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import distributed

from hiertree.arrays import StoredRows
from hiertree.errors import HiertreeError, OptionError, ShapeError
from hiertree.jit import Array

from ..ranking.gallery import Gallery
from .blocks import Layout
from .retrieval import Retrieval

_ROWS_COMPARED = 64
_OPERATIONS = {
    "sum": distributed.ReduceOp.SUM,
    "largest": distributed.ReduceOp.MAX,
    "smallest": distributed.ReduceOp.MIN,
}


class Share(NamedTuple):
    """One process: its rank and the number of processes."""

    rank: int
    number: int

    def part(self, number: int) -> slice:
        """The consecutive part of ``number`` things that belongs to this process."""
        return slice(number * self.rank // self.number, number * (self.rank + 1) // self.number)

    def agreed(self, layout: Layout) -> Layout:
        """The smallest layout of all processes: what each one chooses may depend on the free memory of its device."""
        height, rows = self.reduced(np.array([layout.height, layout.rows]), "smallest").tolist()
        return layout._replace(height=height, rows=rows)

    def reduced(self, values: Array, operation: Literal["sum", "largest", "smallest"] = "sum") -> Array:
        """The array, overwritten by the elementwise sum, largest or smallest over all processes."""
        words = torch.from_numpy(values.view(np.int64) if values.dtype == np.uint64 else values)
        words.copy_(self.reduce(words, operation))  # which may have gone over another device
        return values

    def reduce(self, values: torch.Tensor, operation: Literal["sum", "largest", "smallest"] = "sum") -> torch.Tensor:
        """:meth:`reduced` for tensors on any device; may overwrite the tensor."""
        tensor = values.to(_device_of_group())
        distributed.all_reduce(tensor, op=_OPERATIONS[operation])
        return tensor.to(values.device)

    def gathered(self, value: Any) -> list[Any]:
        """The objects of all processes, by rank."""
        values: list[Any] = [None] * self.number
        distributed.all_gather_object(values, value)
        return values

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """A block that succeeds in all processes or in none. It must not wait for other processes."""
        failure: Exception | None = None
        try:
            yield
        except (HiertreeError, OSError) as error:
            failure = error
        for failed in filter(None, self.gathered(failure)):
            raise failed


def share_of_group() -> Share:
    """The place of this process in the group."""
    if not (distributed.is_available() and distributed.is_initialized()):
        remedy = "call Fabric.launch or torch.distributed.init_process_group first, or leave distributed out"
        raise OptionError("distributed=True", expected="an initialized process group", remedy=remedy)
    return Share(distributed.get_rank(), distributed.get_world_size())


def check_alike(retrieval: Retrieval[tuple[Gallery, Any, Any]], share: Share) -> None:
    """Refuse processes that were given different labels, options or embeddings."""
    request, (gallery, *embeddings) = retrieval.request, retrieval.source
    tree, mask = gallery.tree, gallery.mask
    digest = zlib.crc32(f"{request.names} {request.ties} {request.rules} {mask.place}".encode())
    labels = tree.order, tree.low, tree.high, mask.start, mask.item
    for values in (*labels, *retrieval.relevances(), *embeddings):
        if isinstance(values, StoredRows):
            digest = zlib.crc32(values.identity.encode(), digest)
            continue
        step = 1 if values.dtype == np.int64 else max(len(values) // _ROWS_COMPARED, 1)
        digest = zlib.crc32(np.ascontiguousarray(values[::step]).data, zlib.crc32(str(values.shape).encode(), digest))
    low, high = share.reduced(np.array([digest, -digest]), "largest").tolist()
    if low + high != 0:
        expected = "all of them in every process, which takes its share of the work itself"
        remedy = "gather the embeddings first, for instance with Fabric.all_gather"
        raise ShapeError("processes with different embeddings, labels or options", expected=expected, remedy=remedy)


def _device_of_group() -> torch.device:
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
