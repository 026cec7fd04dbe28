"""Time of ``evaluate`` beside other libraries, each in units of the bare matrix product.

Run ``python benchmarks/peers.py`` after ``pip install -e ".[interop,dev]"``; some minutes. Items retrieve each other
(512-d float32). Ours gives all default metrics at all levels, ties averaged; pytorch-metric-learning P@1 and mAP@R
of the finest level, as many neighbors found by faiss as the largest class has, which is the least that mAP@R takes
(left to itself it holds every neighbor of every query, which 24 GB do not hold for 20,000 items). Both begin with
embeddings. The other libraries rank scores that are given to them, whose product is not counted, so a few queries tell
what one costs: average precision by level, NDCG and a few numbers at 10. ``sort`` is torch's full sort, the least that
ranking everything takes. Medians by the clock, in turn in one process, nothing set in the environment; where the
machine is not idle, the row says so instead of a ratio. ``--queries 2048`` takes only the first so many.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from evaluation import clustered, inaturalist_like, product, shop_like
from idle_machine import Timing, in_turn, medians, ratio, timed
from peer_metrics import ScoredQueries, values_of

from hiertree.metrics import evaluate

SCORE_LIBRARIES = ("torchmetrics", "sklearn", "ir_measures", "ranx")
WHO = ("hiertree", "pytorch-metric-learning", "sort", *SCORE_LIBRARIES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[20000])
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 7], choices=[2, 7])
    parser.add_argument("--queries", type=int, default=0, help="of those that begin with embeddings; 0 is all")
    parser.add_argument("--peer-queries", type=int, default=4, help="of the libraries that take scores")
    parser.add_argument("--who", nargs="+", default=WHO, choices=WHO)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("| items | L | who | ms a query | × product | of processor time |\n|---:|---:|---|---:|---:|---:|")
    for num_items in arguments.items:
        for num_levels in arguments.levels:
            found = timings(
                num_items,
                num_levels,
                who=arguments.who,
                queries=arguments.queries,
                peer_queries=arguments.peer_queries,
                repeats=arguments.repeats,
            )
            for who, own in found.items():
                middle, products = medians(own), ratio(own, found["product"], 1)
                processor = middle.processor / medians(found["product"]).processor
                start = f"| {num_items:,} | {num_levels} | {who} | {1e3 * middle.clock:.3g}"
                print(f"{start} | {products} | {processor:.3g} |", flush=True)


def timings(
    num_items: int, num_levels: int, *, who: Sequence[str], queries: int, peer_queries: int, repeats: int
) -> dict[str, list[Timing]]:
    """Seconds a query of the product and of each library."""
    random = np.random.default_rng(0)
    paths = shop_like(num_items) if num_levels == 2 else inaturalist_like(num_items, random)
    embeddings = clustered(paths, 512, random, None)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    number = queries or num_items
    works = {"product": timing(lambda: product(embeddings[:number], embeddings, None), number)}
    for name in who:
        works[name] = work_of(name, embeddings, paths, number, peer_queries)
    for work in works.values():
        work()  # compiles, and loads what is loaded lazily
    return in_turn(works, repeats, divisor="product")


def timing(run: Callable[[], object], queries: int) -> Callable[[], Timing]:
    """Times ``run``, for each of the queries that it takes."""
    return lambda: timed(run, queries)


def work_of(
    who: str, embeddings: np.ndarray[Any, Any], paths: np.ndarray[Any, Any], number: int, peer_queries: int
) -> Callable[[], Timing]:
    """What a library does."""
    some = slice(0, number)
    if who == "hiertree":
        ids = np.arange(len(embeddings))
        given = (embeddings, paths) if number < len(embeddings) else ()
        names = {"query_ids": ids[some], "gallery_ids": ids} if given else {}
        return timing(lambda: evaluate(embeddings[some], paths[some], *given, **names), number)
    if who == "pytorch-metric-learning":
        return timing(lambda: finest_level(embeddings, paths[:, -1], number), number)
    problem = some_queries(embeddings, paths, peer_queries)
    return timing(lambda: sort(problem.scores) if who == "sort" else values_of(who, problem), peer_queries)


def some_queries(embeddings: np.ndarray[Any, Any], paths: np.ndarray[Any, Any], number: int) -> ScoredQueries:
    """The first queries with their scores and levels."""
    import hiertree as ht

    valid = ~np.eye(number, len(embeddings), dtype=np.bool_)
    classes, queries = paths[:, -1], embeddings[:number]
    scores, levels = queries @ embeddings.T, ht.levels(paths[:number], paths)
    own = classes[:number]
    return ScoredQueries(scores, levels, valid, paths.shape[1], queries, own, embeddings, classes, self_retrieval=True)


def finest_level(embeddings: np.ndarray[Any, Any], classes: np.ndarray[Any, Any], number: int) -> dict[str, float]:
    """P@1 and mAP@R of the first queries by pytorch-metric-learning."""
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = ("precision_at_1", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", device=torch.device("cpu"))
    vectors, labels = torch.from_numpy(embeddings), torch.from_numpy(classes)
    given = (vectors[:number], labels[:number], vectors, labels)
    found: dict[str, float] = calculator.get_accuracy(*given, ref_includes_query=True)
    return found


def sort(scores: np.ndarray[Any, Any]) -> object:
    """Every score in order, with its index."""
    import torch

    return torch.from_numpy(scores).sort(dim=1, descending=True)


if __name__ == "__main__":
    main()
