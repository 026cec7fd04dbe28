"""Memory of ``evaluate`` beyond its inputs, and what a query costs, as its positives grow up to half of the gallery.

Run ``python benchmarks/memory.py``; a minute. A gallery retrieves itself, by a sample of its items or by all
(``--queries 0``), each masked by index or id: float32 embeddings in classes of equal size, every default metric, ties
averaged. Memory is the most that the process holds of its own meanwhile, in a fresh interpreter for each row; the
normalized copy of the gallery is part of it.

    python benchmarks/memory.py --items 1000000 --positives 5 100000 400000 500000
    python benchmarks/memory.py --items 200000 --positives 5 100000 --queries 0
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from evaluation import peak_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[100_000])
    parser.add_argument("--positives", type=int, nargs="+", default=[5, 10_000, 50_000], help="of a query")
    parser.add_argument("--queries", type=int, default=256, help="0 is all items")
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(**json.loads(arguments.one))))
        return
    print("   items  queries  positives  embeddings MiB  peak MiB beyond  ms a query")
    for num_items in arguments.items:
        for positives in arguments.positives:
            case = {"num_items": num_items, "num_queries": arguments.queries or num_items}
            case |= {"dimensions": arguments.dimensions, "positives": positives}
            command = [sys.executable, __file__, "--one", json.dumps(case)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(
                f"{num_items:>8}  {case['num_queries']:>7}  {positives:>9}"
                f"  {num_items * arguments.dimensions / 2**18:>14.0f}  {found['mebibytes']:>15.0f}"
                f"  {1e3 * found['seconds'] / case['num_queries']:>10.2f}",
                flush=True,
            )


def measure(*, num_items: int, num_queries: int, dimensions: int, positives: int) -> dict[str, float]:
    """The peak beyond the inputs, and seconds by the clock."""
    from hiertree.metrics import evaluate

    random = np.random.default_rng(0)
    embeddings = random.standard_normal((num_items, dimensions), dtype=np.float32)
    labels = random.permutation(num_items) // positives
    embeddings += random.standard_normal((int(labels.max()) + 1, dimensions), dtype=np.float32)[labels] / 4
    ids, whole = np.arange(num_items), labels < num_items // positives  # the last class may be smaller
    chosen = np.flatnonzero(whole)[:num_queries]
    queries, own, names = embeddings[chosen], labels[chosen], ids[chosen]
    evaluate(queries[:200], own[:200])  # compile
    begin = time.perf_counter()
    with peak_memory() as peak:
        if num_queries < num_items:
            evaluate(queries, own, embeddings, labels, query_ids=names, gallery_ids=ids)
        else:
            evaluate(embeddings, labels)
    return {"mebibytes": peak[0], "seconds": time.perf_counter() - begin}


if __name__ == "__main__":
    main()
