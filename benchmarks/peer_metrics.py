"""The metrics of other libraries on the same scores and levels, under the names of :mod:`hiertree.metrics`.

Each function takes :class:`ScoredQueries` and returns the library's own means. Nothing is corrected here: where a
library follows another convention, or is wrong, its number shows it; docs/peers.md says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

K = 10


class ScoredQueries(NamedTuple):
    """Queries and a gallery in the forms that the libraries take."""

    scores: NDArray[Any]  # (Q, N) cosine similarities
    levels: NDArray[np.uint8]  # (Q, N)
    valid: NDArray[np.bool_]  # (Q, N), False for the query itself
    num_levels: int
    embeddings: NDArray[Any]  # (Q, d) of the queries, normalized
    query_classes: NDArray[np.int64]  # (Q,) numbers of the finest classes
    gallery: NDArray[Any]  # (N, d)
    gallery_classes: NDArray[np.int64]  # (N,)
    self_retrieval: bool  # whether the queries are in the gallery

    def lists(self) -> Iterator[tuple[NDArray[Any], NDArray[np.uint8]]]:
        """Scores and levels of each query's items."""
        for scores, levels, valid in zip(self.scores, self.levels, self.valid, strict=True):
            yield scores[valid], levels[valid]

    def named(self) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
        """A run and qrels, names in the order of the gallery."""
        run: dict[str, dict[str, float]] = {}
        qrels: dict[str, dict[str, int]] = {}
        for query, valid in enumerate(self.valid):
            names = [f"d{item:08d}" for item in np.flatnonzero(valid)]
            run[f"q{query}"] = dict(zip(names, self.scores[query, valid].tolist(), strict=True))
            qrels[f"q{query}"] = dict(zip(names, self.levels[query, valid].tolist(), strict=True))
        return run, qrels


def torchmetrics(queries: ScoredQueries) -> dict[str, float]:
    """Means of its functional forms, which give 0 to a query without positives."""
    import torch
    from torchmetrics.functional import retrieval as theirs

    rows = []
    for scores, levels in queries.lists():
        preds, graded = torch.tensor(scores), torch.tensor(levels.astype(np.int64))
        fine = graded >= queries.num_levels
        row = {
            f"AP[{level}]": theirs.retrieval_average_precision(preds, graded >= level)
            for level in range(1, queries.num_levels + 1)
        }
        row |= {
            f"mAP@{K}": theirs.retrieval_average_precision(preds, fine, top_k=K),
            f"P@{K}": theirs.retrieval_precision(preds, fine, top_k=K),
            f"R@{K}": theirs.retrieval_hit_rate(preds, fine, top_k=K),
            f"TR@{K}": theirs.retrieval_recall(preds, fine, top_k=K),
            "NDCG": theirs.retrieval_normalized_dcg(preds, graded),
            f"NDCG@{K}": theirs.retrieval_normalized_dcg(preds, graded, top_k=K),
        }
        rows.append({name: float(value) for name, value in row.items()})
    return _means(rows)


def scikit_learn(queries: ScoredQueries) -> dict[str, float]:
    """Means of its ranking metrics, query by query."""
    from sklearn.metrics import average_precision_score, ndcg_score

    rows = []
    for scores, levels in queries.lists():
        row = {
            f"AP[{level}]": float(average_precision_score(levels >= level, scores))
            for level in range(1, queries.num_levels + 1)
        }
        row["NDCG"] = float(ndcg_score([levels], [scores]))
        row[f"NDCG@{K}"] = float(ndcg_score([levels], [scores], k=K))
        rows.append(row)
    return _means(rows)


def ir_measures(queries: ScoredQueries) -> dict[str, float]:
    """Means by its provider pytrec_eval, which is trec_eval's own code."""
    import ir_measures as theirs

    fine = queries.num_levels
    measures: dict[str, Any] = {f"AP[{level}]": theirs.AP(rel=level) for level in range(1, fine + 1)}
    measures |= {
        f"mAP@{K}": theirs.AP(rel=fine) @ K,
        f"P@{K}": theirs.P(rel=fine) @ K,
        f"R@{K}": theirs.Success(rel=fine) @ K,
        f"TR@{K}": theirs.R(rel=fine) @ K,
        "NDCG": theirs.nDCG,
        f"NDCG@{K}": theirs.nDCG @ K,
    }
    run, qrels = queries.named()
    means = theirs.pytrec_eval.calc_aggregate(list(measures.values()), qrels, run)
    return {name: float(means[measure]) for name, measure in measures.items()}


def ranx(queries: ScoredQueries) -> dict[str, float]:
    """Means of its metrics."""
    import ranx as theirs

    fine = queries.num_levels
    names = {f"AP[{level}]": f"map-l{level}" for level in range(1, fine + 1)}
    names |= {
        f"mAP@{K}": f"map@{K}-l{fine}",
        f"P@{K}": f"precision@{K}-l{fine}",
        f"R@{K}": f"hit_rate@{K}-l{fine}",
        f"TR@{K}": f"recall@{K}-l{fine}",
        "NDCG": "ndcg_burges",
        f"NDCG@{K}": f"ndcg_burges@{K}",
    }
    run, qrels = queries.named()
    means = theirs.evaluate(theirs.Qrels(qrels), theirs.Run(run), list(names.values()))
    return {name: float(means[theirs_name]) for name, theirs_name in names.items()}


def pytorch_metric_learning(queries: ScoredQueries) -> dict[str, float]:
    """Its accuracy calculator on embeddings and finest classes, neighbors found by faiss."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    order = np.arange(len(queries.gallery))
    if queries.self_retrieval:  # it wants the queries first in the gallery
        itself = queries.valid.argmin(axis=1)
        order = np.concatenate([itself, np.setdiff1d(order, itself)])
    gallery = queries.gallery[order], queries.gallery_classes[order]
    tensors = [torch.tensor(array) for array in (queries.embeddings, queries.query_classes, *gallery)]
    means: dict[str, float] = {}
    for k, names in ((None, {"mAP@R": "mean_average_precision_at_r"}), (K, {f"mAP@{K}": "mean_average_precision"})):
        metric_names = {"P@1": "precision_at_1", **names}
        calculator = AccuracyCalculator(include=tuple(metric_names.values()), k=k, device=torch.device("cpu"))
        values = calculator.get_accuracy(*tensors, ref_includes_query=queries.self_retrieval)
        means |= {name: float(values[theirs_name]) for name, theirs_name in metric_names.items()}
    return means


LIBRARIES: Mapping[str, Callable[[ScoredQueries], dict[str, float]]] = {
    "torchmetrics": torchmetrics,
    "sklearn": scikit_learn,
    "ir_measures": ir_measures,
    "ranx": ranx,
    "pytorch_metric_learning": pytorch_metric_learning,
}


def values_of(library: str, queries: ScoredQueries) -> dict[str, float]:
    """A library's means, without its warnings of queries without positives and of casts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LIBRARIES[library](queries)


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
