"""Time and memory of an evaluation that processes share, each with its part of the gallery, and what larger ones take.

Run ``python benchmarks/evaluation_processes.py``; some minutes, on as many quiet cores as processes. Queries rank a
gallery in a memory map, L = 2, classes of five; every process has one thread. Memory is the peak of a process's own,
beyond what it held before, pages of the map not. The fit has no negative term:

    seconds = a · Q · N / processes + b · Q + c · N / processes + d

in which a is multiplying and counting, b what every process does for each query, c reading and normalizing its part. It
leaves out runs with more processes than cores. a grows with the gallery, whose tables of positives outgrow the caches.
The last lines say what 10⁶ queries and 10⁷ items take on GPUs that need ``--nanoseconds`` for a score of
``--dimensions``, which ``evaluation.py --device cuda`` measures; b is the processors' there too.

    python benchmarks/evaluation_processes.py --items 100000 500000 2000000 --processes 1 2 4 --queries 1024 4096
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from evaluation import clustered, peak_memory, shop_like

from hiertree.metrics.engine.similarity import LARGEST_COPY

QUERIES, ITEMS = 10**6, 10**7  # of the evaluation that is foretold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[200_000, 400_000])
    parser.add_argument("--queries", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--nanoseconds", type=float, default=0.05, help="a GPU takes for a score")
    parser.add_argument("--folder", type=Path, help="for the gallery; a temporary one unless given")
    arguments = parser.parse_args()
    rows, seconds = [], []
    print("   items  queries  processes  seconds  ns a score and process  peak MiB a process  part of the gallery MiB")
    for num_items in arguments.items:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            gallery = Path(folder, "gallery.npy")
            clustered(shop_like(num_items), arguments.dimensions, np.random.default_rng(0), gallery)
            for queries, number in product(arguments.queries, arguments.processes):
                found = measured(folder, queries, number)
                part = num_items * arguments.dimensions * 4
                part = (part if part <= LARGEST_COPY else part / number) / 2**20  # smaller ones are held whole
                score = 1e9 * found["seconds"] * number / (queries * num_items)
                print(
                    f"{num_items:>8}  {queries:>7}  {number:>9}  {found['seconds']:>7.1f}  {score:>22.1f}"
                    f"  {found['mebibytes']:>18.0f}  {part:>23.0f}",
                    flush=True,
                )
                if number <= (os.cpu_count() or 1):
                    rows.append([queries * num_items / number, queries, num_items / number, 1.0])
                    seconds.append(found["seconds"])
    foretell(np.array(rows), np.array(seconds), arguments.nanoseconds)


def foretell(rows: Any, seconds: Any, nanoseconds: float) -> None:
    """Fit the model, and print what it says of many GPUs."""
    from scipy.optimize import nnls

    scale = rows.max(axis=0)
    weights = 1 / seconds  # relative errors
    cost = nnls(rows / scale * weights[:, None], np.ones(len(rows)))[0] / scale
    off = np.abs(rows @ cost / seconds - 1).max()
    print(f"a {1e9 * cost[0]:.3f} ns, b {1e6 * cost[1]:.1f} µs, c {1e9 * cost[2]:.0f} ns, d {cost[3]:.2f} s", end="")
    print(f"; off by at most {100 * off:.0f} %")
    for gpus in (8, 64):
        parts = {
            "scores": QUERIES * ITEMS / gpus * 1e-9 * nanoseconds,
            "queries": QUERIES * cost[1],
            "reading": ITEMS / gpus * cost[2],
        }
        most = max(parts, key=parts.__getitem__)
        words = ", ".join(f"{name} {value:.0f}" for name, value in parts.items())
        print(f"{gpus} GPUs, {QUERIES:.0e} × {ITEMS:.0e}: {sum(parts.values()):.0f} s ({words}), bound by {most}")


def measured(folder: str, queries: int, number: int) -> dict[str, float]:
    """The slowest time and the largest peak of so many processes."""
    from torch import multiprocessing

    for file in Path(folder).glob("meeting*"):
        file.unlink()
    multiprocessing.spawn(take_part, args=(number, folder, queries), nprocs=number)
    found = [json.loads(Path(folder, f"{rank}.json").read_text(encoding="utf-8")) for rank in range(number)]
    return {name: max(own[name] for own in found) for name in found[0]}


def take_part(rank: int, number: int, folder: str, queries: int) -> None:
    """Evaluate together with the others, once to compile and once measured."""
    import torch
    from torch import distributed

    from hiertree.metrics import evaluate

    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):  # one core each, as far as there are
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=number)
    gallery = np.load(Path(folder, "gallery.npy"), mmap_mode="r")
    paths = shop_like(len(gallery))
    asked = np.array(gallery[:queries])
    evaluate(asked[:16], paths[:16], gallery, paths, distributed=True)  # compile
    distributed.barrier()
    with peak_memory() as peak:
        begin = time.perf_counter()
        evaluate(asked, paths[:queries], gallery, paths, distributed=True)
        seconds = time.perf_counter() - begin
    found = {"seconds": seconds, "mebibytes": peak[0]}
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
