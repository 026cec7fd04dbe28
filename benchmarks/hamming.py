"""Time of ``evaluate_codes`` against faiss's binary flat search over the same codes.

Run ``python benchmarks/hamming.py``; seconds by default, ``--items 1000000`` for the size that counts. The codes are
random, so that 64 bits have about forty distances in use and almost every item is tied. faiss looks for the k nearest
of each query; the evaluation computes all default metrics of the whole ranking, ties averaged, and its time includes
packing, tree order and masks, which many queries share. Both take the threads they find; ``taskset -c 0`` gives each
one. Medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import faiss
import numpy as np

from hiertree.metrics import evaluate_codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[1000, 10])
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--nearest", type=int, default=100, help="k of faiss's search")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("   items  classes  faiss ms/query  evaluate ms/query  ratio")
    for num_items in arguments.items:
        for num_classes in arguments.classes:
            print(row(num_items, num_classes, arguments), flush=True)


def row(num_items: int, num_classes: int, arguments: argparse.Namespace) -> str:
    """One line of the table."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (num_items + arguments.queries, arguments.bits // 8), dtype=np.uint8)
    labels = random.integers(0, num_classes, len(codes))
    queries, gallery = codes[: arguments.queries], codes[arguments.queries :]
    own, others = labels[: arguments.queries], labels[arguments.queries :]
    index = faiss.IndexBinaryFlat(arguments.bits)
    index.add(gallery)
    evaluate_codes(queries[:2], own[:2], gallery[:100], others[:100])  # compile
    times: dict[str, list[float]] = {"faiss": [], "evaluate": []}
    for _ in range(arguments.repeats):
        times["faiss"].append(seconds(lambda: index.search(queries, arguments.nearest)))
        times["evaluate"].append(seconds(lambda: evaluate_codes(queries, own, gallery, others)))
    search, evaluation = (1000 * statistics.median(found) / arguments.queries for found in times.values())
    return f"{num_items:>8}  {num_classes:>7}  {search:>14.2f}  {evaluation:>17.2f}  {evaluation / search:>5.2f}"


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
