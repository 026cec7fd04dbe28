"""Evaluation of binary codes by Hamming distance, where ties are the rule: a code of b bits has b + 1 distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import EmbeddingError, ShapeError
from hiertree.evaluation_options import ArrayLike, Labels, RetrievalOptions
from hiertree.options import with_options_of

from ..result import Evaluation
from . import CheckedRetrievalOptions, check_inputs

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

_WORD = 64
_MOST_BITS = 2**16 - _WORD  # so that a distance fits a uint16


@dataclass(frozen=True, eq=False)
class _Codes:
    """Codes as (n, W) uint64 words, padded with zeros, and their number of bits."""

    packed: NDArray[np.uint64]
    bits: int

    def __len__(self) -> int:
        return len(self.packed)


@with_options_of(CheckedRetrievalOptions)
def evaluate_codes(
    query_codes: ArrayLike,
    query_paths: Labels,
    gallery_codes: ArrayLike | None = None,
    gallery_paths: Labels | None = None,
    **options: Unpack[RetrievalOptions],
) -> Evaluation:
    """Every metric of a retrieval by Hamming distance, exact over its ties: ``AP`` is AP_T, ``NDCG`` is NDCG_T.

    He et al., *Hashing as Tie-Aware Learning to Rank*, CVPR 2018 (Eq. 6, 7; evaluation by counting sort). Time grows
    with Q × N popcounts; ``ties="index"`` sorts, and is slower. Memory: a few bytes for each positive of a few queries.

    Args:
        query_codes: (Q, b/8) uint8, always eight bits per byte; or (Q, b) booleans; or (Q, b) numbers that are all −1
            or +1.
        query_paths: (Q, L) label ids ≥ 0, coarse → fine; (Q,) means L = 1.
        gallery_codes: codes of the same length, or None for self-retrieval, each query masked by index.
        gallery_paths: (N, L), ids of the same space as the queries'.
        **options: as :func:`evaluate` takes them. ``metrics`` has ``AP@k`` as hashing divides it, by the
            positives in the top k. Where ``compat`` drops a first hit or a worst item, lists are sorted as for
            ``ties="index"``.

    Raises:
        ShapeError: arrays that do not fit together, or an empty gallery.
        EmbeddingError: codes that are none of the three kinds.
        PathError: ids that are not integers ≥ 0.
        OptionError: an unknown metric, an option outside its range, or a retrieval that the protocol does not make.

    >>> codes = [[1, 1, 1, -1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, 1, 1, -1]]
    >>> evaluate_codes(codes, [0, 0, 1, 1], metrics=["AP", "NDCG"]).summary().round(4).to_dict()
    {'AP': 0.7917, 'NDCG': 0.8452}
    """
    from ..engine.codes import Codes, values_of_codes  # takes numba with it
    from ..engine.retrieval import Retrieval
    from ..ranking.gallery import labeled_gallery

    inputs = query_codes, query_paths, gallery_codes, gallery_paths
    checked_options = CheckedRetrievalOptions(**options)
    queries, items, labels, request = check_inputs(inputs, checked_options, reader=_as_words, of_codes=True)
    gallery = labeled_gallery(labels.query_paths, labels.gallery_paths, labels.mask, request.rules)
    codes = Codes(queries.packed, np.ascontiguousarray(items.packed[gallery.tree.order].T), queries.bits, gallery)
    values = values_of_codes(Retrieval(codes, request, gallery.totals, gallery.counts, num_ranks=len(items)))
    return labels.evaluation(request, values, ranked_by="Hamming distance", bits=queries.bits)


def _as_words(values: Any, *, name: str) -> _Codes:
    array = to_numpy(values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(f"{name} of shape {array.shape}", expected="shape (n, bits), or (n, bits / 8) packed in uint8")
    num_bits = 8 * array.shape[1]
    if array.dtype != np.uint8:
        if array.dtype != np.bool_ and (array.dtype.kind not in "if" or not (np.abs(array) == 1).all()):
            expected = "packed uint8, booleans, or numbers that are all −1 or +1"
            remedy = "binarize with embeddings > 0"
            if array.dtype == np.int8:  # as sentence-transformers packs "binary" embeddings
                remedy = "pass (codes.astype(int) + 128).astype(numpy.uint8) if eight bits are packed in each"
            raise EmbeddingError(f"{name} of type {array.dtype}", expected=expected, remedy=remedy)
        num_bits, array = array.shape[1], np.packbits(array > 0, axis=1)
    if num_bits > _MOST_BITS:
        raise ShapeError(f"{name} of {num_bits} bits", expected=f"at most {_MOST_BITS}")
    width = -(-array.shape[1] // 8) * 8
    padded = np.zeros((len(array), width), np.uint8)
    padded[:, : array.shape[1]] = array
    return _Codes(padded.view(np.uint64), num_bits)
