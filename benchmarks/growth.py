"""How the time of ``evaluate`` grows with the gallery and that of Sup-H-AP with the batch, beside other libraries.

Each call measures one curve at some sizes and puts what it found into ``growth.json``, with the machine; afterwards
``python scripts/growth_figure.py`` draws it. Medians by the clock on an idle machine, nothing set in the environment;
where it was not idle, nothing is kept of a size. Galleries are those of ``peers.py`` with two levels; batches those of
``losses.py`` with two levels, dense as there, and pytorch-metric-learning's Smooth-AP, which knows one level.

    python benchmarks/growth.py evaluation --sizes 2000 5000 20000
    python benchmarks/growth.py evaluation --sizes 60000 136000 --queries 4096 --peer-queries 2 --repeats 1
    python benchmarks/growth.py losses --sizes 128 256 512 1024 2048 4096 8192
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from idle_machine import Timing, in_turn, medians, ratio, timed

FILE = Path(__file__).with_name("growth.json")
CUBIC_UP_TO = 512  # images of a batch for losses that hold every triple of them
Found = dict[str, list[Timing]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curve", choices=("evaluation", "losses"))
    parser.add_argument("--sizes", type=int, nargs="+", required=True, help="items of a gallery, or images of a batch")
    parser.add_argument("--queries", type=int, default=0, help="of a gallery; 0 is all")
    parser.add_argument("--peer-queries", type=int, default=4, help="of libraries that take scores")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for size in arguments.sizes:
        if arguments.curve == "losses":
            found = in_turn(losses_at(size), arguments.repeats, divisor="product")
        else:
            found = evaluation_at(size, arguments)
        costs = {who: ratio(timings, found["product"]) for who, timings in found.items()}
        print(f"{arguments.curve}, {size:,}:", ", ".join(f"{who} {cost}" for who, cost in costs.items()), flush=True)
        if all(cost[0].isdigit() for cost in costs.values()):
            keep(arguments.curve, size, {who: medians(timings).clock for who, timings in found.items()})


def keep(curve: str, size: int, seconds: dict[str, float]) -> None:
    """Put the seconds of each into the file."""
    kept = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    sizes = kept.get(curve, {}) | {str(size): {who: float(f"{value:.4g}") for who, value in seconds.items()}}
    kept |= {"machine": machine(), curve: dict(sorted(sizes.items(), key=lambda item: int(item[0])))}
    FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """What this is measured on."""
    cores, about = os.cpu_count(), Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{cores} cores of {names[0] if names else platform.processor()}, {platform.system()}"


def evaluation_at(size: int, arguments: argparse.Namespace) -> Found:
    """Seconds a query of the product, ``evaluate`` and other libraries."""
    from peers import WHO, timings

    queries, peer_queries = arguments.queries, arguments.peer_queries
    return timings(size, 2, who=WHO, queries=queries, peer_queries=peer_queries, repeats=arguments.repeats)


def losses_at(size: int) -> dict[str, Callable[[], Timing]]:
    """Forward and backward of one batch: the bare products, Sup-H-AP, and losses that hold every triple."""
    import torch
    from pytorch_metric_learning.losses import SmoothAPLoss

    from losses import DIMENSIONS, batch_paths, implementation

    torch.manual_seed(0)
    embeddings, paths = torch.randn(size, DIMENSIONS, requires_grad=True), batch_paths(size, 2)
    theirs: Any = SmoothAPLoss()

    def smooth_ap() -> None:
        embeddings.grad = None
        theirs(embeddings, paths[:, -1]).backward()

    works = {"product": implementation("products", "SupHAP", embeddings, paths, ())}
    works["hiertree"] = implementation("hiertree", "SupHAP", embeddings, paths, ())
    if size <= CUBIC_UP_TO:
        works["dense"] = implementation("dense", "SupHAP", embeddings, paths, ())
        works["Smooth-AP"] = smooth_ap
    for work in works.values():
        work()  # compiles, and wakes threads
    return {who: partial(timed, work) for who, work in works.items()}


if __name__ == "__main__":
    main()
