"""Communication between the processes that share the queries of an evaluation; all of them run the same steps."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import distributed

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


class ProcessGroup(NamedTuple):
    """The processes that share an evaluation, seen from the one of ``rank``."""

    rank: int
    size: int

    def agree(self, layout: Layout) -> Layout:
        """The smallest layout of all processes: what each one chooses may depend on the free memory of its device."""
        height, rows = self.reduce(np.array([layout.height, layout.rows]), "smallest").tolist()
        return layout._replace(height=height, rows=rows)

    def reduce(self, values: Array, operation: Literal["sum", "largest", "smallest"] = "sum") -> Array:
        """The elementwise sum, largest or smallest of an array over all processes."""
        tensor = torch.from_numpy(values).to("cuda" if distributed.get_backend() == "nccl" else "cpu")
        distributed.all_reduce(tensor, op=_OPERATIONS[operation])
        return tensor.cpu().numpy()

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """A block that succeeds in all processes or in none. It must not wait for other processes."""
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
    if not (distributed.is_available() and distributed.is_initialized()):
        remedy = "call Fabric.launch or torch.distributed.init_process_group first, or leave distributed out"
        raise OptionError("distributed=True", expected="an initialized process group", remedy=remedy)
    return ProcessGroup(distributed.get_rank(), distributed.get_world_size())


def check_alike(retrieval: Retrieval[tuple[Gallery, Array, Array]], group: ProcessGroup) -> None:
    """Refuse processes that were given different labels, options or embeddings."""
    request, (gallery, *embeddings) = retrieval.request, retrieval.source
    tree, mask = gallery.tree, gallery.mask
    digest = zlib.crc32(f"{request.names} {request.ties} {request.rules} {mask.dropped}".encode())
    labels = tree.order, tree.low, tree.high, mask.start, mask.item
    for values in (*labels, *retrieval.relevances(), *embeddings):
        step = 1 if values.dtype == np.int64 else max(len(values) // _ROWS_COMPARED, 1)
        digest = zlib.crc32(np.ascontiguousarray(values[::step]).data, zlib.crc32(str(values.shape).encode(), digest))
    low, high = group.reduce(np.array([digest, -digest]), "largest").tolist()
    if low + high != 0:
        expected = "all of them in every process, which takes a part of the queries itself"
        remedy = "gather the embeddings first, for instance with Fabric.all_gather"
        raise ShapeError("processes with different embeddings, labels or options", expected=expected, remedy=remedy)
