"""Evaluation of a score matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import MAX_LEVELS, as_float64, to_numpy
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.level_columns import check_same_rows

from ..conventions.protocols import ProtocolName, resolve_rules
from ..conventions.request import Relevance, metric_request
from ..conventions.rules import Compat, Rules
from ..conventions.ties import Ties
from ..result import Evaluation
from .inputs import checked_num_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..engine.retrieval import ScoredLists


def evaluate_scores(
    scores: Any,
    levels: Any,
    *,
    valid: Any = None,
    num_levels: int | None = None,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    ties: Ties = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | Rules | None = None,
) -> Evaluation:
    """Every metric of a matrix of scores, larger meaning nearer.

    Args:
        scores: (Q, N) real numbers, numpy or torch; ±inf are scores like others. float64 is compared as such,
            wider types and integers of 32 or 64 bits as float64, every other type as float32. Two frames of pandas
            must have one index and one set of columns.
        levels: (Q, N) integers 0 … L, as :func:`hiertree.levels` gives them.
        valid: (Q, N) booleans; False leaves an item out of the gallery of that query (the query itself, junk).
        num_levels: L; the largest of ``levels`` unless given.
        metrics: names (see :mod:`hiertree.metrics`); the default ones unless given.
        alpha: of the relevance of ``H-AP``, (l/L)^α / |Ω^(l)|.
        relevance: in place of that, a function of counts or a table, as :func:`evaluate` takes it.
        ties: ``"average"``, ``"worst"``, ``"best"``, ``"paper"`` or ``"index"``.
        protocol: a benchmark that names the metrics and sets its rules; see :func:`evaluate`.
        compat: the rules of others; see :func:`evaluate`. Which items are in a list and counted, ``valid`` alone says.

    Raises:
        ShapeError: arrays that are not (Q, N), or of different shapes, or empty.
        EmbeddingError: a score is NaN.
        InputError: an integer beyond 2^53 that float64 rounds.
        PathError: levels that are not integers in 0 … L.
        OptionError: an unknown metric or option.

    >>> import numpy as np
    >>> scores, levels = np.array([[0.9, 0.8, 0.7]]), np.array([[2, 0, 1]])
    >>> evaluate_scores(scores, levels, metrics=["AP[1]", "AP[2]", "ASI"]).summary().round(4).to_dict()
    {'AP[1]': 0.8333, 'AP[2]': 1.0, 'ASI': 0.75}
    """
    from ..engine.retrieval import Retrieval, values_of_lists  # takes numba with it

    lists, depth = as_score_matrix(scores, levels, valid, num_levels)
    protocol_asked, rules = resolve_rules(protocol, compat)
    request = metric_request(
        metrics,
        num_queries=len(lists.scores),
        num_levels=depth,
        alpha=alpha,
        relevance=relevance,
        ties=ties,
        protocol=protocol_asked,
        rules=replace(rules, counts="strict", itself="masked", worst="kept"),
    )
    left_out = int(lists.excluded.sum())
    card = request.convention(
        self_rule="score matrix, " + (f"{left_out} entries masked" if left_out else "nothing masked"),
        scores=f"as given, {lists.scores.dtype}",
        counts="strict: the valid items of each query",
    )
    retrieval = Retrieval(lists, request, lists.totals(depth), None, card, range(len(lists.scores)))
    return retrieval.evaluation(values_of_lists(retrieval))


def as_score_matrix(scores: Any, levels: Any, valid: Any, num_levels: int | None) -> tuple[ScoredLists, int]:
    """Check scores, levels and mask of a score matrix; the number of levels too."""
    from ..engine.retrieval import ScoredLists

    for axis in ("index", "columns"):
        check_same_rows({"scores": scores, "levels": levels, "valid": valid}, axis=axis)
    checked_scores, checked_levels = _as_scores(scores), _as_levels(levels)
    if checked_levels.shape != checked_scores.shape:
        raise ShapeError(f"levels of shape {checked_levels.shape}", expected=f"the scores' {checked_scores.shape}")
    excluded = ~_as_mask(valid, checked_scores.shape)
    depth = checked_num_levels(num_levels, deepest=int(checked_levels.max(initial=0)))
    return ScoredLists(checked_scores, checked_levels, excluded), depth


def _as_scores(scores: Any) -> NDArray[Any]:
    """Check a score matrix and return it C-contiguous as float32, or as float64 if it was wider."""
    array = to_numpy(scores)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"scores of shape {array.shape}", expected="shape (Q, N) with N ≥ 1")
    if array.dtype.kind not in "fiub":
        raise EmbeddingError(f"scores of type {array.dtype}", expected="real numbers")
    wide = array.dtype.itemsize > (4 if array.dtype.kind == "f" else 2)
    if wide:
        array = as_float64(scores if isinstance(scores, list | tuple) else array, name="scores")
    array = np.ascontiguousarray(array, dtype=np.float64 if wide else np.float32)
    bad = np.flatnonzero(np.isnan(array).any(axis=1))
    if len(bad):
        raise EmbeddingError(f"scores hold NaN in {len(bad)} rows, first in row {bad[0]}", expected="numbers or ±inf")
    return array


def _as_levels(levels: Any) -> NDArray[np.uint8]:
    """Check a level matrix and return it C-contiguous as uint8."""
    array = to_numpy(levels)
    if array.ndim != 2:
        raise ShapeError(f"levels of shape {array.shape}", expected="shape (Q, N)")
    expected = f"integers from 0 to {MAX_LEVELS}"
    if array.dtype.kind not in "iub":
        raise PathError(f"levels of type {array.dtype}", expected=expected)
    if array.min(initial=0) < 0 or array.max(initial=0) > MAX_LEVELS:
        raise PathError(f"levels from {array.min()} to {array.max()}", expected=expected)
    return np.ascontiguousarray(array, dtype=np.uint8)


def _as_mask(valid: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Check a mask of the items that count; None means all."""
    if valid is None:
        return np.ones(shape, np.bool_)
    mask = to_numpy(valid)
    if mask.shape != shape or mask.dtype != np.bool_:
        raise ShapeError(f"valid of shape {mask.shape} and type {mask.dtype}", expected=f"booleans of shape {shape}")
    if mask.size and not mask.any():
        raise OptionError("valid without a True", expected="True for the items that count, at least one")
    return np.ascontiguousarray(mask)
