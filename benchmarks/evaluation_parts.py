"""Where the time of ``evaluate`` goes: nanoseconds a score in the product, in the ranking and in the formulas.

Run ``python benchmarks/evaluation_parts.py``; two minutes. Embeddings, labels and metrics are those of
``evaluation.py``; the first items are looked for among all. The process keeps to one core and counts the processor's
time, for each part the least of some rounds. A part does not count what other parts take that it calls, and sums that
several metrics need count for the first of them.

    python benchmarks/evaluation_parts.py --items 1000000 --dimensions 128 --levels 7 --queries 256 --rounds 1
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np
from evaluation import clustered, inaturalist_like, shop_like

PARTS = {
    "product": ["engine.similarity:Similarity.fill"],
    "whole lists put in order": ["engine.compute:rank_by_full_sort"],
    "positives put in order": ["ranking.gallery:Gallery.gather", "engine.compute:sort"],
    "others counted among them": ["ranking.gallery:Gallery.count"],
    "ranks and ties": ["engine.compute:ranked_positives", "ranking.ranked:tie_groups"],
    "H-AP, AP, mAP@R": [f"formulas.average_precision:{name}" for name in ("h_ap", "ap", "map_at_r")],
    "NDCG": ["formulas.ndcg:compute"],
    "ASI": ["formulas.asi:compute"],
    "R@k": ["formulas.top_k:recall"],
    "the rest": ["engine.compute:values_of_embeddings"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 7], choices=[2, 7])
    parser.add_argument("--queries", type=int, default=8192, help="the first so many items")
    parser.add_argument("--dimensions", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
    seconds = watched()
    found = {num_levels: least_times(arguments, num_levels, seconds) for num_levels in arguments.levels}
    print(f"{'ns a score':<26}" + "".join(f"{f'L = {num_levels}':>8}" for num_levels in found))
    for part in PARTS:
        print(f"{part:<26}" + "".join(f"{times[part]:>8.2f}" for times in found.values()))


def least_times(arguments: argparse.Namespace, num_levels: int, seconds: dict[str, float]) -> dict[str, float]:
    """Nanoseconds a score in each part."""
    from hiertree.metrics import evaluate

    random = np.random.default_rng(0)
    paths = inaturalist_like(arguments.items, random) if num_levels == 7 else shop_like(arguments.items)
    embeddings = clustered(paths, arguments.dimensions, random, None)
    queries = embeddings[: arguments.queries].copy()
    least, scores = dict.fromkeys(PARTS, np.inf), len(queries) * len(embeddings)
    for _ in range(arguments.rounds + 1):  # the first compiles
        seconds.clear()
        evaluate(queries, paths[: len(queries)], embeddings, paths)
        least = {part: min(value, 1e9 * seconds[part] / scores) for part, value in least.items()}
    return least


def watched() -> dict[str, float]:
    """Seconds of the processor in each part, kept up to date from now on."""
    from hiertree.metrics.engine import retrieval
    from hiertree.metrics.formulas import FORMULAS

    seconds: dict[str, float] = defaultdict(float)
    within = [0.0]  # what parts called within each running one took
    formulas: dict[str, Any] = dict(FORMULAS)

    def watch(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            begin = time.process_time()
            within.append(0.0)
            try:
                return function(*arguments, **options)
            finally:
                took = time.process_time() - begin
                seconds[part] += took - within.pop()
                within[-1] += took

        return call

    for part, places in PARTS.items():
        for place in places:
            module, _, name = place.partition(":")
            owner, _, attribute = name.rpartition(".")
            holder: Any = import_module(f"hiertree.metrics.{module}")
            holder = getattr(holder, owner) if owner else holder
            function = getattr(holder, attribute)
            setattr(holder, attribute, watch(part, function))
            formulas |= {kind: watch(part, function) for kind in formulas if FORMULAS[kind] is function}
    retrieval.FORMULAS = formulas
    return seconds


if __name__ == "__main__":
    main()
