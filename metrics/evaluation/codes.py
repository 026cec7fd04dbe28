"""Evaluation of binary codes by Hamming distance, where ties are the rule: a code of b bits has b + 1 distances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import EmbeddingError, ShapeError

from ..conventions.protocols import ProtocolName, resolve_rules
from ..conventions.request import MetricRequest, Relevance, metric_request
from ..conventions.rules import Compat, Rules
from ..conventions.ties import Ties
from ..result import Evaluation
from .inputs import Labels, MaskOptions, check_pair, check_same_width, checked_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..engine.codes import Codes
    from ..engine.retrieval import Retrieval

_WORD = 64
_MOST_BITS = 2**16 - _WORD  # so that a distance fits a uint16


def evaluate_codes(
    query_codes: Any,
    query_paths: Any,
    gallery_codes: Any = None,
    gallery_paths: Any = None,
    *,
    metrics: Iterable[str] | None = None,
    alpha: float = 1.0,
    relevance: Relevance | None = None,
    ties: Ties = "average",
    protocol: ProtocolName | None = None,
    compat: Compat | Rules | None = None,
    query_ids: Any = None,
    gallery_ids: Any = None,
    junk: Iterable[Iterable[int]] | None = None,
    distractors: Any = None,
) -> Evaluation:
    """Every metric of a retrieval by Hamming distance, exact over its ties: ``AP`` is AP_T, ``NDCG`` is NDCG_T.

    He et al., *Hashing as Tie-Aware Learning to Rank*, CVPR 2018 (Eq. 6, 7; evaluation by counting sort). Time grows
    with Q × N popcounts; ``ties="index"`` sorts, and is slower. Memory: a few bytes for each positive of a few queries.

    Args:
        query_codes: (Q, b/8) uint8, always eight bits a byte; or (Q, b) booleans; or (Q, b) numbers that are all −1
            or +1.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1.
        gallery_codes: codes of the same length, or None for self-retrieval, each query masked by index.
        gallery_paths: (N, L), ids of the same space as the queries'.
        metrics: names (see :mod:`hiertree.metrics`), and here alone ``AP@k`` as hashing divides it, by the positives
            in the top k; ``mAP@k`` divides by min(k, positives).
        alpha: of the relevance of ``H-AP``.
        relevance: in place of that, a function of counts or a table, as :func:`evaluate` takes it.
        ties: as :func:`evaluate` takes it.
        protocol: a benchmark; as for the rest see :func:`hiertree.metrics.evaluate`.
        compat: the rules of others. Where they drop a first hit or a worst item, lists are sorted as for ``"index"``.
        query_ids: Q integers or strings; gallery items of a query's id are left out of its list.
        gallery_ids: N ids, for a separate gallery.
        junk: for each query the indices of gallery items to leave out of its list.
        distractors: (N,) booleans; a gallery item so marked has no label and is at level 0 to every query.

    Raises:
        ShapeError: arrays that do not fit together, or an empty gallery.
        EmbeddingError: codes that are none of the three kinds.
        PathError: ids that are not integers ≥ 0.
        OptionError: an unknown metric, an option outside its range, or a retrieval that the protocol does not make.

    >>> codes = [[1, 1, 1, -1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, 1, 1, -1]]
    >>> evaluate_codes(codes, [0, 0, 1, 1], metrics=["AP", "NDCG"]).summary().round(4).to_dict()
    {'AP': 0.7917, 'NDCG': 0.8452}
    """
    from ..engine.codes import values_of_codes  # takes numba with it

    protocol_asked, rules = resolve_rules(protocol, compat)
    if protocol_asked is not None:
        protocol_asked.check(self_retrieval=gallery_codes is None, with_ids=query_ids is not None)
    check_pair(gallery_codes, gallery_paths, "gallery_codes")
    queries, num_bits = _as_words(query_codes, "query_codes")
    items, item_bits = (queries, num_bits) if gallery_codes is None else _as_words(gallery_codes, "gallery_codes")
    labels = checked_labels(
        query_paths,
        gallery_paths,
        num_queries=len(queries),
        num_items=None if gallery_codes is None else len(items),
        options=MaskOptions(query_ids, gallery_ids, junk, distractors),
        rules=rules,
        queries=query_codes,
        items=gallery_codes,
    )
    check_same_width(num_bits, item_bits, "bits")
    request = metric_request(
        metrics,
        num_queries=len(queries),
        num_levels=labels.query_paths.shape[1],
        alpha=alpha,
        relevance=relevance,
        ties=ties,
        protocol=protocol_asked,
        rules=rules,
        of_codes=True,
    )
    retrieval = _retrieval(queries, items, num_bits, labels, request)
    return labels.named(retrieval.evaluation(values_of_codes(retrieval)))


def _retrieval(
    queries: NDArray[np.uint64], items: NDArray[np.uint64], num_bits: int, labels: Labels, request: MetricRequest
) -> Retrieval[Codes]:
    from ..engine.codes import Codes
    from ..engine.retrieval import Retrieval
    from ..ranking.gallery import labeled_gallery

    gallery = labeled_gallery(labels.query_paths, labels.gallery_paths, labels.mask, request.rules)
    codes = Codes(queries, np.ascontiguousarray(items[gallery.tree.order].T), num_bits, gallery)
    hashing = any(metric.kind == "AP@" for metric in request.metrics)
    words = "; AP@k divided by the positives in the top k, 0 if it holds none" if hashing else ""
    card = request.convention(self_rule=labels.mask.rule, scores=f"Hamming distance, {num_bits} bits{words}")
    return Retrieval(codes, request, gallery.totals, gallery.counts, card, range(len(queries)), labels.query_paths)


def _as_words(values: Any, name: str) -> tuple[NDArray[np.uint64], int]:
    """Codes as (n, W) uint64 words, padded with zeros, and their number of bits."""
    array = to_numpy(values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"{name} of shape {array.shape}", expected="shape (n, bits), or (n, bits / 8) packed in uint8")
    packed = array.dtype == np.uint8
    if not packed:
        if array.dtype != np.bool_ and (array.dtype.kind not in "if" or not (np.abs(array) == 1).all()):
            raise EmbeddingError(
                f"{name} of type {array.dtype}",
                expected="packed uint8, booleans, or numbers that are all −1 or +1",
                remedy="binarize with embeddings > 0",
            )
        array = np.packbits(array > 0, axis=1)
    num_bits = 8 * array.shape[1] if packed else to_numpy(values).shape[1]
    if num_bits > _MOST_BITS:
        raise ShapeError(f"{name} of {num_bits} bits", expected=f"at most {_MOST_BITS}")
    width = -(-array.shape[1] // 8) * 8
    padded = np.zeros((len(array), width), np.uint8)
    padded[:, : array.shape[1]] = array
    return padded.view(np.uint64), num_bits
