"""One batch over several processes: embeddings gathered with their gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from ..pairs.inputs import float_vectors, path_tensor


def all_gather(embeddings: Tensor, paths: Any) -> tuple[Tensor, Tensor]:
    """The embeddings and paths of all processes, in the order of their ranks; differentiable.

    The contract: every process calls this, computes *the same* loss of everything that was gathered, and
    backpropagates; gradients of parameters are then **averaged** over the processes, as DistributedDataParallel and
    Fabric do. The result is the gradient of one process on the concatenated batch, for the network (each process sends
    back the sum, over all processes, of the gradients of its embeddings) and for the loss's own parameters (whose
    gradients are the same everywhere). Batches may differ in size. If the loss draws at random, give
    torch's generators the same seed in all processes.

    :class:`hiertree.losses.DistributedLoss` keeps the contract for a loss, and divides its queries among the processes.
    Without a process group, or in a group of one, the arguments come back.

    Args:
        embeddings: (B, d), of this process.
        paths: (B, L) or (B,).

    Returns:
        (ΣB, d) embeddings with a graph, and (ΣB, L) int64 paths.

    >>> embeddings, paths = all_gather(torch.eye(2), torch.tensor([0, 1]))
    >>> embeddings.shape, paths.shape
    (torch.Size([2, 2]), torch.Size([2, 1]))
    """
    vectors = float_vectors(embeddings, name="embeddings")
    own_paths = path_tensor(paths, vectors)
    if num_processes() == 1:
        return vectors, own_paths
    gathered: Tensor = _AllGather.apply(vectors)
    return gathered, gather(own_paths)


def num_processes() -> int:
    """Processes that share a batch; 1 without a process group."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def first_row(rows: Tensor) -> int:
    """Where this process's rows begin among all that are gathered."""
    return sum(_sizes(rows)[: distributed.get_rank()]) if num_processes() > 1 else 0


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        sizes = _sizes(vectors)
        ctx.first, ctx.size = sum(sizes[: distributed.get_rank()]), len(vectors)
        return gather(vectors, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        total = upstream.contiguous().clone()
        distributed.all_reduce(total)
        return total[ctx.first : ctx.first + ctx.size]


def gather(rows: Tensor, sizes: list[int] | None = None) -> Tensor:
    """Rows of all processes; collective operations need one shape, so short parts are padded meanwhile."""
    sizes = _sizes(rows) if sizes is None else sizes
    padded = rows.new_zeros((max(sizes), *rows.shape[1:]))
    padded[: len(rows)] = rows.detach()
    parts = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(parts, padded)
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


def _sizes(rows: Tensor) -> list[int]:
    """How many rows every process has."""
    own = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.empty_like(own) for _ in range(distributed.get_world_size())]
    distributed.all_gather(sizes, own)
    return [int(size) for size in sizes]
