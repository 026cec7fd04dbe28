"""What two benchmarks need beside an evaluation: the levels of ROxford5k and RParis6k, and DyML's mean over results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import OptionError, PathError
from hiertree.options import check_choice, check_integer

from ..result import Evaluation

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Setup: TypeAlias = Literal["easy", "medium", "hard"]
_POSITIVES: Mapping[Setup, tuple[str, ...]] = {"easy": ("easy",), "medium": ("easy", "hard"), "hard": ("hard",)}
_LISTS = ("easy", "hard", "junk")


class RevisitedLevels(NamedTuple):
    """What :func:`evaluate_scores` takes beside the scores, both (Q, N): levels, uint8, and booleans ``valid``."""

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
    given: Any = list(ground_truth) if np.iterable(ground_truth) else [None]
    if not all(isinstance(lists, Mapping) for lists in given):
        raise OptionError("a ground truth that is no list of mappings", expected="lists easy, hard and junk a query")
    levels = np.zeros((len(given), num_items), np.uint8)
    valid = np.ones(levels.shape, np.bool_)
    for query, lists in enumerate(given):
        if not set(_LISTS) <= set(lists):
            raise OptionError(f"ground truth of query {query}", expected="lists easy, hard and junk")
        images = [to_numpy(lists[name]).ravel() for name in _LISTS]
        whole = all(own.dtype.kind in "iu" or not own.size for own in images)
        listed = np.concatenate(images)
        if not whole or ((listed < 0) | (listed >= num_items)).any() or len(np.unique(listed)) < len(listed):
            raise PathError(f"ground truth of query {query}", expected=f"indices from 0 to {num_items - 1}, each once")
        for name, own in zip(_LISTS, images, strict=True):
            if name in _POSITIVES[setup]:
                levels[query, own.astype(np.int64)] = 1
            else:
                valid[query, own.astype(np.int64)] = False
    return RevisitedLevels(levels, valid)


def overall(results: Evaluation | Mapping[str, Evaluation]) -> pd.Series[float]:
    """The unweighted mean of each metric over benchmarks and levels, DyML's "overall".

    DyML-Vehicle and -Animal have one query set and gallery for each level: give the three results by name. For
    DyML-Product give the one result, whose columns ``AP[1]``, ``AP[2]``, … become ``AP``.

    Args:
        results: one evaluation, or several of the same metrics by the name of their benchmark.

    Returns:
        A mean for each metric, its level taken off the name.

    Raises:
        OptionError: no result, results of different metrics, or a metric that some benchmark has no value for.

    >>> from hiertree.metrics import evaluate
    >>> embeddings, fine = [[1.0, 0.0], [0.9, 0.1], [0.2, 0.8], [0.0, 1.0]], [0, 0, 1, 1]
    >>> results = {
    ...     "fine": evaluate(embeddings, fine, protocol="dyml"),
    ...     "coarse": evaluate(embeddings, [0, 1, 0, 1], protocol="dyml"),
    ... }
    >>> overall(results).round(3).to_dict()
    {'AP': 0.708, 'ASI': 0.5, 'R@1': 0.5, 'R@10': 1.0, 'R@20': 1.0}
    """
    import pandas as pd

    named: Any = {"the result": results} if isinstance(results, Evaluation) else results
    if not isinstance(named, Mapping) or not all(isinstance(result, Evaluation) for result in named.values()):
        raise OptionError(f"results of type {type(results).__name__}", expected="an evaluation, or several by name")
    if not named or len({result.names for result in named.values()}) > 1:
        raise OptionError(f"{len(named)} results", expected="at least one, and all of the same metrics")
    means: dict[str, list[float]] = {}
    for name, result in named.items():
        summary = result.summary()
        for metric in result.names:
            if metric not in summary:
                raise OptionError(f"{metric} of {name} without a value", expected="a query with positives")
            means.setdefault(metric.partition("[")[0], []).append(float(summary[metric]))
    return pd.Series({metric: sum(values) / len(values) for metric, values in means.items()}, dtype=float)
