"""A loss of one batch that is divided over several processes."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, distributed

from hiertree.errors import OptionError, ShapeError
from hiertree.options import require

from ..base import Loss, check_loss
from ..pairs.blocks import LossPerQuery
from ..pairs.inputs import finite_vectors, full_mask
from .gathering import all_gather, first_row, num_processes

QUERIES = ("own", "all")


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

    Raises:
        OptionError: a loss that is no mean over queries cannot be divided.

    >>> from hiertree.losses import SupAP
    >>> embeddings, labels = torch.eye(3), torch.tensor([0, 0, 1])
    >>> float(DistributedLoss(SupAP())(embeddings, labels)) == float(SupAP()(embeddings, labels))  # one process
    True
    """

    def __init__(self, loss: Loss, *, queries: Literal["own", "all"] = "own") -> None:
        super().__init__()
        check_loss(loss)
        require(queries in QUERIES, "queries", queries, f"one of {', '.join(map(repr, QUERIES))}")
        self.loss, self.queries, self.weights = loss, queries, loss.weights
        for part in loss.with_parts() if queries == "own" else ():
            if not part.is_mean_over_queries:
                given = f"queries='own' for {type(part).__name__}, which is no mean over queries"
                raise OptionError(given, expected="queries='all'")
            part.average = mean_over_processes

    @property
    def last_num_skipped(self) -> int:
        """Queries of the last batch without a positive: of this process, or, with ``queries="all"``, of all."""
        return self.loss.last_num_skipped

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The terms of the loss of the concatenated batch, the same in every process.

        Args:
            embeddings: (B, d), of this process.
            paths: (B, L) or (B,).
            ref_embeddings: must be None: the gathered batch is what is ranked.
            ref_paths: must be None.
            valid: must be None.
        """
        if ref_embeddings is not None or ref_paths is not None or valid is not None:
            raise ShapeError("reference embeddings or a mask with a gathered batch", expected="none")
        everything, all_paths = all_gather(embeddings, paths)
        if self.queries == "all" or num_processes() == 1:
            return self.loss.terms(everything, all_paths)
        finite_vectors(everything)  # refused in all processes, so that none waits for another
        first = first_row(embeddings)
        own = slice(first, first + len(embeddings))
        candidates = full_mask(None, (len(embeddings), len(everything)), everything.device)
        if not any(part.include_self for part in self.loss.with_parts()):
            candidates[:, own].fill_diagonal_(False)
        return self.loss.terms(everything[own], all_paths[own], everything, all_paths, valid=candidates)

    def extra_repr(self) -> str:
        """The options, for ``print(loss)``."""
        return f"queries={self.queries!r}"


def mean_over_processes(losses: LossPerQuery) -> Tensor:
    """The mean over the queries of all processes; its gradient is the part that this process adds to an average."""
    processes = num_processes()
    if processes == 1:
        return losses.mean()
    own = losses.values.sum()
    total = torch.stack([own.detach(), losses.counted.sum().to(own)])
    distributed.all_reduce(total)
    num_counted = total[1].clamp(min=1)
    share = processes * own / num_counted
    return total[0] / num_counted + (share - share.detach())
