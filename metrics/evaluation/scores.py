"""Evaluation of a score matrix, and the levels that ROxford5k and RParis6k have beside theirs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hiertree.arrays import MAX_LEVELS, as_float64, check_same_rows, to_numpy
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.evaluation_options import ArrayLike, MetricOptions
from hiertree.options import check_choice, check_integer, with_options_of

from ..conventions import CheckedOptions
from ..result import Evaluation
from . import checked_num_levels

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from ..engine.retrieval import ScoredLists

Setup: TypeAlias = Literal["easy", "medium", "hard"]
_POSITIVES: Mapping[Setup, tuple[str, ...]] = {"easy": ("easy",), "medium": ("easy", "hard"), "hard": ("hard",)}
_LISTS = ("easy", "hard", "junk")
_SAMPLE = 64  # rows


@with_options_of(CheckedOptions)
def evaluate_scores(
    scores: ArrayLike | IntoDataFrame,
    levels: ArrayLike | IntoDataFrame,
    *,
    valid: ArrayLike | IntoDataFrame | None = None,
    num_levels: int | None = None,
    **options: Unpack[MetricOptions],
) -> Evaluation:
    """Every metric of a matrix of scores, larger meaning nearer: negate distances.

    Args:
        scores: (Q, N) real numbers, numpy or torch; ±inf are scores like others. float64 is compared as such,
            wider types and integers of 32 or 64 bits as float64, every other type as float32. Two frames of pandas
            must have one index and one set of columns.
        levels: (Q, N) integers 0 … L, as :func:`hiertree.levels` gives them.
        valid: (Q, N) booleans; False leaves an item out of the gallery of that query (the query itself, junk). Without
            it, a matrix that seems to be that of a set with itself is warned of.
        num_levels: L; the largest of ``levels`` unless given.
        **options: as :func:`evaluate` takes them; which items are in a list and counted, ``valid`` alone says.
            ``metrics`` has ``AP@k`` too, as :func:`evaluate_codes`.

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

    checked_options = CheckedOptions(**options).replace_rules(counts="strict", itself="masked", worst="kept")
    lists, depth = as_score_matrix(scores, levels, valid, num_levels)
    request = checked_options.request(num_queries=len(lists.scores), num_levels=depth, of_codes=True)
    if valid is None and _holds_queries(lists.scores, lists.levels, depth):
        remedy = "pass valid=~np.eye(len(scores), dtype=bool) to leave it out, or embeddings to evaluate"
        warnings.warn(f"each query counts as an item of its own list: {remedy}", UserWarning, stacklevel=3)
    values = values_of_lists(Retrieval(lists, request, lists.totals(depth), None, num_ranks=lists.scores.shape[1]))
    left_out = int(lists.excluded.sum())
    card = request.convention(
        self_rule="score matrix, " + (f"{left_out} entries masked" if left_out else "nothing masked"),
        ranked_by="given scores",
        details=str(lists.scores.dtype),
        counts="strict: the valid items of each query",
    )
    return Evaluation(request.names, values, range(len(values)), card)


def _holds_queries(scores: NDArray[Any], levels: NDArray[np.uint8], depth: int) -> bool:
    """Whether a matrix seems to be that of a set with itself: symmetric, or each best where it meets itself."""
    if len(scores) < 2 or scores.shape[0] != scores.shape[1] or (levels.diagonal() != depth).any():
        return False
    some = min(len(scores), _SAMPLE)
    is_symmetric = np.allclose(scores[:some], scores[:, :some].T, rtol=1e-4, atol=1e-6)
    return is_symmetric or bool((scores.diagonal() >= scores.max(axis=1)).all())


def as_score_matrix(scores: Any, levels: Any, valid: Any, num_levels: int | None) -> tuple[ScoredLists, int]:
    """The checked scores, levels and mask of a score matrix, and the number of levels."""
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
    array = to_numpy(scores, name="scores")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"scores of shape {array.shape}", expected="shape (Q, N) with N ≥ 1")
    if array.dtype.kind not in "fiub":
        raise EmbeddingError(f"scores of type {array.dtype}", expected="real numbers")
    needs_float64 = array.dtype.itemsize > (4 if array.dtype.kind == "f" else 2)
    if needs_float64:
        array = as_float64(scores if isinstance(scores, list | tuple) else array, name="scores")
    array = np.ascontiguousarray(array, dtype=np.float64 if needs_float64 else np.float32)
    bad = np.flatnonzero(np.isnan(array).any(axis=1))
    if len(bad):
        raise EmbeddingError(f"scores hold NaN in {len(bad)} rows, first in row {bad[0]}", expected="numbers or ±inf")
    return array


def _as_levels(levels: Any) -> NDArray[np.uint8]:
    array = to_numpy(levels, name="levels")
    if array.ndim != 2:
        raise ShapeError(f"levels of shape {array.shape}", expected="shape (Q, N)")
    expected = f"integers from 0 to {MAX_LEVELS}"
    if array.dtype.kind not in "iub":
        raise PathError(f"levels of type {array.dtype}", expected=expected)
    if array.min(initial=0) < 0 or array.max(initial=0) > MAX_LEVELS:
        raise PathError(f"levels from {array.min()} to {array.max()}", expected=expected)
    return np.ascontiguousarray(array, dtype=np.uint8)


def _as_mask(valid: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if valid is None:
        return np.ones(shape, np.bool_)
    mask = to_numpy(valid, name="valid")
    if mask.shape != shape or mask.dtype != np.bool_:
        raise ShapeError(f"valid of shape {mask.shape} and type {mask.dtype}", expected=f"booleans of shape {shape}")
    if mask.size and not mask.any():
        raise OptionError("valid is False everywhere", expected="True for at least one item that counts")
    return np.ascontiguousarray(mask)


class RevisitedLevels(NamedTuple):
    """Arguments of :func:`evaluate_scores`, both (Q, N): uint8 ``levels`` and boolean ``valid``."""

    levels: NDArray[np.uint8]
    valid: NDArray[np.bool_]


def revisitop_levels(
    ground_truth: Sequence[Mapping[str, Any]], num_items: int, *, setup: Setup = "medium"
) -> RevisitedLevels:
    """Positives and junk of a setup of the revisited Oxford and Paris benchmarks, as levels and a mask.

    Medium: easy and hard images are positive; Hard: hard ones, easy is junk; Easy: easy ones, hard is junk. Junk leaves
    the list. Radenović et al., *Revisiting Oxford and Paris*, CVPR 2018.

    Args:
        ground_truth: for each query gallery indices under ``easy``, ``hard`` and ``junk`` (``gnd`` of the published
            file).
        num_items: N, distractors included.
        setup: one of the three.

    Raises:
        OptionError: an unknown setup, or a query without one of the lists.
        PathError: an index outside the gallery, or in two lists of a query.

    >>> from hiertree.metrics import evaluate_scores
    >>> truth = [{"easy": [1], "hard": [3], "junk": [0]}]
    >>> levels, valid = revisitop_levels(truth, 4, setup="hard")
    >>> evaluate_scores([[0.9, 0.8, 0.7, 0.6]], levels, valid=valid, protocol="revisitop").summary().to_dict()
    {'AP': 0.25, 'P@1': 0.0, 'P@5': 0.5, 'P@10': 0.5}
    """
    check_choice("setup", setup, Setup)
    check_integer("num_items", num_items, least=0)
    truths: Any = ground_truth
    truths = list(truths) if np.iterable(truths) else [None]
    if not all(isinstance(lists, Mapping) for lists in truths):
        raise OptionError("a ground truth without mappings", expected="lists easy, hard and junk for each query")
    levels = np.zeros((len(truths), num_items), np.uint8)
    valid = np.ones(levels.shape, np.bool_)
    for query, lists in enumerate(truths):
        if not set(_LISTS) <= set(lists):
            raise OptionError(f"ground truth of query {query}", expected="lists easy, hard and junk")
        images = [to_numpy(lists[name]).ravel() for name in _LISTS]
        are_integers = all(indices.dtype.kind in "iu" or not indices.size for indices in images)
        all_indices = np.concatenate(images)
        if (
            not are_integers
            or ((all_indices < 0) | (all_indices >= num_items)).any()
            or len(np.unique(all_indices)) < len(all_indices)
        ):
            raise PathError(f"ground truth of query {query}", expected=f"indices from 0 to {num_items - 1}, each once")
        for name, indices in zip(_LISTS, images, strict=True):
            if name in _POSITIVES[setup]:
                levels[query, indices.astype(np.int64)] = 1
            else:
                valid[query, indices.astype(np.int64)] = False
    return RevisitedLevels(levels, valid)
