"""One evaluation shared out over processes: each computes some blocks, and all values are summed, others being 0."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
import torch
from torch import distributed

from hiertree.errors import OptionError, ShapeError
from hiertree.jit import Floats

from .blocks import Layout
from .retrieval import Retrieval
from .similarity import Similarity

_ROWS_COMPARED = 64


class Share(NamedTuple):
    """The part of one process: every ``number``-th block from ``rank`` on."""

    rank: int
    number: int

    def agreed(self, layout: Layout) -> Layout:
        """The smallest layout of all processes: what each one chooses may depend on the free memory of its device."""
        sizes = torch.tensor([layout.height, layout.rows], device=_device_of_group())
        distributed.all_reduce(sizes, op=distributed.ReduceOp.MIN)
        height, rows = sizes.tolist()
        return layout._replace(height=height, rows=rows)

    def gathered(self, values: Floats) -> Floats:
        """The values of all processes."""
        whole = torch.from_numpy(values).to(_device_of_group())
        distributed.all_reduce(whole)
        found: Floats = whole.cpu().numpy()
        return found


def share_of_group(retrieval: Retrieval[Similarity]) -> Share:
    """The part of this process, once all are known to have the same labels, options and embeddings."""
    if not (distributed.is_available() and distributed.is_initialized()):
        remedy = "call Fabric.launch or torch.distributed.init_process_group first, or leave distributed out"
        raise OptionError("distributed=True", expected="an initialized process group", remedy=remedy)
    _check_alike(retrieval)
    return Share(distributed.get_rank(), distributed.get_world_size())


def _check_alike(retrieval: Retrieval[Similarity]) -> None:
    request, tree, mask = retrieval.request, retrieval.source.gallery.tree, retrieval.source.gallery.mask
    digest = zlib.crc32(f"{request.names} {request.ties} {request.rules} {mask.place}".encode())
    labels = tree.order, tree.low, tree.high, mask.start, mask.item
    for values in (*labels, *retrieval.relevances(), *retrieval.source.embeddings):
        rows = values if values.dtype == np.int64 else values[:: max(len(values) // _ROWS_COMPARED, 1)]
        digest = zlib.crc32(np.ascontiguousarray(rows).data, zlib.crc32(str(values.shape).encode(), digest))
    bounds = torch.tensor([digest, -digest], device=_device_of_group())
    distributed.all_reduce(bounds, op=distributed.ReduceOp.MAX)
    if int(bounds.sum()) != 0:
        expected = "all of them in every process, which takes its share of the queries itself"
        remedy = "gather the embeddings first, for instance with Fabric.all_gather"
        raise ShapeError("processes with different embeddings, labels or options", expected=expected, remedy=remedy)


def _device_of_group() -> torch.device:
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")
