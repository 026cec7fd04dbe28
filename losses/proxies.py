"""Decomposability by proxies: every embedding near a learned point of its class, and far from the others'.

The cross-entropy goes through the proxies in chunks, forward and backward, and computes the cosines anew: there is no
matrix of all of them, and the memory beyond the inputs and their gradients is O(B + chunk).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from hiertree.errors import PathError
from hiertree.level_columns import UNKNOWN
from hiertree.metrics.engine.blocks import ranges
from hiertree.options import check_choice, check_integer, check_number

from .base import Loss
from .pairs.blocks import LossPerQuery
from .pairs.inputs import (
    CheckedEmbeddings,
    CheckedPaths,
    check_size,
    checked_paths,
    has_candidate,
    refuse_rows,
    unit_vectors,
)
from .pairs.one_batch import OneBatch, first_derivative, keep_full_precision, whole_batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOGITS_AT_ONCE = 1 << 20  # 4 MiB of float32


def check_classes(classes: NDArray[np.int64], num_classes: int, *, expected_for: str = "proxy") -> None:
    """Refuse, by row, classes that have no proxy, or nothing else that there is one of for each class."""
    bad = np.flatnonzero((classes < UNKNOWN) | (classes >= num_classes))
    if len(bad):
        row = int(bad[0])
        raise PathError(
            f"finest id {int(classes[row])} in row {row}",
            expected=f"ids 0 to {num_classes - 1}, one for each {expected_for}",
            remedy="take num_classes from the tree that made the paths",
        )


class ProxyOptions(TypedDict, total=False):
    """Options of learned proxies.

    * ``eta``: temperature η > 0. Default 0.05.
    * ``initial``: coordinates start from N(0, 1) ("normal", the default), from N(0, σ²) (a number, σ) or uniform in
      ±1/√d ("uniform", the authors' code): shorter proxies turn faster at one learning rate.
    * ``sampled_classes``: while training, compare with this many classes only: the batch's own and others drawn from
      torch's generator (An et al., *Partial FC*, CVPR 2022). It saves time, not memory. Default None: all classes.
    """

    eta: float
    sampled_classes: int | None
    initial: str | float


class ProxyLoss(Loss):
    """A mean over the items of a batch, each compared with learned proxies of classes; references are not used.

    Items whose finest class is unknown are left out.
    """

    def __init__(self, num_classes: int, embedding_size: int, *, initial: str | float) -> None:
        super().__init__()
        check_integer("num_classes", num_classes)
        check_integer("embedding_size", embedding_size)
        if isinstance(initial, str):
            check_choice("initial", initial, Literal["normal", "uniform"])
        else:
            check_number("initial", initial, above=0)
        self.num_classes, self.embedding_size = num_classes, embedding_size
        shape, bound = (num_classes, embedding_size), embedding_size**-0.5
        deviation = 1.0 if isinstance(initial, str) else float(initial)
        initial_proxies = (
            torch.empty(shape).uniform_(-bound, bound) if initial == "uniform" else deviation * torch.randn(shape)
        )
        self.proxies = nn.Parameter(initial_proxies)
        self.weights = {type(self).__name__: 1.0}

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The one term, under the name of the class; an item without class or valid candidate is no query."""
        del ref_paths  # they are for losses that compare with references
        vectors = unit_vectors(embeddings)
        check_size(vectors, self.embedding_size)
        if not isinstance(embeddings, CheckedEmbeddings):
            self._check_parameters()
        checked = checked_paths(paths, vectors)
        values = self._item_losses(vectors, checked)
        is_query = has_candidate(valid, vectors, ref_embeddings) & checked.known
        return {type(self).__name__: self._mean(LossPerQuery(torch.where(is_query, values, 0), is_query))}

    def _item_losses(self, vectors: Tensor, paths: CheckedPaths) -> Tensor:
        """(B,) of (B, d) unit vectors and their (B, L) paths."""
        raise NotImplementedError


class ProxyDecomposability(ProxyLoss):
    r"""L*_DG: cross-entropy over cosine similarities to learned proxies of the finest classes.

    .. math:: -\log \frac{\exp(\cos(e, p_y) / \eta)}{\sum_c \exp(\cos(e, p_c) / \eta)}

    averaged over the batch. An embedding is compared with the proxies only: reference embeddings are not used. No
    matrix of all similarities is made, so that 100,000 classes need no more memory than their proxies.
    Source: Ramzi et al. (TPAMI 2025), Eq. 8.

    Args:
        num_classes: finest classes; ``paths[:, -1]`` must lie in 0 … num_classes − 1, or be −1, for items left out.
        embedding_size: d.
        eta, initial, sampled_classes: see :class:`hiertree.losses.ProxyOptions`.

    >>> import torch
    >>> loss = ProxyDecomposability(num_classes=3, embedding_size=2)
    >>> loss(torch.eye(2), torch.tensor([[0, 2], [0, 1]])).shape, loss.proxies.shape
    (torch.Size([]), torch.Size([3, 2]))
    """

    _shown = ("num_classes", "embedding_size", "eta", "sampled_classes")

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        *,
        eta: float = 0.05,
        sampled_classes: int | None = None,
        initial: str | float = "normal",
    ) -> None:
        super().__init__(num_classes, embedding_size, initial=initial)
        check_integer("sampled_classes", sampled_classes, or_none=True)
        check_number("eta", eta, above=0)
        self.eta, self.sampled_classes = eta, sampled_classes

    def _check_parameters(self) -> None:
        """Refuse proxies that cannot be normalized."""
        smallest, largest = torch.aminmax(self.proxies.detach(), dim=1)
        extent = largest - smallest.clamp(max=0)  # 0 for a proxy of zeros; not a number where one component is none
        bad = ~((extent > 0) | (smallest < 0)) | ~extent.isfinite()
        refuse_rows(bad, "proxies hold NaN, infinite or zero-norm vectors")

    def _item_losses(self, vectors: Tensor, paths: CheckedPaths) -> Tensor:
        check_classes(paths.ids[:, -1], self.num_classes)
        proxies: Tensor = self.proxies
        classes: Tensor = paths.tensor[:, -1].clamp(min=0)
        if self.training and self.sampled_classes is not None and self.sampled_classes < self.num_classes:
            num_present = len(np.unique(paths.ids[:, -1].clip(min=0)))
            sample, classes = self._sample(classes, max(self.sampled_classes, num_present))
            proxies = proxies[sample]
        losses: Tensor = _ProxyCrossEntropy.apply(vectors, proxies.to(vectors.dtype), classes, self.eta)[0]
        return losses

    def _sample(self, classes: Tensor, num: int) -> tuple[Tensor, Tensor]:
        """So many classes in rising order, the batch's among them, and where these are."""
        priority = torch.rand(self.num_classes, device=classes.device)
        priority[classes] = 2.0  # the batch's own come first
        sample = priority.topk(num).indices.sort().values
        return sample, torch.searchsorted(sample, classes.contiguous())


class _ProxyCrossEntropy(OneBatch):
    r"""−log of the share of the own class, of (B, d) unit vectors; row c is the proxy of class c."""

    @staticmethod
    def forward(vectors: Tensor, proxies: Tensor, classes: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        log_all = vectors.new_full((len(vectors),), -torch.inf)
        own_logits = log_all.clone()
        with keep_full_precision(vectors.device):
            for chunk in _chunks(len(vectors), proxies):
                logits = vectors @ _unit(proxies[chunk])[0].T / eta
                log_all = torch.logaddexp(log_all, logits.logsumexp(dim=1))
                in_chunk, column = _own_column(classes - chunk.start, logits.shape[1])
                own_logits = torch.where(in_chunk, logits.gather(1, column[:, None])[:, 0], own_logits)
        return (log_all - own_logits).clamp(min=0), log_all, own_logits  # rounding alone makes it negative

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        vectors, proxies, classes, ctx.eta = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(vectors, proxies, classes, *output[1:])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # once, as checkpointing demands
        vectors, proxies = tensors[:2]
        with torch.no_grad(), keep_full_precision(vectors.device):
            to_vectors, to_proxies = _gradients(tensors, ctx.eta, whole_batch(upstream))
        return first_derivative(to_vectors, vectors), first_derivative(to_proxies, proxies), None, None


def _gradients(tensors: tuple[Tensor, ...], eta: float, upstream: Tensor) -> tuple[Tensor, Tensor]:
    vectors, proxies, classes, log_all, own_logits = tensors
    to_vectors, to_proxies = torch.zeros_like(vectors), torch.empty_like(proxies)
    for chunk in _chunks(len(vectors), proxies):
        unit, norm = _unit(proxies[chunk])
        logits = vectors @ unit.T / eta
        in_chunk, column = _own_column(classes - chunk.start, logits.shape[1])
        own_share = torch.where(in_chunk, (logits.gather(1, column[:, None])[:, 0] - own_logits).exp(), 0)
        slope = logits.sub_(log_all[:, None]).exp_()
        slope.scatter_add_(1, column[:, None], -own_share[:, None])
        slope.mul_((upstream / eta)[:, None])
        to_vectors.addmm_(slope, unit)
        to_unit = slope.T @ vectors
        projection = (to_unit * unit).sum(dim=1, keepdim=True)
        to_proxies[chunk] = to_unit.addcmul_(projection, unit, value=-1.0).div_(norm)
    return to_vectors, to_proxies


def _chunks(num_vectors: int, proxies: Tensor) -> list[slice]:
    """Some classes at a time: few enough that neither their logits nor their copies are large."""
    return ranges(len(proxies), max(1, LOGITS_AT_ONCE // max(num_vectors, proxies.shape[1])))


def _unit(proxies: Tensor) -> tuple[Tensor, Tensor]:
    norm = torch.linalg.vector_norm(proxies, dim=1, keepdim=True).clamp(min=torch.finfo(proxies.dtype).tiny)
    return proxies / norm, norm


def _own_column(classes: Tensor, num_columns: int) -> tuple[Tensor, Tensor]:
    """(B,) whether a class, counted from the first of a chunk, lies in it, and its column or another.

    Rows are not chosen by what they hold: their number would have to be read from the device.
    """
    return (classes >= 0) & (classes < num_columns), classes.clamp(0, num_columns - 1)
