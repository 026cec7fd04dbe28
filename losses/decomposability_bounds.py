r"""The decomposability gap: how far the mean AP of batches exceeds the AP of the whole they are drawn from.

For one query, whose candidates are split into batches: DG = (mean over batches of AP_b) − AP (Ramzi et al.,
TPAMI 2025, Eq. 6), over the batches that hold a positive. These functions measure; they are not trained.

**The bounds** hold for a query whose every batch is ranked perfectly, all positives ahead of all negatives; then
DG = 1 − AP. The m-th positive of the whole ranking has precision m / (m + negatives ahead), and a batch can have
negatives ahead of it only if its positives are *all* ahead of it. So at most as many negatives are ahead as the
batches hold whose positives number m − 1 or fewer together: a knapsack. With margins α > β, moreover,

* ahead of a positive with s ≥ α there are only positives with s ≥ α and negatives with s > β;
* so a batch can have negatives ahead of it, those with s > β, only if all its own positives have s ≥ α.

Where L_DG (Eq. 7) is 0 there is no positive below α and no negative above β, and the second bound is 0. Eq. 26 and 27
are such sums over the batches in a given order; the knapsack is the worst order for each positive, which makes the
bounds valid for batches of any sizes. For equal batches it is attained by ranking one batch after the other.

**Eq. 27 as printed is no bound.** Let positives 0.72 and 1.00 and negatives 0.46 and 0.95 make two perfect batches,
(0.72, 0.46) and (1.00, 0.95). In this order its sum is 0, for only negatives of earlier batches count; the gap is
1 − (1 + 2/3)/2 = 1/6, as the bound here is. The largest of its sums over all orders is a bound for equal batches. It is
looser than ours, for it lets negatives above β of any batch stand ahead of a positive with s ≥ α, also of a batch with
a positive below α, whose negatives stand behind that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from hiertree.arrays import to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.metrics import average_precision
from hiertree.options import check_number

from .functional import smooth_ap
from .pairs.pairs import binary_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Batched(NamedTuple):
    """Candidates (Q, M), each in one of K batches."""

    scores: NDArray[np.float64]
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    batch: NDArray[np.int64]
    num_batches: int


def decomposability_gap(
    scores: Any, levels: Any, batches: Any, *, level: int = 1, valid: Any = None
) -> NDArray[np.float64]:
    """Mean AP of the batches − AP of the whole, for each query (Ramzi et al., TPAMI 2025, Eq. 6).

    Args:
        scores: (Q, M) similarities, numpy or torch.
        levels: (Q, M) integers.
        batches: (M,) integers, the batch of each candidate.
        level: positives are at this level and finer.
        valid: (Q, M) booleans; False leaves a candidate out (the query itself, say).

    Returns:
        (Q,) float64, at most 1; NaN for a query without positives. Ties are averaged over.

    Two batches, each ranked perfectly, whose scores do not compare:

    >>> scores, levels, batches = [[0.9, 0.8, 0.7, 0.5, 0.4, 0.3]], [[1, 0, 0, 1, 0, 0]], [0, 0, 0, 1, 1, 1]
    >>> decomposability_gap(scores, levels, batches)  # 1 − (1/1 + 2/4)/2
    array([0.25])
    """
    batched = _checked(scores, levels, batches, level, valid)
    positive = batched.positive.astype(np.uint8)
    members = [batched.batch == batch for batch in range(batched.num_batches)]
    by_batch = [
        average_precision(
            batched.scores[:, is_member], positive[:, is_member], level=1, valid=batched.valid[:, is_member]
        )
        for is_member in members
    ]
    is_defined = ~np.isnan(by_batch)
    mean = np.where(is_defined, by_batch, 0).sum(axis=0) / np.maximum(is_defined.sum(axis=0), 1)
    gap: NDArray[np.float64] = mean - average_precision(batched.scores, positive, level=1, valid=batched.valid)
    return gap


def smooth_ap_error(
    scores: Any, levels: Any, *, tau: float = 0.01, level: int = 1, valid: Any = None
) -> NDArray[np.float64]:
    """AP_e = |Smooth-AP − AP|, how far the smoothed AP of each query is from its AP (Brown et al., ECCV 2020, Eq. 8).

    Arguments as in :func:`decomposability_gap`, and the temperature ``tau``: a smaller one approximates better.

    Returns:
        (Q,) float64; NaN for a query without positives. AP averages over ties.

    >>> scores, levels = [[0.9, 0.8, 0.7]], [[0, 1, 1]]
    >>> [round(float(smooth_ap_error(scores, levels, tau=tau)[0]), 3) for tau in (0.01, 0.1)]
    [0.0, 0.065]
    """
    batched = _checked(scores, levels, np.zeros(np.shape(to_numpy(scores, name="scores"))[1:]), level, valid)
    positive = batched.positive.astype(np.uint8)
    tensors = torch.as_tensor(batched.scores), torch.as_tensor(positive), torch.ones(len(positive), 2)
    losses = smooth_ap(*tensors, tau=tau, valid=torch.as_tensor(batched.valid), reduction="none")
    exact = average_precision(batched.scores, positive, level=1, valid=batched.valid)
    error: NDArray[np.float64] = abs(1 - losses.numpy() - exact)
    return error


def decomposability_bound(levels: Any, batches: Any, *, level: int = 1, valid: Any = None) -> NDArray[np.float64]:
    """The largest gap of a query whose every batch is ranked perfectly (Ramzi et al., TPAMI 2025, Eq. 26).

    It depends on how many positives and negatives each batch holds. Arguments as in :func:`decomposability_gap`.

    Returns:
        (Q,) float64 from 0 to 1; NaN for a query without positives.

    >>> decomposability_bound([[1, 0, 0, 1, 0, 0]], [0, 0, 0, 1, 1, 1])
    array([0.25])
    """
    equal_scores = np.zeros(np.shape(to_numpy(levels, name="levels")))  # all positives below α, all negatives above β
    return decomposability_bound_with_margins(equal_scores, levels, batches, alpha=1, beta=-1, level=level, valid=valid)


def decomposability_bound_with_margins(
    scores: Any, levels: Any, batches: Any, *, alpha: float = 0.9, beta: float = 0.6, level: int = 1, valid: Any = None
) -> NDArray[np.float64]:
    """The same bound, knowing which positives lie below α and which negatives above β (Eq. 27).

    Never above :func:`decomposability_bound`, and 0 where L_DG (:class:`hiertree.losses.PairDecomposability`) is 0.

    Arguments as in :func:`decomposability_gap`, and ``alpha`` above ``beta``: the margins of positives and negatives.

    >>> scores, levels, batches = [[0.95, 0.5, 0.4, 0.92, 0.5, 0.4]], [[1, 0, 0, 1, 0, 0]], [0, 0, 0, 1, 1, 1]
    >>> decomposability_bound_with_margins(scores, levels, batches)
    array([0.])
    """
    check_number("alpha", alpha)
    check_number("beta", beta)
    if beta >= alpha:
        raise OptionError(f"alpha={alpha!r}, beta={beta!r}", expected="alpha above beta")
    batched = _checked(scores, levels, batches, level, valid)
    easy, hard = batched.scores >= alpha, batched.scores > beta
    counts = zip(
        _count_per_batch(batched, batched.positive & easy),
        _count_per_batch(batched, batched.positive & ~easy),
        _count_per_batch(batched, ~batched.positive & hard),
        _count_per_batch(batched, ~batched.positive),
        strict=True,
    )
    return np.array([_loss(np.concatenate(list(_most_ahead_with_margins(*query_counts)))) for query_counts in counts])


def _most_ahead_with_margins(
    good: NDArray[np.int64], bad: NDArray[np.int64], hard: NDArray[np.int64], negatives: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Bounds for the positives with s ≥ α, then for the others, which rank behind all of those."""
    all_good = bad == 0
    yield _most_ahead(good[all_good], hard[all_good], good.sum())
    yield _most_ahead(bad, negatives, bad.sum())


def _most_ahead(weights: NDArray[np.int64], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Largest total value of batches that weigh m − 1 or less together, for m = 1 … number."""
    best = np.zeros(count, np.int64)
    for weight, value in zip(weights, values, strict=True):
        if weight < count:
            best[weight:] = np.maximum(best[weight:], best[: count - weight] + value)
    return best


def _loss(negatives_ahead: NDArray[np.int64]) -> float:
    """1 − the mean of m / (m + negatives ahead)."""
    if not len(negatives_ahead):
        return float("nan")
    ranks = np.arange(1, len(negatives_ahead) + 1)
    return float(np.mean(negatives_ahead / (ranks + negatives_ahead)))


def _count_per_batch(batched: _Batched, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(Q, K) the number of chosen valid candidates."""
    members = (batched.batch[:, None] == np.arange(batched.num_batches)).astype(np.int64)
    counts: NDArray[np.int64] = (mask & batched.valid).astype(np.int64) @ members
    return counts


def _checked(scores: Any, levels: Any, batches: Any, level: int, valid: Any) -> _Batched:
    pairs = binary_pairs(to_numpy(scores, name="scores"), to_numpy(levels, name="levels"), level, valid)
    batches = to_numpy(batches, name="batches")
    if batches.shape != pairs.scores.shape[1:]:
        expected = f"({pairs.scores.shape[1]},), one for each candidate"
        raise ShapeError(f"batches of shape {batches.shape}", expected=expected)
    names, batch = np.unique(batches, return_inverse=True)
    score_array = pairs.scores.detach().double().cpu().numpy()
    positive, is_valid = ((pairs.levels > 0).cpu().numpy(), pairs.valid.cpu().numpy())
    return _Batched(score_array, positive, is_valid, batch, len(names))
