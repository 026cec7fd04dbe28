"""Time and memory of ``evaluate`` against the matrix product it cannot do without.

Run ``python benchmarks/evaluation.py``; about two minutes on two quiet cores. Embeddings are 512-d float32 in
self-retrieval; all default metrics, ties averaged. The product is that of all query blocks with the gallery, nothing
else, interleaved with the evaluation in one process. Times are medians; the ratios are evaluation / product, of the
clock and of the processor's time, which says more where other work shares the machine. Memory is the peak beyond
imports and embeddings, the normalised copy of the gallery included. L = 2 has 12 super-categories of classes of five;
L = 7 is a skewed tree like iNaturalist's, where about half the gallery is relevant to a query. ``--queries`` takes the
first so many queries of the gallery instead of all, for large galleries in short time; the gallery is still
normalised once.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRODUCT_ROWS = 256
INATURALIST = {2: 3, 3: 13, 4: 34, 5: 120, 6: 400, 7: 1200}  # how many nodes lie above the species


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--levels", type=int, nargs="+", default=[2, 7], choices=[2, 7])
    parser.add_argument("--block-sizes", type=int, nargs="+", default=[0, 2048], help="0 is the default one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", type=int, default=0, help="0 is all")
    parser.add_argument("--one", type=int, nargs=3, help=argparse.SUPPRESS)  # items, levels, block size
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.one, num_queries=arguments.queries, repeats=arguments.repeats)))
        return
    print("   items  L  block  product s  evaluate s  ratio  of processor time  peak MiB  embeddings MiB")
    for num_items in arguments.items:
        for num_levels in arguments.levels:
            for block_size in arguments.block_sizes:
                print(row(num_items, num_levels, block_size, arguments.queries, arguments.repeats), flush=True)


def row(num_items: int, num_levels: int, block_size: int, num_queries: int, repeats: int) -> str:
    """One line of the table, measured in a fresh interpreter."""
    configuration = map(str, (num_items, num_levels, block_size))
    options = ["--repeats", str(repeats), "--queries", str(num_queries)]
    command = [sys.executable, __file__, *options, "--one", *configuration]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    size = num_items * 512 * 4 / 2**20
    return (
        f"{num_items:>8}  {num_levels}  {block_size or 'auto':>5}  {found['product']:>9.2f}  {found['evaluate']:>10.2f}"
        f"  {found['evaluate'] / found['product']:>5.2f}  {found['evaluate cpu'] / found['product cpu']:>17.2f}"
        f"  {found['mebibytes']:>8.0f}  {size:>14.0f}"
    )


def measure(num_items: int, num_levels: int, block_size: int, *, num_queries: int, repeats: int) -> dict[str, float]:
    """Median seconds of product and evaluation, by clock and processor, and the peak of the process beyond inputs."""
    from hiertree.metrics import evaluate

    random = np.random.default_rng(0)
    paths = shop_like(num_items) if num_levels == 2 else inaturalist_like(num_items, random)
    embeddings = clustered(paths, random)
    evaluate(embeddings[:200], paths[:200])  # compile
    queries = slice(num_queries or None)
    gallery = (embeddings, paths) if num_queries else ()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times: dict[str, list[float]] = {name: [] for name in ("evaluate", "evaluate cpu", "product", "product cpu")}

    def clock(name: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter(), time.process_time()
        work()
        times[name].append(time.perf_counter() - begin[0])
        times[f"{name} cpu"].append(time.process_time() - begin[1])

    for _ in range(repeats):
        clock(
            "evaluate",
            lambda: evaluate(embeddings[queries], paths[queries], *gallery, block_size=block_size or None),
        )
        if "mebibytes" not in times:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            times["mebibytes"] = [peak / (2**20 if sys.platform == "darwin" else 2**10)]
        clock("product", lambda: product(embeddings[queries], embeddings))
    return {name: statistics.median(values) for name, values in times.items()}


def product(queries: NDArray[np.float32], gallery: NDArray[np.float32]) -> None:
    """Every block of queries × the gallery."""
    scores = np.empty((PRODUCT_ROWS, len(gallery)), np.float32)
    for start in range(0, len(queries), PRODUCT_ROWS):
        block = queries[start : start + PRODUCT_ROWS]
        np.matmul(block, gallery.T, out=scores[: len(block)])


def shop_like(num_items: int) -> NDArray[np.int64]:
    """(n, 2): classes of five under 12 super-categories."""
    classes = np.arange(num_items) // 5
    return np.stack([classes % 12, classes], axis=1)


def inaturalist_like(num_items: int, random: np.random.Generator) -> NDArray[np.int64]:
    """(n, 7): each node has one parent, drawn with weights that fall as 1 / rank."""
    columns = [random.integers(0, 2452, num_items)]
    for nodes in reversed(INATURALIST.values()):
        weights = 1.0 / np.arange(1, nodes + 1)
        parents = random.choice(nodes, size=int(columns[0].max()) + 1, p=weights / weights.sum())
        columns.insert(0, parents[columns[0]])
    return np.stack(columns, axis=1)


def clustered(paths: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float32]:
    """Noise around one random centre a node, so that rankings are good but not perfect."""
    embeddings = 2.0 * random.standard_normal((len(paths), 512), dtype=np.float32)
    for column in paths.T:
        embeddings += random.standard_normal((int(column.max()) + 1, 512), dtype=np.float32)[column]
    return embeddings


if __name__ == "__main__":
    main()
