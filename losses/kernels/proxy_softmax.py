"""Cross-entropy over cosines to many proxies, some proxies at a time: no matrix of all of them is ever made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .gradients import first_derivative

LOGITS_AT_ONCE = 1 << 20  # 4 MiB of float32


def proxy_cross_entropy(vectors: Tensor, proxies: Tensor, classes: Tensor, *, centers: int, eta: float) -> Tensor:
    r"""−log of the share of the own class's proxies, Σ_{p ∈ own} exp(cos/η) / Σ_p exp(cos/η), of each vector.

    Both passes go through the proxies in chunks and compute the cosines anew: the memory beyond the inputs and their
    gradients is O(B + chunk).

    Args:
        vectors: (B, d) unit vectors, float32 or better.
        proxies: (C·centers, d), of any length; the rows c·centers … (c+1)·centers − 1 are class c's.
        classes: (B,) integers 0 … C − 1.
        centers: proxies a class.
        eta: temperature η.

    Returns:
        (B,) losses ≥ 0; differentiable in vectors and proxies, once (no double backward).
    """
    with torch.autocast(vectors.device.type, enabled=False):
        result: Tensor = _ProxyCrossEntropy.apply(vectors, proxies.to(vectors.dtype), classes, centers, eta)
    return result


class _ProxyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, proxies: Tensor, classes: Tensor, centers: int, eta: float) -> Tensor:
        log_all = vectors.new_full((len(vectors),), -torch.inf)
        own = vectors.new_empty((len(vectors), centers))
        for chunk in _chunks(len(vectors), proxies, centers):
            logits = vectors @ _unit(proxies[chunk])[0].T / eta
            log_all = torch.logaddexp(log_all, logits.logsumexp(dim=1))
            rows, columns = _own_columns(classes, chunk, centers)
            own[rows] = logits[rows[:, None], columns]
        log_own = own.logsumexp(dim=1)
        ctx.centers, ctx.eta = centers, eta
        ctx.save_for_backward(vectors, proxies, classes, log_all, log_own)
        return (log_all - log_own).clamp(min=0)  # rounding alone makes it negative

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        with torch.no_grad():
            to_vectors, to_proxies = _ProxyCrossEntropy._gradients(ctx, upstream)
        vectors, proxies = ctx.saved_tensors[:2]
        return first_derivative(to_vectors, vectors), first_derivative(to_proxies, proxies), None, None, None

    @staticmethod
    def _gradients(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        vectors, proxies, classes, log_all, log_own = ctx.saved_tensors
        to_vectors, to_proxies = torch.zeros_like(vectors), torch.empty_like(proxies)
        for chunk in _chunks(len(vectors), proxies, ctx.centers):
            unit, norm = _unit(proxies[chunk])
            logits = vectors @ unit.T / ctx.eta
            rows, columns = _own_columns(classes, chunk, ctx.centers)
            own_share = (logits[rows[:, None], columns] - log_own[rows, None]).exp()
            slope = logits.sub_(log_all[:, None]).exp_()
            slope[rows[:, None], columns] -= own_share
            slope.mul_((upstream / ctx.eta)[:, None])
            to_vectors.addmm_(slope, unit)
            to_unit = slope.T @ vectors
            along = (to_unit * unit).sum(dim=1, keepdim=True)
            to_proxies[chunk] = to_unit.addcmul_(along, unit, value=-1.0).div_(norm)
        return to_vectors, to_proxies


def _chunks(num_vectors: int, proxies: Tensor, centers: int) -> Iterator[slice]:
    """Some whole classes at a time: few enough that neither their logits nor their copies are large."""
    at_once = LOGITS_AT_ONCE // (max(num_vectors, proxies.shape[1]) * centers)
    rows = max(1, at_once) * centers
    return (slice(first, min(first + rows, len(proxies))) for first in range(0, len(proxies), rows))


def _unit(proxies: Tensor) -> tuple[Tensor, Tensor]:
    norm = torch.linalg.vector_norm(proxies, dim=1, keepdim=True).clamp(min=torch.finfo(proxies.dtype).tiny)
    return proxies / norm, norm


def _own_columns(classes: Tensor, chunk: slice, centers: int) -> tuple[Tensor, Tensor]:
    """The vectors whose class lies in the chunk, and for each the columns of its proxies."""
    first = classes * centers - chunk.start
    rows = ((first >= 0) & (first < chunk.stop - chunk.start)).nonzero()[:, 0]
    return rows, first[rows, None] + torch.arange(centers, device=classes.device)
