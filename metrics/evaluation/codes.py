"""Evaluation of binary codes by Hamming distance, where ties are the rule: a code of b bits has b + 1 distances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import as_paths, to_numpy
from hiertree.errors import EmbeddingError, OptionError, ShapeError

from ..conventions.card import Convention
from ..conventions.names import default_names, parse_hashing_metrics
from ..conventions.protocols import ProtocolName, metrics_of, settled
from ..conventions.request import Relevance, plan
from ..conventions.rules import Compat, Rules
from ..engine.blocks import for_row_ranges
from ..ranking.code_lists import Codes, code_values
from ..ranking.masks import mask_of, said_of_distractors, with_distractors
from ..result import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ranking.ranked import Ties

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
        query_codes: (Q, b/8) uint8, eight bits a byte; or (Q, b) booleans; or (Q, b) numbers that are all −1 or +1.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1.
        gallery_codes: codes of the same length, or None for self-retrieval, each query masked by index.
        gallery_paths: (N, L), ids of the same space as the queries'.
        metrics: names (see :mod:`hiertree.metrics`), and here alone ``AP@k`` as hashing divides it, by the positives
            in the top k; ``mAP@k`` divides by min(k, positives).
        alpha: of the relevance of ``H-AP``.
        relevance: another one: counts (Q, L+1) → table (Q, L+1).
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
    named, rules = settled(protocol, compat)
    if named is not None:
        named.check(self_retrieval=gallery_codes is None, with_ids=query_ids is not None)
    masks = {"query_ids": query_ids, "gallery_ids": gallery_ids, "junk": junk}
    codes, paths = _checked(query_codes, query_paths, gallery_codes, gallery_paths, distractors, masks, rules)
    depth = codes.tree.low.shape[1]
    asked = metrics_of(named, metrics, depth)
    asked = default_names(depth) if asked is None else asked
    names = [asked] if isinstance(asked, str) else list(asked)
    hashing = parse_hashing_metrics(names, num_levels=depth)
    others = [name for name in names if name not in hashing]
    wanted = others if others or not hashing else None
    chosen = plan(wanted, num_levels=depth, alpha=alpha, relevance=relevance, ties=ties, rules=rules)
    if wanted is None:
        chosen = replace(chosen, metrics=())
    found = np.empty((len(codes.queries), len(names)))

    def work(rows: slice) -> None:
        found[rows] = code_values(codes, rows, chosen, list(hashing.values()))

    for_row_ranges(work, len(found), row_bytes=max(codes.row_bytes(chosen), 1))
    columns = [[*others, *hashing].index(name) for name in names]
    convention = Convention(
        self_rule=codes.mask.rule,
        scores=f"Hamming distance, {codes.num_bits} bits"
        + ("; AP@k divided by the positives in the top k, 0 if it holds none" if hashing else ""),
        num_levels=depth,
        relevance=chosen.relevance_name,
        counts=rules.counted,
        ties=ties,
        rules=rules,
        protocol=protocol,
    )
    return Evaluation(tuple(names), found[:, columns], range(len(found)), convention, paths)


def _checked(
    query_codes: Any,
    query_paths: Any,
    gallery_codes: Any,
    gallery_paths: Any,
    distractors: Any,
    masks: dict[str, Any],
    rules: Rules,
) -> tuple[Codes, NDArray[np.int64]]:
    """The codes, and the queries' paths."""
    from ..ranking.tree_order import tree_order

    if (gallery_codes is None) != (gallery_paths is None):
        missing = "gallery_codes" if gallery_codes is None else "gallery_paths"
        raise OptionError(f"{missing}=None", expected="gallery_codes and gallery_paths together, or neither")
    if gallery_codes is None and distractors is not None:
        raise OptionError("distractors in self-retrieval", expected="a separate gallery: a query needs a label")
    queries, num_bits = _as_words(query_codes, "query_codes")
    paths = as_paths(query_paths, name="query_paths", num_items=len(queries))
    items, item_bits, item_paths = queries, num_bits, paths
    if gallery_codes is not None:
        items, item_bits = _as_words(gallery_codes, "gallery_codes")
        item_paths = with_distractors(gallery_paths, distractors, len(items))
    if (item_bits, item_paths.shape[1]) != (num_bits, paths.shape[1]):
        raise ShapeError(
            f"a gallery of {item_bits} bits and {item_paths.shape[1]} levels",
            expected=f"those of the queries, {num_bits} and {paths.shape[1]}",
        )
    if len(items) < (2 if gallery_codes is None else 1):
        raise ShapeError(f"a gallery of {len(items)} items", expected="at least one beside the query")
    mask = mask_of(len(queries), None if gallery_codes is None else len(items), **masks, rules=rules)
    mask = mask._replace(rule=mask.rule + said_of_distractors(item_paths))
    tree = tree_order(paths, item_paths)
    totals = tree.totals() - mask.counts(paths, item_paths)
    counts = tree_order(paths, paths).totals() if rules.counts == "official" else None
    gallery = np.ascontiguousarray(items[tree.order].T)
    return Codes(queries, gallery, num_bits, tree, mask, totals, counts), paths


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
                remedy="binarise with embeddings > 0",
            )
        array = np.packbits(array > 0, axis=1)
    num_bits = 8 * array.shape[1] if packed else to_numpy(values).shape[1]
    if num_bits > _MOST_BITS:
        raise ShapeError(f"{name} of {num_bits} bits", expected=f"at most {_MOST_BITS}")
    width = -(-array.shape[1] // 8) * 8
    padded = np.zeros((len(array), width), np.uint8)
    padded[:, : array.shape[1]] = array
    return padded.view(np.uint64), num_bits
