"""Time of ``evaluate_ranking`` beside ranx: both given ranx's own objects, and both given dictionaries.

Run ``python benchmarks/rankings.py``; some minutes for 100,000 queries. A query lists 100 items of a million with
scores, and has 10 judgments of 3 grades, half of them listed. Both compute average precision, NDCG, and precision and
recall at 10. In turn in one process; the ratio is of medians by the clock, ranx's over hiertree's, and of the
processor's time of all threads, which holds on a busy machine too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import ranx
from idle_machine import Timing, in_turn, medians, ratio, timed

from hiertree.metrics import evaluate_ranking

OURS, THEIRS = ["AP[1]", "NDCG", "P@10[1]", "TR@10[1]"], ["map", "ndcg_burges", "precision@10", "recall@10"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("| queries | given | hiertree, s | ranx, s | ratio | of processor time |\n|---:|---|---:|---:|---:|---:|")
    for number in arguments.queries:
        run, qrels = ranked_lists(number)
        for kind, given in {"ranx": (ranx.Run(run), ranx.Qrels(qrels)), "dictionaries": (run, qrels)}.items():
            works = works_on(*given)
            for work in works.values():
                work()  # compiles
            found = in_turn(works, arguments.repeats)
            own, peer = (medians(found[who]) for who in ("hiertree", "ranx"))
            times = ratio(found["ranx"], found["hiertree"]), f"{peer.processor / own.processor:.2f}"
            print(f"| {number:,} | {kind} | {own.clock:.3g} | {peer.clock:.3g} | {' | '.join(times)} |", flush=True)


def ranked_lists(number: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """A run and its judgments."""
    random, run, qrels = np.random.default_rng(0), {}, {}
    for query in range(number):
        items = [f"d{item}" for item in dict.fromkeys(random.integers(0, 1_000_000, 100).tolist())]
        run[f"q{query}"] = dict(zip(items, random.random(len(items)).tolist(), strict=True))
        judged = items[::20][:5] + [f"d{item}" for item in range(1_000_000 + query, 1_000_005 + query)]
        qrels[f"q{query}"] = dict(zip(judged, random.integers(1, 4, 10).tolist(), strict=True))
    return run, qrels


def works_on(run: Any, qrels: Any) -> dict[str, Callable[[], Timing]]:
    """What is timed."""
    return {
        "hiertree": lambda: timed(lambda: evaluate_ranking(run, qrels, metrics=OURS)),
        "ranx": lambda: timed(lambda: ranx.evaluate(qrels, run, THEIRS)),
    }


if __name__ == "__main__":
    main()
