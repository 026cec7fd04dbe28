"""Decomposability: terms that bring a rank loss's mean over batches close to its value on the whole data set.

Pairs: positives above one score, negatives below another. Proxies: every embedding near a learned point of its class,
and far from the others'; their cross-entropy goes through the proxies in chunks, forward and backward, and computes the
cosines anew: there is no matrix of all of them, and the memory beyond the inputs and their gradients is O(B + chunk).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from hiertree.options import check_choice, check_integer, check_number

from .base import Loss, PairLoss
from .pairs.blocks import LossPerQuery
from .pairs.inputs import (
    CheckedEmbeddings,
    CheckedPaths,
    check_classes,
    check_size,
    checked_paths,
    has_candidate,
    refuse_rows,
    unit_vectors,
)
from .pairs.one_batch import OneBatch, first_derivative, keep_full_precision, whole_batch
from .pairs.pairs import ScoredPairs

LOGITS_AT_ONCE = 1 << 20  # 4 MiB of float32


class PairDecomposability(PairLoss):
    r"""L_DG: positives pulled above one score, negatives pushed below another, the same for all queries.

    .. math:: \frac{1}{|\Omega^+|} \sum_{j \in \Omega^+} [\alpha - s_j]_+
              + \frac{1}{|\Omega^-|} \sum_{j \in \Omega^-} [s_j - \beta]_+

    averaged over the queries that have a positive. Source: Ramzi et al. (TPAMI 2025), Eq. 7.

    Args:
        alpha: scores of positives should exceed it.
        beta: scores of negatives should stay below it.
        level: positives agree with the query down to this level; None: the finest.
        reduction: "mean" as above; "avg_nonzero" divides each sum, over the whole batch, by the number of its
            non-zero terms, as the authors' code does.
        include_self: a query is its own candidate.

    >>> import torch
    >>> float(PairDecomposability()(torch.eye(3), torch.tensor([0, 0, 1]))) # 0.9 for two queries, the third skipped
    0.8999999761581421
    """

    _shown = ("alpha", "beta", "level", "reduction")

    def __init__(
        self,
        *,
        alpha: float = 0.9,
        beta: float = 0.6,
        level: int | None = None,
        reduction: str = "mean",
        include_self: bool = False,
    ) -> None:
        super().__init__(include_self=include_self, level=level)
        check_choice("reduction", reduction, Literal["mean", "avg_nonzero"])
        check_number("alpha", alpha)
        check_number("beta", beta)
        self.alpha, self.beta, self.reduction = alpha, beta, reduction
        self.is_mean_over_queries = reduction == "mean"  # else the non-zero terms of the whole batch are counted
        self._needs_all_scores = not self.is_mean_over_queries

    def of_scores(self, pairs: ScoredPairs) -> Tensor:
        """The loss under the requested reduction."""
        if self.reduction == "mean":
            return super().of_scores(pairs)
        return mean_of_violations(pairs, level=self.level, alpha=self.alpha, beta=self.beta)

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """Eq. 7, a query."""
        return margin_losses(pairs, level=self.level, alpha=self.alpha, beta=self.beta)


class ProxyOptions(TypedDict, total=False):
    """Options of learned proxies.

    * ``eta``: temperature η > 0. Default 0.05.
    * ``centers``: proxies of each class; several let a class have several modes. Default 1.
    * ``center_temperature``: how several centers make one class. Default None: all of them add up, as in the formula of
      :class:`ProxyDecomposability`. A number t > 0: a class's cosine is the mean of its centers', weighted by
      softmax(cos/t), as in Qian et al. (*SoftTriple Loss*, ICCV 2019) and the authors' code, which has t = 0.1.
    * ``initial``: coordinates start from N(0, 1) ("normal", the default), from N(0, σ²) (a number, σ) or uniform in
      ±1/√d ("uniform", the authors' code): shorter proxies turn faster at one learning rate.
    * ``sampled_classes``: while training, compare with this many classes only: the batch's own and others drawn from
      torch's generator (An et al., *Partial FC*, CVPR 2022). It saves time, not memory. Default None: all classes.
    """

    eta: float
    centers: int
    center_temperature: float | None
    sampled_classes: int | None
    initial: str | float


class ProxyLoss(Loss):
    """A mean over the items of a batch, each compared with learned proxies of classes; references are not used.

    Items whose finest class is unknown are left out.
    """

    def __init__(self, num_classes: int, embedding_size: int, *, initial: str | float, centers: int = 1) -> None:
        super().__init__()
        check_integer("num_classes", num_classes)
        check_integer("embedding_size", embedding_size)
        check_integer("centers", centers)
        if isinstance(initial, str):
            check_choice("initial", initial, Literal["normal", "uniform"])
        else:
            check_number("initial", initial, above=0)
        self.num_classes, self.embedding_size, self.centers = num_classes, embedding_size, centers
        shape, bound = (num_classes * centers, embedding_size), embedding_size**-0.5
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
        is_query = has_candidate(valid, embeddings, ref_embeddings, include_self=self.include_self) & checked.known
        return {type(self).__name__: self._mean(LossPerQuery(torch.where(is_query, values, 0), is_query))}

    def _item_losses(self, vectors: Tensor, paths: CheckedPaths) -> Tensor:
        """(B,) of (B, d) unit vectors and their (B, L) paths."""
        raise NotImplementedError


class ProxyDecomposability(ProxyLoss):
    r"""L*_DG: cross-entropy over cosine similarities to learned proxies of the finest classes.

    .. math:: -\log \frac{\sum_{p \in P_y} \exp(\cos(e, p) / \eta)}{\sum_c \sum_{p \in P_c} \exp(\cos(e, p) / \eta)}

    averaged over the batch; P_c holds the ``centers`` proxies of class c, one in the paper. An embedding is compared
    with the proxies only: reference embeddings are not used. No matrix of all similarities is made, so that 100,000
    classes need no more memory than their proxies. Source: Ramzi et al. (TPAMI 2025), Eq. 8.

    Args:
        num_classes: finest classes; ``paths[:, -1]`` must lie in 0 … num_classes − 1, or be −1, for items left out.
        embedding_size: d.
        eta, centers, center_temperature, initial, sampled_classes: see :class:`hiertree.losses.ProxyOptions`.

    >>> import torch
    >>> loss = ProxyDecomposability(num_classes=3, embedding_size=2)
    >>> loss(torch.eye(2), torch.tensor([[0, 2], [0, 1]])).shape, loss.proxies.shape
    (torch.Size([]), torch.Size([3, 2]))
    """

    _shown = ("num_classes", "embedding_size", "eta", "centers", "sampled_classes")

    def __init__(
        self,
        num_classes: int,
        embedding_size: int,
        *,
        eta: float = 0.05,
        centers: int = 1,
        center_temperature: float | None = None,
        sampled_classes: int | None = None,
        initial: str | float = "normal",
    ) -> None:
        super().__init__(num_classes, embedding_size, initial=initial, centers=centers)
        check_integer("sampled_classes", sampled_classes, or_none=True)
        check_number("eta", eta, above=0)
        if center_temperature is not None:
            check_number("center_temperature", center_temperature, above=0)
        self.eta, self.center_temperature, self.sampled_classes = eta, center_temperature, sampled_classes

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
            proxies = proxies.view(self.num_classes, self.centers, -1)[sample].flatten(0, 1)
        options = (self.centers, self.eta, self.center_temperature)
        losses: Tensor = _ProxyCrossEntropy.apply(vectors, proxies.to(vectors.dtype), classes, *options)[0]
        return losses

    def _sample(self, classes: Tensor, num: int) -> tuple[Tensor, Tensor]:
        """So many classes in rising order, the batch's among them, and where these are."""
        priority = torch.rand(self.num_classes, device=classes.device)
        priority[classes] = 2.0  # the batch's own come first
        sample = priority.topk(num).indices.sort().values
        return sample, torch.searchsorted(sample, classes.contiguous())


class _ProxyCrossEntropy(OneBatch):
    r"""−log of the share of the own class, of (B, d) unit vectors; rows c·centers … (c+1)·centers − 1 are class c's."""

    @staticmethod
    def forward(
        vectors: Tensor, proxies: Tensor, classes: Tensor, centers: int, eta: float, temperature: float | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        log_all = vectors.new_full((len(vectors),), -torch.inf)
        own_logits = vectors.new_full((len(vectors), centers if temperature is None else 1), -torch.inf)
        with keep_full_precision(vectors.device):
            for chunk in _chunks(len(vectors), proxies, centers):
                logits, _ = _logits(vectors @ _unit(proxies[chunk])[0].T, centers, eta, temperature)
                log_all = torch.logaddexp(log_all, logits.logsumexp(dim=1))
                in_chunk, columns = _own_columns(classes - chunk.start // centers, logits.shape[1], own_logits.shape[1])
                own_logits = torch.where(in_chunk, logits.gather(1, columns), own_logits)
        log_own = own_logits.logsumexp(dim=1)
        return (log_all - log_own).clamp(min=0), log_all, log_own  # rounding alone makes it negative

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        vectors, proxies, classes, *ctx.options = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(vectors, proxies, classes, *output[1:])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # once, as checkpointing demands
        vectors, proxies = tensors[:2]
        with torch.no_grad(), keep_full_precision(vectors.device):
            to_vectors, to_proxies = _gradients(tensors, ctx.options, whole_batch(upstream))
        return first_derivative(to_vectors, vectors), first_derivative(to_proxies, proxies), None, None, None, None


def _gradients(tensors: tuple[Tensor, ...], options: tuple[Any, ...], upstream: Tensor) -> tuple[Tensor, Tensor]:
    vectors, proxies, classes, log_all, log_own = tensors
    centers, eta, temperature = options
    to_vectors, to_proxies = torch.zeros_like(vectors), torch.empty_like(proxies)
    width = centers if temperature is None else 1
    for chunk in _chunks(len(vectors), proxies, centers):
        unit, norm = _unit(proxies[chunk])
        logits, by_center = _logits(vectors @ unit.T, centers, eta, temperature)
        in_chunk, columns = _own_columns(classes - chunk.start // centers, logits.shape[1], width)
        own_share = torch.where(in_chunk, (logits.gather(1, columns) - log_own[:, None]).exp(), 0)
        slope = logits.sub_(log_all[:, None]).exp_()
        slope.scatter_(1, columns, slope.gather(1, columns) - own_share)
        slope.mul_((upstream / eta)[:, None])
        if by_center is not None:
            slope = (slope[:, :, None] * by_center).flatten(1)
        to_vectors.addmm_(slope, unit)
        to_unit = slope.T @ vectors
        projection = (to_unit * unit).sum(dim=1, keepdim=True)
        to_proxies[chunk] = to_unit.addcmul_(projection, unit, value=-1.0).div_(norm)
    return to_vectors, to_proxies


def _logits(cosines: Tensor, centers: int, eta: float, temperature: float | None) -> tuple[Tensor, Tensor | None]:
    """One logit per center; or, softly assigned, one per class, and the slope of its cosine by those of its centers."""
    if temperature is None:
        return cosines / eta, None
    by_class = cosines.view(len(cosines), -1, centers)
    assignment = (by_class / temperature).softmax(dim=2)
    mean = (assignment * by_class).sum(dim=2)
    return mean / eta, assignment * (1 + (by_class - mean[:, :, None]) / temperature)


def _chunks(num_vectors: int, proxies: Tensor, centers: int) -> Iterator[slice]:
    """Some whole classes at a time: few enough that neither their logits nor their copies are large."""
    at_once = LOGITS_AT_ONCE // (max(num_vectors, proxies.shape[1]) * centers)
    rows = max(1, at_once) * centers
    return (slice(first, min(first + rows, len(proxies))) for first in range(0, len(proxies), rows))


def _unit(proxies: Tensor) -> tuple[Tensor, Tensor]:
    norm = torch.linalg.vector_norm(proxies, dim=1, keepdim=True).clamp(min=torch.finfo(proxies.dtype).tiny)
    return proxies / norm, norm


def _own_columns(classes: Tensor, num_columns: int, width: int) -> tuple[Tensor, Tensor]:
    """(B, 1) whether a class, counted from the first of a chunk, lies in it, and (B, width) its columns or others.

    Rows are not chosen by what they hold: their number would have to be read from the device.
    """
    first = (classes * width)[:, None]
    in_chunk = (first >= 0) & (first < num_columns)
    return in_chunk, first.clamp(0, num_columns - width) + torch.arange(width, device=classes.device)


def margin_losses(pairs: ScoredPairs, *, level: int | None, alpha: float, beta: float) -> LossPerQuery:
    """(1/|Ω⁺|)·Σ_{j ∈ Ω⁺} [α − s_j]₊ + (1/|Ω⁻|)·Σ_{j ∈ Ω⁻} [s_j − β]₊."""
    binary = pairs.binary(level)
    num_negatives, num_positives = binary.counts().T
    means = [
        violations.sum(dim=1) / count.clamp(min=1)
        for violations, count in zip(_violations(binary, alpha, beta), (num_positives, num_negatives), strict=True)
    ]
    has_positive = num_positives > 0
    return LossPerQuery((means[0] + means[1]) * has_positive, has_positive)


def mean_of_violations(pairs: ScoredPairs, *, level: int | None, alpha: float, beta: float) -> Tensor:
    """The same sums over the whole batch, each divided by the number of its non-zero terms."""
    violations = _violations(pairs.binary(level), alpha, beta)
    return torch.stack([terms.sum() / (terms > 0).sum().clamp(min=1) for terms in violations]).sum()


def _violations(binary: ScoredPairs, alpha: float, beta: float) -> tuple[Tensor, Tensor]:
    """(B, M) [α − s]₊ of the positives, and [s − β]₊ of the negatives."""
    positive, scores = binary.positives(), binary.scores
    return (alpha - scores).relu() * positive, (scores - beta).relu() * (binary.valid & ~positive)
