"""Time of ``evaluate`` beside other libraries, each in units of the bare matrix product.

Run ``python benchmarks/peers.py`` after ``pip install -e ".[interop]"``; some minutes. A gallery retrieves itself
(512-d float32). Ours gives all default metrics at all levels, ties averaged; pytorch-metric-learning P@1 and mAP@R
of the finest level, as many neighbors found by faiss as the largest class has, which is the least that mAP@R takes
(left to itself it holds every neighbor of every query, which 24 GB do not hold for 20,000 items). Both begin with
embeddings and take all queries. The other libraries rank scores that are given to them, whose product is not counted,
so a few queries tell what one costs: average precision by level, NDCG and a few numbers at 10. ``sort`` is torch's full
sort, the least that ranking everything takes. Processor time, medians, in turn in one process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from evaluation import clustered, inaturalist_like, product, shop_like

from hiertree.metrics import evaluate
from hiertree.pipelines.evaluation.other_libraries import ScoredQueries, values_of

SCORE_LIBRARIES = ("torchmetrics", "sklearn", "ir_measures", "ranx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[20000])
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 7], choices=[2, 7])
    parser.add_argument("--peer-queries", type=int, default=16, help="of the libraries that take scores")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("| items | L | who | ms a query | × product |\n|---:|---:|---|---:|---:|")
    for num_items in arguments.items:
        for num_levels in arguments.levels:
            for who, seconds, ratio in compared(num_items, num_levels, arguments.peer_queries, arguments.repeats):
                print(f"| {num_items:,} | {num_levels} | {who} | {1e3 * seconds:.2f} | {ratio:.1f} |", flush=True)


def compared(num_items: int, num_levels: int, peer_queries: int, repeats: int) -> list[tuple[str, float, float]]:
    """Who, seconds a query, and that in products."""
    random = np.random.default_rng(0)
    paths = shop_like(num_items) if num_levels == 2 else inaturalist_like(num_items, random)
    embeddings = clustered(paths, 512, random, None)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    problem = some_queries(embeddings, paths, peer_queries)
    work: dict[str, tuple[Callable[[], object], int]] = {
        "product": (lambda: product(embeddings, embeddings, None), num_items),
        "hiertree": (lambda: evaluate(embeddings, paths), num_items),
        "pytorch-metric-learning": (lambda: finest_level(embeddings, paths[:, -1]), num_items),
        "sort": (lambda: sort(problem.scores), peer_queries),
        **{name: (lambda name=name: values_of(name, problem), peer_queries) for name in SCORE_LIBRARIES},
    }
    seconds: dict[str, list[float]] = {who: [] for who in work}
    for repeat in range(repeats + 1):  # the first compiles and is not counted
        for who, (run, queries) in work.items():
            begin = time.process_time()
            run()
            if repeat:
                seconds[who].append((time.process_time() - begin) / queries)
    medians = {who: statistics.median(times) for who, times in seconds.items()}
    return [(who, median, median / medians["product"]) for who, median in medians.items()]


def some_queries(embeddings: np.ndarray[Any, Any], paths: np.ndarray[Any, Any], number: int) -> ScoredQueries:
    """The first queries with their scores and levels."""
    import hiertree as ht

    valid = ~np.eye(number, len(embeddings), dtype=np.bool_)
    classes, queries = paths[:, -1], embeddings[:number]
    scores, levels = queries @ embeddings.T, ht.levels(paths[:number], paths)
    own = classes[:number]
    return ScoredQueries(scores, levels, valid, paths.shape[1], queries, own, embeddings, classes, self_retrieval=True)


def finest_level(embeddings: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]) -> dict[str, float]:
    """P@1 and mAP@R by pytorch-metric-learning."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = ("precision_at_1", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", device=torch.device("cpu"))
    found: dict[str, float] = calculator.get_accuracy(torch.from_numpy(embeddings), torch.from_numpy(classes))
    return found


def sort(scores: np.ndarray[Any, Any]) -> object:
    """Every score in order, with its index."""
    import torch

    return torch.from_numpy(scores).sort(dim=1, descending=True)


if __name__ == "__main__":
    main()
