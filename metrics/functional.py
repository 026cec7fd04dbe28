"""One metric at a time, as functions of scores and levels, both (Q, N)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import OptionError
from hiertree.evaluation_options import Conventions, Relevance, Ties
from hiertree.options import check_integer

from .evaluation.scores import as_score_matrix, evaluate_scores
from .request import H_AP, CheckedOptions


def h_ap(
    scores: Any,
    levels: Any,
    *,
    alpha: float = Conventions.alpha,
    relevance: Relevance = Conventions.relevance,
    valid: Any = None,
    ties: Ties = Conventions.ties,
) -> NDArray[np.float64]:
    r"""Hierarchical average precision of each query.

    .. math:: \frac{1}{R} \sum_{k \in \Omega^+}
        \frac{rel(k) + \sum_{j \in \Omega^+, j \text{ ahead of } k} \min(rel(k), rel(j))}{rank(k)},
        \qquad R = \sum_{k \in \Omega^+} rel(k)

    Ramzi et al., TPAMI 2025, Eq. 18–20.

    Args:
        scores: (Q, N), larger meaning nearer.
        levels: (Q, N) integers 0 … L.
        alpha: of the relevance (l/L)^α / \|Ω^(l)\|.
        relevance: in place of that, as :func:`evaluate` takes it.
        valid: (Q, N) booleans; False leaves an item out.
        ties: see :func:`evaluate_scores`.

    Returns:
        (Q,) float64 in [0, 1]; NaN for a query without positives.

    Raises:
        InputError: as :func:`evaluate_scores`.

    >>> h_ap([[0.9, 0.8, 0.7]], [[0, 2, 1]]).round(4)
    array([0.5556])
    """
    return evaluate_scores(
        scores, levels, valid=valid, metrics=["H-AP"], alpha=alpha, relevance=relevance, ties=ties
    ).values[:, 0]


def ndcg(
    scores: Any, levels: Any, *, k: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    r"""Normalized discounted cumulative gain of each query, with gains 2^l − 1 (Ramzi et al., Eq. 23).

    .. math:: \sum_j \frac{2^{level_j} - 1}{\log_2(1 + rank(j))} \Big/ \text{the best reachable}

    With ``k`` only ranks ≤ k count, and the ideal is that of the whole gallery, cut at k.
    Arguments, values and errors otherwise as :func:`h_ap`.

    >>> ndcg([[0.9, 0.8, 0.7]], [[0, 2, 1]]).round(4)
    array([0.659])
    """
    name = "NDCG" if k is None else _cut_at(k, "NDCG")
    return _values(scores, levels, name, valid=valid, ties=ties)


def asi(scores: Any, levels: Any, *, valid: Any = None, ties: Ties = Conventions.ties) -> NDArray[np.float64]:
    r"""Average set intersection of each query: the mean over n ≤ \|Ω⁺\| of \|top-n ∩ ideal top-n\| / n.

    The intersection is of multisets of levels.
    Fagin, Kumar and Sivakumar, *Comparing top k lists*, 2003; Ramzi et al., App. C-A1. Otherwise as :func:`h_ap`.

    >>> asi([[0.9, 0.8, 0.7]], [[0, 2, 1]])
    array([0.25])
    """
    return _values(scores, levels, "ASI", valid=valid, ties=ties)


def average_precision(
    scores: Any, levels: Any, *, level: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    r"""AP^(l) of each query: the mean over the items at level ≥ l of the precision at their rank.

    ``level`` is the finest found in ``levels`` unless given. Otherwise as :func:`h_ap`.

    >>> average_precision([[5, 4, 3, 2, 1]], [[1, 1, 0, 0, 1]]).round(2)  # (1/1 + 2/2 + 3/5) / 3
    array([0.87])
    """
    return _values(scores, levels, "AP", level, valid=valid, ties=ties)


def recall_at_k(
    scores: Any, levels: Any, *, k: int, level: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    """R@k of each query: 1 if any item at level ≥ l is in the top k (Ramzi et al., Eq. 13), a hit rate.

    Otherwise as :func:`average_precision`; the fraction of positives found is :func:`true_recall_at_k`.

    >>> recall_at_k([[3, 2, 1]], [[0, 1, 1]], k=1)
    array([0.])
    """
    return _values(scores, levels, _cut_at(k, "R"), level, valid=valid, ties=ties)


def true_recall_at_k(
    scores: Any, levels: Any, *, k: int, level: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    """TR@k of each query: items at level ≥ l in the top k / min(k, all of them) (Ramzi et al., Eq. 14, 15).

    Otherwise as :func:`average_precision`.

    >>> true_recall_at_k([[3, 2, 1]], [[0, 1, 1]], k=2)
    array([0.5])
    """
    return _values(scores, levels, _cut_at(k, "TR"), level, valid=valid, ties=ties)


def precision_at_k(
    scores: Any, levels: Any, *, k: int, level: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    """P@k of each query: items at level ≥ l in the top k / k, also where the gallery is smaller than k.

    Otherwise as :func:`average_precision`.

    >>> precision_at_k([[3, 2, 1]], [[0, 1, 1]], k=2)
    array([0.5])
    """
    return _values(scores, levels, _cut_at(k, "P"), level, valid=valid, ties=ties)


def map_at_r(
    scores: Any, levels: Any, *, level: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    """mAP@R of each query: precisions at the positives within the top R, summed, / R, with R positives.

    Musgrave, Belongie and Lim, *A Metric Learning Reality Check*, ECCV 2020. Otherwise as :func:`average_precision`.

    >>> map_at_r([[3, 2, 1]], [[1, 0, 1]])
    array([0.5])
    """
    return _values(scores, levels, "mAP@R", level, valid=valid, ties=ties)


def map_at_k(
    scores: Any, levels: Any, *, k: int, level: int | None = None, valid: Any = None, ties: Ties = Conventions.ties
) -> NDArray[np.float64]:
    """mAP@k of each query: precisions at the positives within the top k, summed, / min(k, positives), as GLDv2 does.

    Otherwise as :func:`average_precision`.

    >>> map_at_k([[3, 2, 1]], [[1, 0, 1]], k=2)
    array([0.5])
    """
    return _values(scores, levels, _cut_at(k, "mAP"), level, valid=valid, ties=ties)


class PrecisionRecall(NamedTuple):
    """Curves over the ranks 1 … N, both (Q, N) float64."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]


def hierarchical_precision_recall(
    scores: Any,
    levels: Any,
    *,
    alpha: float = Conventions.alpha,
    relevance: Relevance = Conventions.relevance,
    valid: Any = None,
    num_levels: int | None = None,
    ties: Ties = Conventions.ties,
) -> PrecisionRecall:
    r"""H-P@k and H-R@k of each query at every rank k (Ramzi et al., Eq. 30, 31).

    .. math:: H\text{-}R@k = \frac1R \sum_{j \le k} rel(j), \qquad
        H\text{-}P@k = \frac{1}{k \, rel(k)} \sum_{j \le k} \min(rel(j), rel(k))

    H-P@k is 0 at an irrelevant item, so that without ties H-AP = Σ_k (H-R@k − H-R@(k−1))·H-P@k. Under ``"average"``
    each curve is an expectation, and that sum is not one of the product. Ranks beyond the valid items have precision 0.
    Arguments as :func:`h_ap`; ``num_levels`` is L, the largest of ``levels`` unless given. A query without
    positives has NaN throughout.

    Raises:
        OptionError: ``ties="paper"``, under which some ranks have no item.
        InputError: as :func:`evaluate_scores`.

    >>> curves = hierarchical_precision_recall([[0.9, 0.8, 0.7]], [[0, 2, 1]])
    >>> curves.precision.round(3), curves.recall.round(3)
    (array([[0.   , 0.5  , 0.667]]), array([[0.   , 0.667, 1.   ]]))
    """
    from .formulas.average_precision import hierarchical_curves
    from .ranking.ranked import ranked_positives, ratio, sort_matrix

    lists, depth = as_score_matrix(scores, levels, valid, num_levels)
    options = CheckedOptions(alpha=alpha, relevance=relevance, ties=ties)
    request = options.request(num_queries=len(lists.scores), num_levels=depth)
    if ties == "paper":
        raise OptionError("ties='paper'", expected="a policy that gives every rank one item")
    totals = lists.totals(depth)
    table = request.table(H_AP, totals, slice(None))
    ranked = ranked_positives(sort_matrix(*lists, ties=ties), ties, table)
    precision, recall = np.zeros(lists.scores.shape), np.zeros(lists.scores.shape)
    hierarchical_curves(ranked, table, precision, recall)
    total = (table * totals).sum(axis=1, keepdims=True)
    return PrecisionRecall(np.where(total > 0, precision, np.nan), ratio(recall, total))


def _cut_at(k: object, kind: str) -> str:
    check_integer("k", k)
    return f"{kind}@{k}"


def _values(
    scores: Any, levels: Any, name: str, level: int | None = None, *, valid: Any, ties: Ties
) -> NDArray[np.float64]:
    check_integer("level", level, or_none=True)
    metric = name if level is None else f"{name}[{level}]"
    return evaluate_scores(scores, levels, valid=valid, metrics=[metric], ties=ties).values[:, 0]
