"""Batches beyond one: a memory of earlier ones, those of several processes, and chunks that are embedded twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from hiertree.errors import OptionError, ShapeError
from hiertree.options import check_choice, check_integer

from .base import Loss, check_loss
from .pairs.blocks import LossPerQuery
from .pairs.inputs import (
    CheckedEmbeddings,
    CheckedPaths,
    checked_paths,
    finite_vectors,
    float_vectors,
    full_mask,
    has_candidate,
)

Enqueue: TypeAlias = Literal["before", "after"]


class CrossBatchMemory(Loss):
    """Any loss, its candidates being a first-in-first-out memory of embeddings.

    While training, each batch enters the memory without its graph. ``enqueue="after"``: the candidates are the batch
    itself, whose gradient flows, and the memory of the batches before; then the batch enters. ``enqueue="before"``: the
    batch enters first and the memory alone is ranked, so that gradients flow to queries only. A query's own copy is
    its candidate only if the loss has ``include_self``. The memory is in ``state_dict()``: a resumed run continues with
    it. In evaluation mode nothing enters.

    The code of Ramzi et al. (TPAMI 2025) is ``enqueue="before", from_epoch=4, batch_loss=True``.

    Source: Wang et al., *Cross-Batch Memory for Embedding Learning* (CVPR 2020).

    Args:
        loss: gets ``(embeddings, paths, ref_embeddings, ref_paths, valid=…)``.
        embedding_size: d.
        num_levels: L.
        size: embeddings remembered; the oldest leave.
        enqueue: "after" or "before", as above.
        warm_up: training batches that neither see nor fill the memory: embeddings drift too fast at first.
        from_epoch: the first epoch, as :meth:`start_epoch` counts them from 0, whose batches see the memory; earlier
            ones fill it.
        batch_loss: the mean of the loss with the memory and of the batch's own.

    >>> from hiertree.losses import SupAP
    >>> loss = CrossBatchMemory(SupAP(), embedding_size=3, num_levels=1, size=8)
    >>> first = loss(torch.eye(3), torch.tensor([0, 1, 2]))  # no positives yet
    >>> first.item(), loss.num_remembered, loss(torch.eye(3)[:1], torch.tensor([0])).item()
    (0.0, 3, 0.0)
    """

    is_mean_over_queries = False  # every query enters the memory that others are compared with
    _shown = ("size", "enqueue", "warm_up", "from_epoch", "batch_loss")

    embeddings: Tensor
    """(size, d) float32; rows from ``num_remembered`` on are empty."""
    paths: Tensor
    """(size, L) int64."""
    num_enqueued: Tensor
    """How many embeddings ever entered."""
    num_batches: Tensor
    """How many batches were trained on."""

    def __init__(
        self,
        loss: Loss,
        embedding_size: int,
        num_levels: int,
        *,
        size: int = 8192,
        enqueue: Enqueue = "after",
        warm_up: int = 0,
        from_epoch: int = 0,
        batch_loss: bool = False,
    ) -> None:
        super().__init__()
        check_loss(loss)
        check_integer("embedding_size", embedding_size)
        check_integer("num_levels", num_levels)
        check_integer("size", size)
        check_choice("enqueue", enqueue, Enqueue)
        check_integer("warm_up", warm_up, least=0)
        check_integer("from_epoch", from_epoch, least=0)
        self.loss, self.size, self.enqueue, self.warm_up = loss, size, enqueue, warm_up
        self.from_epoch, self.batch_loss = from_epoch, batch_loss
        self.weights, self.include_self = loss.weights, any(inner.include_self for inner in loss.with_parts())
        self.register_buffer("embeddings", torch.zeros(size, embedding_size))
        self.register_buffer("paths", torch.zeros(size, num_levels, dtype=torch.int64))
        self.register_buffer("num_enqueued", torch.zeros((), dtype=torch.int64))
        self.register_buffer("num_batches", torch.zeros((), dtype=torch.int64))
        self._enqueued, self._batches = 0, 0  # the same counts; reading those on a device would wait for it
        cast(Any, self).register_load_state_dict_post_hook(_read_counts)

    @property
    def num_remembered(self) -> int:
        """Embeddings in the memory."""
        return min(self._enqueued, self.size)

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive among their candidates."""
        return self.loss.last_num_skipped

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The terms of the loss; no references, and ``valid`` broadcasts to (B, B).

        A query without a valid candidate ((B, 1) says which are queries) does not see the memory either.
        """
        if ref_embeddings is not None or ref_paths is not None:
            raise ShapeError("reference embeddings with a memory", expected="none", remedy="call the loss itself")
        batch_embeddings, batch_paths, *_ = self._checked_batch(embeddings, paths, None, None)
        batch_paths = checked_paths(batch_paths, batch_embeddings.tensor)
        self._check(finite_vectors(batch_embeddings), batch_paths.tensor)
        warming_up = self.training and self._batches < self.warm_up
        enters_first = self.training and self.enqueue == "before"
        early = self.training and self._epoch < self.from_epoch
        if warming_up or early or (self.num_remembered == 0 and not enters_first):
            terms = self.loss.terms(batch_embeddings, batch_paths, valid=valid)
        else:
            terms = self._terms_with_memory(batch_embeddings, batch_paths, valid)
            if self.batch_loss:
                batch_terms = self.loss.terms(batch_embeddings, batch_paths, valid=valid)
                terms = {name: (value + batch_terms[name]) / 2 for name, value in terms.items()}
        if self.training:
            self.num_batches += 1
            self._batches += 1
            if (self.enqueue == "after" or early) and not warming_up:
                self._enqueue(batch_embeddings.tensor, batch_paths.tensor)
        return terms

    def _terms_with_memory(
        self, batch_embeddings: CheckedEmbeddings, batch_paths: CheckedPaths, valid: Any
    ) -> dict[str, Tensor]:
        vectors = batch_embeddings.tensor
        batch_mask = full_mask(valid, (len(vectors), len(vectors)), vectors.device)
        sees_memory = has_candidate(valid, batch_embeddings, None, include_self=self.include_self)
        if not self.include_self:
            batch_mask.fill_diagonal_(False)
        if self.enqueue == "after":
            memory, memory_paths = self._remembered()
            mask = torch.cat([batch_mask, sees_memory[:, None].expand(-1, len(memory))], dim=1)
            candidates = torch.cat([vectors, memory]), CheckedPaths(torch.cat([batch_paths.tensor, memory_paths]))
            return self.loss.terms(batch_embeddings, batch_paths, *candidates, valid=mask)
        rows = self._enqueue(vectors, batch_paths.tensor) if self.training else None
        memory, memory_paths = self._remembered()
        mask = sees_memory[:, None].repeat(1, len(memory))
        if rows is not None:
            mask[:, rows] = batch_mask
        return self.loss.terms(batch_embeddings, batch_paths, memory, CheckedPaths(memory_paths), valid=mask)

    def _remembered(self) -> tuple[Tensor, Tensor]:
        num = self.num_remembered
        return self.embeddings[:num].clone(), self.paths[:num].clone()

    @torch.no_grad()
    def _enqueue(self, vectors: Tensor, paths: Tensor) -> Tensor:
        """Let the batch in; returns the rows it has now."""
        rows = (self._enqueued + torch.arange(len(vectors), device=self.embeddings.device)) % self.size
        self.embeddings[rows] = vectors.detach().to(self.embeddings)
        self.paths[rows] = paths.to(self.paths.device)
        self.num_enqueued += len(vectors)
        self._enqueued += len(vectors)
        return rows

    def _check(self, vectors: Tensor, paths: Tensor) -> None:
        problem = f"a batch of {len(vectors)} embeddings of {vectors.shape[1]} dimensions, {paths.shape[1]} levels"
        size, dimensions, num_levels = len(self.embeddings), self.embeddings.shape[1], self.paths.shape[1]
        if len(vectors) > size or vectors.shape[1] != dimensions or paths.shape[1] != num_levels:
            expected = f"at most {size} of {dimensions} dimensions, {num_levels} levels: the memory's"
            raise ShapeError(problem, expected=expected)


def _read_counts(memory: Any, _keys: object) -> None:
    """Count on from a loaded state."""
    memory._enqueued, memory._batches = int(memory.num_enqueued), int(memory.num_batches)


Queries: TypeAlias = Literal["own", "all"]


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
    own_paths = checked_paths(paths, vectors).tensor
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
    """Gather the rows of all processes; shorter parts are padded, since collective operations need one shape."""
    sizes = _sizes(rows) if sizes is None else sizes
    padded = rows.new_zeros((max(sizes), *rows.shape[1:]))
    padded[: len(rows)] = rows.detach()
    blocks = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(blocks, padded)
    return torch.cat([block[:size] for block, size in zip(blocks, sizes, strict=True)])


def _sizes(rows: Tensor) -> list[int]:
    """The number of rows of each process."""
    num_rows = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.empty_like(num_rows) for _ in range(distributed.get_world_size())]
    distributed.all_gather(sizes, num_rows)
    return [int(size) for size in sizes]


class DistributedLoss(Loss):
    """A loss whose batch is what all processes have, concatenated in the order of their ranks.

    The contract: every process gives its own part of the batch, backpropagates, and gradients of parameters are then
    **averaged** over the processes, as DistributedDataParallel and Fabric do. Value and gradient, of the network and of
    the loss's own parameters, are those of one process on the concatenated batch. Parts may differ in size.

    ``queries="own"``: every process ranks all candidates for its own queries only, so that time and memory are divided
    by the number of processes. (Sampled proxies are then drawn by every process for itself.) ``queries="all"``: every
    process computes the whole loss, as ``loss(*all_gather(embeddings, paths))`` does; this works for any loss. If the
    loss draws at random, give torch's generators the same seed in all processes.

    Args:
        loss: the loss of the whole batch; with ``queries="own"``, one whose terms are means over queries.
        queries: "own" or "all".

    >>> from hiertree.losses import SupAP
    >>> embeddings, labels = torch.eye(3), torch.tensor([0, 0, 1])
    >>> float(DistributedLoss(SupAP())(embeddings, labels)) == float(SupAP()(embeddings, labels))  # one process
    True
    """

    _shown = ("queries",)

    def __init__(self, loss: Loss, *, queries: Queries = "own") -> None:
        super().__init__()
        check_loss(loss)
        check_choice("queries", queries, Queries)
        self.loss, self.queries, self.weights = loss, queries, loss.weights
        for inner in loss.with_parts() if queries == "own" else ():
            if not inner.is_mean_over_queries:
                problem = f"queries='own' for {type(inner).__name__}, which is no mean over queries"
                raise OptionError(problem, expected="queries='all'")
            inner.average = mean_over_processes

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive: of this process, or, with ``queries="all"``, of all."""
        return self.loss.last_num_skipped

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The terms of the loss of the concatenated batch, the same in every process; no references and no mask."""
        if ref_embeddings is not None or ref_paths is not None or valid is not None:
            raise ShapeError("reference embeddings or a mask with a gathered batch", expected="neither")
        if num_processes() == 1:
            return self.loss.terms(embeddings, paths)
        all_embeddings, all_paths = all_gather(embeddings, paths)
        if self.queries == "all":
            return self.loss.terms(all_embeddings, all_paths)
        finite_vectors(all_embeddings)  # all processes refuse, so that none waits for another
        first = first_row(embeddings)
        own_rows = slice(first, first + len(embeddings))
        candidates = full_mask(None, (len(embeddings), len(all_embeddings)), all_embeddings.device)
        if not any(inner.include_self for inner in self.loss.with_parts()):
            candidates[:, own_rows].fill_diagonal_(False)
        return self.loss.terms(
            all_embeddings[own_rows], all_paths[own_rows], all_embeddings, all_paths, valid=candidates
        )


def mean_over_processes(losses: LossPerQuery) -> Tensor:
    """The mean over the queries of all processes; its gradient is the part that this process adds to an average."""
    processes = num_processes()
    if processes == 1:
        return losses.mean()
    loss_sum = losses.values.sum()
    total = torch.stack([loss_sum.detach(), losses.counted.sum().to(loss_sum)])
    distributed.all_reduce(total)
    num_counted = total[1].clamp(min=1)
    own_mean = processes * loss_sum / num_counted
    return total[0] / num_counted + (own_mean - own_mean.detach())


def large_batch_backward(
    embed: Callable[[Any], Tensor],
    chunks: Sequence[Any],
    paths: Any,
    loss: Loss,
    *,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
) -> dict[str, Tensor]:
    """Backpropagate the loss of a large batch with the activations of one chunk in memory at a time.

    First pass: every chunk is embedded without a graph. The loss of all embeddings gives its gradient with respect to
    each of them (and to its own parameters). Second pass: every chunk is embedded again, with a graph, and
    backpropagates its part. Gradients are those of one big batch as long as an image's embedding depends on no other
    image: batch normalization must be frozen (it would see chunks, and update its statistics twice). Dropout is the
    same in both passes: the states of torch's generators are restored for each chunk.

    Args:
        embed: makes the (b, d) embeddings of a chunk.
        chunks: what ``embed`` takes; together they are the batch.
        paths: (B, L) of all chunks, in their order.
        loss: the loss of the batch.
        backward: called with the loss instead of ``loss.backward()``, for example to scale it for mixed precision.

    Returns:
        The terms of the loss, without a graph.

    >>> layer = torch.nn.Linear(2, 3)
    >>> images, labels = torch.randn(6, 2), torch.tensor([0, 0, 1, 1, 2, 2])
    >>> from hiertree.losses import SupAP
    >>> sorted(large_batch_backward(layer, images.split(2), labels, SupAP()))
    ['SupAP']
    >>> layer.weight.grad.shape
    torch.Size([3, 2])
    """
    check_loss(loss)
    if len(chunks) == 0:
        raise OptionError("chunks=()", expected="at least one chunk of the batch")
    states, embedded = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append((torch.get_rng_state(), torch.cuda.get_rng_state_all()))
            embedded.append(embed(chunk).detach())
    embeddings = torch.cat(embedded).requires_grad_()
    terms = loss.terms(embeddings, paths)
    backward(loss.total(terms))
    gradient = torch.zeros_like(embeddings) if embeddings.grad is None else embeddings.grad
    sizes = [len(rows) for rows in embedded]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        for chunk, (state, of_gpus), rows in zip(chunks, states, torch.split(gradient, sizes), strict=True):
            torch.set_rng_state(state)
            torch.cuda.set_rng_state_all(of_gpus)
            torch.autograd.backward([embed(chunk)], [rows])
    return {name: value.detach() for name, value in terms.items()}
