"""Time and memory of an evaluation whose queries processes divide.

Run ``python benchmarks/evaluation_processes.py``; some minutes, on as many quiet cores as processes. Queries rank a
gallery in a memory map, L = 2, classes of five; every process has one thread. Memory is the peak of a process's own,
beyond what it held before, pages of the map not.

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

import numpy as np
from evaluation import clustered, peak_memory, shop_like


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[200_000, 400_000])
    parser.add_argument("--queries", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--folder", type=Path, help="for the gallery; a temporary one unless given")
    arguments = parser.parse_args()
    print("   items  queries  processes  seconds  ns a score and process  peak MiB a process")
    for num_items in arguments.items:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            gallery = Path(folder, "gallery.npy")
            clustered(shop_like(num_items), arguments.dimensions, np.random.default_rng(0), gallery)
            for queries, number in product(arguments.queries, arguments.processes):
                found = measured(folder, queries, number)
                score = 1e9 * found["seconds"] * number / (queries * num_items)
                print(
                    f"{num_items:>8}  {queries:>7}  {number:>9}  {found['seconds']:>7.1f}  {score:>22.1f}"
                    f"  {found['mebibytes']:>18.0f}",
                    flush=True,
                )


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
