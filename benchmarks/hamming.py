"""Time of ``evaluate_codes`` against faiss's binary flat search over the same codes.

Run ``python benchmarks/hamming.py``; seconds by default, ``--items 1000000`` for the size that counts. The codes are
random, so that 64 bits have about forty distances in use and almost every item is tied. faiss looks for the k nearest
of each query; the evaluation computes all default metrics of the whole ranking, ties averaged, and its time includes
packing, tree order and masks, which many queries share. Both take the threads they find; ``taskset -c 0`` gives each
one. Medians by the clock of interleaved runs; where the machine is not idle, the row says so instead of a ratio.
"""

from __future__ import annotations

import argparse

import faiss
import numpy as np
from idle_machine import in_turn, medians, ratio, timed

from hiertree.metrics import evaluate_codes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[1000, 10])
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--nearest", type=int, default=100, help="k of faiss's search")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print("   items  classes  faiss ms/query  evaluate ms/query  ratio  processor's")
    for num_items in arguments.items:
        for num_classes in arguments.classes:
            print(row(num_items, num_classes, arguments), flush=True)


def row(num_items: int, num_classes: int, arguments: argparse.Namespace) -> str:
    """One line of the table."""
    random = np.random.default_rng(0)
    number = arguments.queries
    codes = random.integers(0, 256, (num_items + number, arguments.bits // 8), dtype=np.uint8)
    labels = random.integers(0, num_classes, len(codes))
    queries, gallery, own, others = codes[:number], codes[number:], labels[:number], labels[number:]
    index = faiss.IndexBinaryFlat(arguments.bits)
    index.add(gallery)
    works = {
        "faiss": lambda: timed(lambda: index.search(queries, arguments.nearest), number),
        "evaluate": lambda: timed(lambda: evaluate_codes(queries, own, gallery, others), number),
    }
    for work in works.values():
        work()  # compiles, and wakes threads
    found = in_turn(works, arguments.repeats, divisor="faiss")
    search, evaluation = (medians(found[name]) for name in works)
    return (
        f"{num_items:>8}  {num_classes:>7}  {1e3 * search.clock:>14.2f}  {1e3 * evaluation.clock:>17.2f}"
        f"  {ratio(found['evaluate'], found['faiss']):>5}  {evaluation.processor / search.processor:>11.2f}"
    )


if __name__ == "__main__":
    main()
