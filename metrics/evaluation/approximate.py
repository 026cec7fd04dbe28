"""Approximate search through faiss or any other engine, only for metrics of a top k; the card gives its recall.

An index may miss items, so it cannot give a metric that needs the rank of every positive. Each call measures the recall
on some of the queries, against the exact product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import InputError, OptionError, PathError, raised_as, require_package
from hiertree.evaluation_options import Approximate
from hiertree.io.progress import show_progress

from ..request import MetricRequest
from ..result import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..engine.vectors import Vectors
    from ..ranking.gallery import Mask
    from .inputs import Labels

_ROWS = 1 << 14  # vectors normalized or queries searched at once
_GATHERED = 1 << 22  # numbers of listed vectors at once
_TRAINED_ON = 256  # training vectors per list of an inverted file, as faiss recommends
_ROUNDING = 1e-6  # rounding error of a cosine in float32
_SINGLE = np.dtype(np.float32)


def evaluate_approximately(
    query: Vectors, gallery: Vectors, labels: Labels, request: MetricRequest, search: Approximate, *, progress: bool
) -> Evaluation:
    """The metrics of the top k that an index finds; the convention card gives its recall."""
    from .lists import values_of_indices

    _check(request, labels.mask)
    cutoff = max(metric.cutoff or 1 for metric in request.metrics)
    masked = int(np.diff(labels.mask.start).max(initial=0)) + (labels.mask.place == "first")
    k = min(cutoff + masked, len(gallery))
    index = _built(gallery, search, k) if isinstance(search.index, str) else _OtherEngine(search.index, gallery)
    values = np.empty((len(query), len(request.metrics)))
    with show_progress(description="queries", total=len(query), enabled=progress) as advance:
        for start in range(0, len(query), _ROWS):
            rows = slice(start, min(start + _ROWS, len(query)))
            scores, indices = index.search(query.unit(rows, _SINGLE), k)
            values[rows] = values_of_indices(indices, labels.rows(rows), request.select_rows(rows), scores=scores)
            advance(rows.stop - rows.start, "")
    sample_rows = np.sort(np.random.default_rng(search.seed).permutation(len(query))[: search.sample])
    recall_text = "no query to measure its recall on"
    if len(sample_rows):
        share = _recall(index, query, gallery, labels.mask, sample_rows, k, cutoff)
        recall_text = f"{100 * share:.2f} % of the exact top {cutoff} found, measured on {len(sample_rows)} queries"
    approximation = f"{_describe(index, search)}: {recall_text}"
    fields = {"details": "float32", "approximation": approximation}
    return labels.evaluation(request, values, ranked_by="cosine similarity", **fields)


def _check(request: MetricRequest, mask: Mask) -> None:
    """Refuse metrics and options that a top k cannot serve."""
    uncut_metrics = [metric.name for metric in request.metrics if metric.cutoff is None]
    if uncut_metrics:
        expected = "metrics of a top k: R@k, TR@k, P@k, MRR@k, mAP@k, HP@k, NDCG@k"
        remedy = "name some in metrics=, or leave approximate out: these need the rank of every positive"
        raise OptionError(f"approximate= with {', '.join(uncut_metrics)}", expected=expected, remedy=remedy)
    if mask.place == "last" or request.rules.precision == "last positive":
        raise OptionError(
            "approximate= with rules that look beyond the top k", expected="worst='kept' and precision 'k' or 'list'"
        )


def _built(gallery: Vectors, search: Approximate, k: int) -> Any:
    """A faiss index of the normalized gallery, whose inner products are cosines."""
    require_package("faiss", extra="search")
    import faiss

    dimensions, num_items = gallery.dimensions, len(gallery)
    index: Any
    if search.index == "hnsw":
        index = faiss.IndexHNSWFlat(dimensions, search.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efSearch = max(search.breadth, k)
    else:
        lists = search.lists or max(min(round(4 * num_items**0.5), num_items // 40), 1)
        if lists > num_items:
            raise OptionError(f"an inverted file of {lists} lists", expected=f"at most {num_items}, one per item")
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimensions), dimensions, lists, faiss.METRIC_INNER_PRODUCT)
        index.nprobe, index.cp.seed, index.cp.min_points_per_centroid = min(search.probes, lists), search.seed + 1, 1
        training_rows = np.random.default_rng(search.seed).permutation(num_items)[: _TRAINED_ON * lists]
        index.train(gallery.unit(np.sort(training_rows), _SINGLE))
    for start in range(0, num_items, _ROWS):
        index.add(gallery.unit(slice(start, start + _ROWS), _SINGLE))
    return index


class _OtherEngine:
    """A search by the caller's engine, in the manner of faiss."""

    def __init__(self, engine: Any, gallery: Vectors) -> None:
        self._search: Callable[..., Any] = getattr(engine, "search", engine)
        self._gallery, self.name = gallery, str(getattr(engine, "__qualname__", type(engine).__name__))

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The cosines and the indices of the items that the engine finds."""
        answer = self._search(queries, k)
        indices = self._checked(np.asarray(answer[-1] if isinstance(answer, tuple) else answer), len(queries), k)
        scores = np.full(indices.shape, -np.inf, _SINGLE)
        step = max(_GATHERED // (max(indices.shape[1], 1) * self._gallery.dimensions), 1)
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            query, place = np.nonzero(indices[rows] >= 0)
            vectors = self._gallery.unit(indices[rows][query, place], _SINGLE)
            scores[rows][query, place] = np.einsum("nd,nd->n", queries[rows][query], vectors)
        return scores, indices

    def _checked(self, indices: NDArray[Any], num_queries: int, k: int) -> NDArray[np.int64]:
        from .lists import check_indices

        expected = f"({num_queries}, up to {k}) gallery indices, each once a query, and −1 past the end of a list"
        if indices.ndim != 2 or len(indices) != num_queries or indices.shape[1] > k or indices.dtype.kind not in "iu":
            raise InputError(f"{self.name} returns {indices.dtype} of shape {indices.shape}", expected=expected)
        problem, integers = f"{self.name} returns indices outside the gallery or twice", indices.astype(np.int64)
        with raised_as(InputError, problem, expected=expected, on=PathError):
            check_indices(integers, len(self._gallery), repeats="error")
        return integers


def _describe(index: Any, search: Approximate) -> str:
    if isinstance(index, _OtherEngine):
        return index.name
    if search.index == "hnsw":
        graph = index.hnsw
        parameters = f"M={search.links}, efConstruction={graph.efConstruction}, efSearch={graph.efSearch}"
        return f"faiss IndexHNSWFlat ({parameters})"
    return f"faiss IndexIVFFlat ({index.nlist} lists, {index.nprobe} of them searched)"


def _recall(
    index: Any, query: Vectors, gallery: Vectors, mask: Mask, rows: NDArray[np.int64], k: int, cutoff: int
) -> float:
    """The share of the top items that an index finds, without excluded ones; any of several equal scores counts."""
    queries, first = query.unit(rows, _SINGLE), mask.place == "first"
    pairs, items = mask.pairs(rows)
    best = np.empty((len(rows), 0), np.float32)
    for start in range(0, len(gallery), _ROWS):
        scores = queries @ gallery.unit(slice(start, start + _ROWS), _SINGLE).T
        in_block = (items >= start) & (items < start + _ROWS)
        scores[pairs[in_block], items[in_block] - start] = -np.inf
        best = np.sort(np.hstack([best, scores]), axis=1)[:, -cutoff - first :]
    found_scores, indices = index.search(queries, k)
    places = np.arange(len(rows))[:, None] * len(gallery)
    good = (found_scores >= best[:, :1] - _ROUNDING) & (indices >= 0)
    good &= ~np.isin(places + indices, pairs * len(gallery) + items)
    number = np.isfinite(best).sum(axis=1) - first
    share = np.minimum((good.sum(axis=1) - first) / np.maximum(number, 1), 1.0)
    return float(np.where(number > 0, share, 1.0).mean())
