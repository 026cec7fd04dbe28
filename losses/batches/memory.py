"""Cross-batch memory: rank the batch among the embeddings of earlier ones."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from hiertree.errors import ShapeError
from hiertree.options import check_choice, check_integer

from ..base import Loss, check_loss
from ..pairs.inputs import CheckedEmbeddings, CheckedPaths, checked_paths, finite_vectors, full_mask, has_candidate

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
