"""One metric at a time, as functions of scores and levels, both (Q, N): the formulas on ranked lists.

All take the same arguments. ``scores`` are (Q, N), larger meaning nearer; ``levels`` are (Q, N) integers 0 … L;
``valid``, (Q, N) booleans, leaves an item out where it is False; ``ties`` is as :func:`evaluate_scores` takes it. A
``level`` l counts items at level ≥ l as positives, by default those of the finest level in ``levels``; ``k`` cuts each
list. They return (Q,) float64, NaN for a query without positives, and raise what :func:`evaluate_scores` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import OptionError, ShapeError
from hiertree.evaluation_options import (
    ArrayLike,
    Conventions,
    Labels,
    MatrixConventions,
    MatrixOptions,
    Relevance,
    Ties,
)
from hiertree.io.tables import is_empty
from hiertree.level_columns import UNKNOWN
from hiertree.options import check_integer, check_number, with_options_of

from .conventions import FAMILIES, CheckedOptions, MetricRequest
from .evaluation.scores import as_score_matrix

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hiertree.jit import Floats

    from .engine.retrieval import ScoredLists


@with_options_of(MatrixConventions)
def h_ap(
    scores: ArrayLike,
    levels: ArrayLike,
    *,
    level: int | None = None,
    alpha: float = Conventions.alpha,
    relevance: Relevance = Conventions.relevance,
    **options: Unpack[MatrixOptions],
) -> Floats:
    r"""Hierarchical average precision of each query, ``H-AP``; with a level the part of its sum whose k is at it.

    .. math:: \frac{1}{R} \sum_{k \in \Omega^+}
        \frac{rel(k) + \sum_{j \in \Omega^+, j \text{ ahead of } k} \min(rel(k), rel(j))}{rank(k)},
        \qquad R = \sum_{k \in \Omega^+} rel(k)

    Ramzi et al., TPAMI 2025, Eq. 18–20. ``alpha`` is that of the relevance (l/L)^α / \|Ω^(l)\|, ``relevance`` what
    stands in its place, as :func:`evaluate` takes it.

    >>> h_ap([[0.9, 0.8, 0.7]], [[0, 2, 1]]).round(4)
    array([0.5556])
    """
    return _values("H-AP", scores, levels, options, alpha=alpha, relevance=relevance, level=level)


@with_options_of(MatrixConventions)
def ndcg(scores: ArrayLike, levels: ArrayLike, *, k: int | None = None, **options: Unpack[MatrixOptions]) -> Floats:
    r"""Normalized discounted cumulative gain of each query, with gains 2^l − 1 (Ramzi et al., Eq. 23).

    .. math:: \sum_j \frac{2^{level_j} - 1}{\log_2(1 + rank(j))} \Big/ \text{the best reachable}

    With ``k`` only ranks ≤ k count, and the ideal is that of the whole gallery, cut at k.

    >>> ndcg([[0.9, 0.8, 0.7]], [[0, 2, 1]]).round(4)
    array([0.659])
    """
    return _values("NDCG", scores, levels, options, k=k)


@with_options_of(MatrixConventions)
def asi(scores: ArrayLike, levels: ArrayLike, *, level: int | None = None, **options: Unpack[MatrixOptions]) -> Floats:
    r"""Average set intersection of each query: the mean over n ≤ \|Ω⁺\| of \|top-n ∩ ideal top-n\| / n.

    The intersection is of multisets of levels; with a level, of two: its items and the rest.
    Fagin, Kumar and Sivakumar, *Comparing top k lists*, 2003; Ramzi et al., App. C-A1.

    >>> asi([[0.9, 0.8, 0.7]], [[0, 2, 1]])
    array([0.25])
    """
    return _values("ASI", scores, levels, options, level=level)


@with_options_of(MatrixConventions)
def average_precision(
    scores: ArrayLike, levels: ArrayLike, *, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    r"""AP^(l) of each query: the mean over the items at level ≥ l of the precision at their rank.

    >>> average_precision([[5, 4, 3, 2, 1]], [[1, 1, 0, 0, 1]]).round(2)  # (1/1 + 2/2 + 3/5) / 3
    array([0.87])
    """
    return _values("AP", scores, levels, options, level=level)


@with_options_of(MatrixConventions)
def average_precision_of_level(
    scores: ArrayLike, levels: ArrayLike, *, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """AP#l of each query: AP of the items at level l alone, those of a deeper level taken out of the list.

    >>> average_precision_of_level([[3, 2, 1]], [[2, 0, 1]], level=1)
    array([0.5])
    """
    return _values("AP#", scores, levels, options, level=level)


@with_options_of(MatrixConventions)
def average_precision_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """Hashing's AP@k of each query: precisions at the positives of the top k, / how many it holds; 0 if it holds none.

    >>> average_precision_at_k([[3, 2, 1]], [[1, 0, 1]], k=2)
    array([1.])
    """
    return _values("AP@", scores, levels, options, k=k, level=level)


@with_options_of(MatrixConventions)
def recall_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """R@k of each query: 1 if any item at level ≥ l is in the top k (Ramzi et al., Eq. 13), a hit rate.

    The fraction of positives found is :func:`true_recall_at_k`.

    >>> recall_at_k([[3, 2, 1]], [[0, 1, 1]], k=1)
    array([0.])
    """
    return _values("R", scores, levels, options, k=k, level=level)


@with_options_of(MatrixConventions)
def true_recall_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """TR@k of each query: items at level ≥ l in the top k / min(k, all of them) (Ramzi et al., Eq. 14, 15).

    >>> true_recall_at_k([[3, 2, 1]], [[0, 1, 1]], k=2)
    array([0.5])
    """
    return _values("TR", scores, levels, options, k=k, level=level)


@with_options_of(MatrixConventions)
def precision_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """P@k of each query: items at level ≥ l in the top k / k, also where the gallery is smaller than k.

    >>> precision_at_k([[3, 2, 1]], [[0, 1, 1]], k=2)
    array([0.5])
    """
    return _values("P", scores, levels, options, k=k, level=level)


@with_options_of(MatrixConventions)
def r_precision(
    scores: ArrayLike, levels: ArrayLike, *, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """R-precision of each query, ``P@R``: items at level ≥ l in the top R / R, with R of them in all.

    >>> r_precision([[3, 2, 1]], [[0, 1, 1]])
    array([0.5])
    """
    return _values("P@R", scores, levels, options, level=level)


@with_options_of(MatrixConventions)
def map_at_r(
    scores: ArrayLike, levels: ArrayLike, *, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """mAP@R of each query: precisions at the positives within the top R, summed, / R, with R positives.

    Musgrave, Belongie and Lim, *A Metric Learning Reality Check*, ECCV 2020.

    >>> map_at_r([[3, 2, 1]], [[1, 0, 1]])
    array([0.5])
    """
    return _values("mAP@R", scores, levels, options, level=level)


@with_options_of(MatrixConventions)
def map_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, level: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """mAP@k of each query: precisions at the positives within the top k, summed, / min(k, positives), as GLDv2 does.

    >>> map_at_k([[3, 2, 1]], [[1, 0, 1]], k=2)
    array([0.5])
    """
    return _values("mAP", scores, levels, options, k=k, level=level)


@with_options_of(MatrixConventions)
def reciprocal_rank(
    scores: ArrayLike,
    levels: ArrayLike,
    *,
    k: int | None = None,
    level: int | None = None,
    **options: Unpack[MatrixOptions],
) -> Floats:
    """``MRR`` of each query: 1 / rank of the first item at level ≥ l, 0 beyond k.

    >>> reciprocal_rank([[3, 2, 1]], [[0, 1, 1]])
    array([0.5])
    """
    return _values("MRR", scores, levels, options, k=k, level=level)


@with_options_of(MatrixConventions)
def hierarchical_precision_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, **options: Unpack[MatrixOptions]
) -> Floats:
    """HP@k of each query: Σ of l / L over the top k, / the best that k items of the gallery reach.

    Barz and Denzler, *Hierarchy-based image embeddings for semantic image retrieval*, WACV 2019.

    >>> hierarchical_precision_at_k([[3, 2, 1]], [[1, 0, 2]], k=2).round(3)  # 1 / (2 + 1)
    array([0.333])
    """
    return _values("HP", scores, levels, options, k=k)


@with_options_of(MatrixConventions)
def average_hierarchical_precision(
    scores: ArrayLike, levels: ArrayLike, *, k: int | None = None, **options: Unpack[MatrixOptions]
) -> Floats:
    """``AHP`` of each query: the mean of HP@1 … HP@k; of the whole list without k (Barz and Denzler, WACV 2019).

    >>> average_hierarchical_precision([[3, 2, 1]], [[1, 0, 2]]).round(3)  # (1/2 + 1/3 + 3/3) / 3
    array([0.611])
    """
    return _values("AHP", scores, levels, options, k=k)


@with_options_of(MatrixConventions)
def hierarchical_distance_at_k(
    scores: ArrayLike, levels: ArrayLike, *, k: int, **options: Unpack[MatrixOptions]
) -> Floats:
    """HD@k of each query: the mean of L − l over the top k, the height of the common ancestor; L beyond the list.

    Bertinetto et al., *Making better mistakes*, CVPR 2020. Lower is better.

    >>> hierarchical_distance_at_k([[3, 2, 1]], [[1, 0, 2]], k=2)
    array([1.5])
    """
    return _values("HD", scores, levels, options, k=k)


@with_options_of(MatrixConventions)
def mistake_severity(scores: ArrayLike, levels: ArrayLike, **options: Unpack[MatrixOptions]) -> Floats:
    """Mistake severity of each query: L − l of the first item where that is wrong, below level L; else NaN.

    Bertinetto et al., CVPR 2020. Lower is better. Of several items that tie first the mean over the wrong ones; an
    order with another one first leaves the query out, so that there is no bound; ``"worst"``, ``"best"`` are refused.

    >>> mistake_severity([[3, 2, 1], [3, 2, 1]], [[1, 0, 2], [2, 0, 1]])
    array([ 1., nan])
    """
    return _values("mistake-severity", scores, levels, options)


@with_options_of(MatrixConventions)
def hops(scores: ArrayLike, levels: ArrayLike, *, k: int | None = None, **options: Unpack[MatrixOptions]) -> Floats:
    """HOPS of each query: 1 − the weighted difference of the order of levels from the ideal, / that of its reverse.

    Sani and Anand, 2025; :doc:`docs/metrics.md <metrics>` has the formula.

    >>> hops([[3, 2, 1]], [[2, 1, 0]])
    array([1.])
    """
    return _values("HOPS", scores, levels, options, k=k)


@with_options_of(MatrixConventions)
def first_error(scores: ArrayLike, levels: ArrayLike, *, level: int, **options: Unpack[MatrixOptions]) -> Floats:
    r"""The probability that the first item below level L in the best \|Ω^(L)\| is at the level; L: that there is none.

    >>> first_error([[3, 2, 1]], [[1, 2, 0]], level=1)
    array([1.])
    """
    return _values("first-error", scores, levels, options, level=level)


@with_options_of(MatrixConventions)
def micro_average_precision(
    scores: ArrayLike,
    levels: ArrayLike,
    *,
    k: int | None = None,
    level: int | None = None,
    **options: Unpack[MatrixOptions],
) -> float:
    r"""Global AP, µAP or GAP, of the predictions of all queries in one list.

    .. math:: \frac1M \sum_i P(i) \, rel(i), \qquad M = \sum_q \min(k, \text{positives of } q)

    The k best items of each query (of equal ones those of smaller index) are pooled and ranked by their scores; P(i) is
    the precision of the first i. A query of no class adds only what ranks wrong. With k = 1 it is GAP of GLDv2's
    recognition (Weyand et al., CVPR 2020), without k the µAP of DISC21 (Douze et al., 2021).

    Returns:
        A number in [0, 1]; NaN without any positive.

    >>> micro_average_precision([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]], [[1, 0], [0, 0], [1, 0]], k=1).__round__(4)
    0.8333
    """
    check_integer("k", k, or_none=True)
    conventions = MatrixConventions(**options)
    lists, _ = as_score_matrix(scores, levels, conventions.valid, None)
    depth = int(lists.levels.max(initial=1)) if level is None else level
    is_positive = (lists.levels >= depth) & ~lists.excluded
    columns = np.argsort(np.where(lists.excluded, np.inf, -lists.scores), axis=1, kind="stable")[:, :k]
    cells = lists.scores, is_positive, ~lists.excluded
    pooled, hits, is_valid = (np.take_along_axis(cell, columns, axis=1).ravel()[None] for cell in cells)
    num_possible = np.minimum(is_positive.sum(axis=1), k or lists.scores.shape[1]).sum()
    if not hits.any():
        return float("nan") if num_possible == 0 else 0.0
    values = average_precision(pooled, hits, valid=is_valid, ties=conventions.ties)
    return float(values[0] * hits.sum() / num_possible)


class HierarchicalScores(NamedTuple):
    """Of a classification: hP, hR and hF."""

    precision: float
    recall: float
    f_score: float


def hierarchical_scores(
    predicted_paths: Labels | Sequence[Sequence[Hashable]],
    true_paths: Labels | Sequence[Sequence[Hashable]],
    *,
    beta: float = 1.0,
) -> HierarchicalScores:
    r"""Hierarchical precision, recall and F of predicted classes, by their sets of ancestors.

    .. math:: hP = \frac{\sum_i |P_i \cap T_i|}{\sum_i |P_i|}, \qquad hR = \frac{\sum_i |P_i \cap T_i|}{\sum_i |T_i|},
        \qquad hF = \frac{(1 + \beta^2) \, hP \, hR}{\beta^2 hP + hR}

    with the predicted class and its ancestors P_i and the true ones T_i, the root in neither. Kiritchenko, Matwin, Nock
    and Famili, 2006; as scikit-learn's pull request 16548 computes them.

    Args:
        predicted_paths: n paths, coarse → fine: (n, L) ids or labels, −1 or a missing label where one ends, or n
            sequences of any lengths.
        true_paths: likewise.
        beta: the weight of recall.

    Raises:
        ShapeError: another number of paths.
        OptionError: beta that is not above 0.

    >>> hierarchical_scores([("animal", "bird", "robin"), ("animal", "dog")], [("animal", "bird"), ("animal", "cat")])
    HierarchicalScores(precision=0.6, recall=0.75, f_score=0.6666666666666665)
    """
    check_number("beta", beta, above=0)
    predicted, true = _known_paths(predicted_paths), _known_paths(true_paths)
    if len(predicted) != len(true):
        raise ShapeError(f"{len(predicted)} predicted paths", expected=f"{len(true)}, as there are true ones")
    common = 0
    for pair in zip(predicted, true, strict=True):
        agreements = takewhile(lambda labels: labels[0] == labels[1], zip(*pair, strict=False))
        common += sum(1 for _ in agreements)
    precision, recall = (common / max(sum(map(len, paths)), 1) for paths in (predicted, true))
    total = beta**2 * precision + recall
    return HierarchicalScores(precision, recall, (1 + beta**2) * precision * recall / total if total else 0.0)


def _known_paths(paths: Any) -> list[list[Any]]:
    """Each path down to where it ends."""
    rows = paths.to_numpy() if hasattr(paths, "to_numpy") else paths
    if not isinstance(rows, list | tuple):
        rows = to_numpy(rows).tolist()
    rows = [row if isinstance(row, list | tuple) else [row] for row in rows]
    return [[*takewhile(lambda label: not (is_empty(label) or label == UNKNOWN), row)] for row in rows]


class PrecisionRecall(NamedTuple):
    """Curves over the ranks 1 … N, both (Q, N) float64."""

    precision: Floats
    recall: Floats


def hierarchical_precision_recall(
    scores: ArrayLike,
    levels: ArrayLike,
    *,
    alpha: float = Conventions.alpha,
    relevance: Relevance = Conventions.relevance,
    valid: ArrayLike | None = None,
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
    from .ranking.ranked import rank_matrix, ratio

    lists, request = _matrix(scores, levels, valid, num_levels, alpha=alpha, relevance=relevance, ties=ties)
    if ties == "paper":
        raise OptionError("ties='paper'", expected="a policy that gives every rank one item")
    totals = lists.totals(request.num_levels)
    table = request.table(totals, slice(None))
    ranked = rank_matrix(*lists, ties=ties)(ties, table)
    precision, recall = np.zeros(lists.scores.shape), np.zeros(lists.scores.shape)
    hierarchical_curves(ranked, table, precision, recall)
    total = (table * totals).sum(axis=1, keepdims=True)
    return PrecisionRecall(np.where(total > 0, precision, np.nan), ratio(recall, total))


def _matrix(
    scores: ArrayLike, levels: ArrayLike, valid: ArrayLike | None, num_levels: int | None, **conventions: Any
) -> tuple[ScoredLists, MetricRequest]:
    """The checked matrix, and a request of no metric with its levels and conventions."""
    lists, depth = as_score_matrix(scores, levels, valid, num_levels)
    options = CheckedOptions(metrics=["H-AP"], **conventions)
    return lists, options.request(num_queries=len(lists.scores), num_levels=depth)


def _values(
    kind: str,
    scores: ArrayLike,
    levels: ArrayLike,
    matrix_options: MatrixOptions,
    *,
    alpha: float = Conventions.alpha,
    relevance: Relevance = Conventions.relevance,
    **options: int | None,
) -> Floats:
    """(Q,) the values of a formula with its options."""
    from .engine.retrieval import Retrieval, values_of_lists  # takes numba with it
    from .formulas import FORMULAS

    conventions = MatrixConventions(**matrix_options)
    ties = conventions.ties
    lists, request = _matrix(scores, levels, conventions.valid, None, alpha=alpha, relevance=relevance, ties=ties)
    family, depth = FAMILIES[kind], request.num_levels
    family.refuse_ties(ties)
    if "k" in options:
        check_integer("k", options["k"], least=1, or_none=family.has_optional_cutoff)
    if options.get("level", 0) is None and not family.of_level:
        del options["level"]
    if "level" in options:
        check_integer("level", options["level"], least=family.lowest, or_none=True)
        options["level"] = level = depth if options["level"] is None else options["level"]
        if level > depth:
            raise OptionError(f"level={level}", expected=f"a level between {family.lowest} and {depth} (finest)")
    retrieval = Retrieval(lists, request, lists.totals(depth), None, num_ranks=lists.scores.shape[1])
    formula: Callable[..., Floats] = FORMULAS[kind]
    return values_of_lists(retrieval, partial(formula, **options))[:, 0]
