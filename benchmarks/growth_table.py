"""How time and memory of commands, readers, samplers and pages grow: a table that fails where they outgrow their input.

Each case runs at three sizes as a process of its own; its time is the processor's, less that of the same command at a
hundredth of the first size, which is its start. The exponent is that between the last two sizes. It fails above 1.15
(where the last size takes a second or more), or above the case's peak of memory. ``python benchmarks/growth_table.py``
runs all, ``… evaluate report`` some, ``--scale 0.1`` a tenth of each size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

STEEPEST = 1.15
SHORTEST = 1.0  # seconds below which an exponent is noise


class Case(NamedTuple):
    """A command or statements, what writes inputs of a size, three sizes, and the most memory in MiB at the largest."""

    command: str
    write: Callable[[int], None]
    sizes: tuple[int, int, int]
    peak: int


def leaves(count: int) -> pd.DataFrame:
    """A table of items with three levels, five items a leaf."""
    leaf = np.arange(count) // 5
    return pd.DataFrame(
        {"image": [f"{row}.jpg" for row in range(count)], "kind": leaf // 400, "group": leaf // 20, "leaf": leaf}
    )


def clustered(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around those of their leaves, and paths."""
    random, paths = np.random.default_rng(0), leaves(count).iloc[:, 1:].to_numpy()
    centers = random.standard_normal((count, 32), np.float32)
    return centers[paths[:, 2]] + random.standard_normal((count, 32), np.float32), paths


def write_gallery(count: int) -> None:
    """A thousand queries in a gallery."""
    vectors, paths = clustered(count)
    queries = {"embeddings": vectors[:1000], "paths": paths[:1000]}
    np.savez("e.npz", **queries, gallery_embeddings=vectors, gallery_paths=paths)


def write_queries(count: int) -> None:
    """Items that retrieve each other."""
    vectors, paths = clustered(count)
    np.savez("e.npz", embeddings=vectors, paths=paths)


def write_table(count: int) -> None:
    """A table of items."""
    leaves(count).to_csv("t.csv", index=False)


def write_run(count: int) -> None:
    """Lists of a hundred items for as many queries as give so many lines, and the table of all."""
    random, queries = np.random.default_rng(0), max(1, count // 100)
    leaves(max(queries, 200)).to_csv("t.csv", index=False)
    with Path("run.txt").open("w", encoding="utf-8") as file:
        for query in range(queries):
            items = random.choice(max(queries, 200), 100, replace=False)
            file.writelines(f"{query}.jpg Q0 {item}.jpg {rank} {-rank} t\n" for rank, item in enumerate(items))


def write_landmarks(count: int) -> None:
    """Landmarks with labels of Wikidata's kind."""
    words = ("lake", "church", "peak", "museum", "bridge", "castle", "park", "river")
    rows = (f"{row},http://commons.wikimedia.org/wiki/Category:P{row},{words[row % 8]}" for row in range(count))
    Path("l.csv").write_text("landmark_id,category,instance_of\n" + "\n".join(rows) + "\n", encoding="utf-8")


def write_products(count: int) -> None:
    """The list of Stanford Online Products with as many images."""
    lines = (f"{row + 1} {row // 5} {row // 5 % 12} kind{row // 5 % 12}_final/{row}.JPG" for row in range(count))
    Path("Ebay_train.txt").write_text("image_id class_id super_class_id path\n" + "\n".join(lines) + "\n")


def nothing(_: int) -> None:
    """No input."""


# Statements, with the size as n: an epoch of samplers, for the pair sampler its first batches of n and its last one.
BALANCED = """from hiertree.samplers import {sampler} as Sampler
import numpy as np
leaf = np.arange(n) // 5
for batch in Sampler(np.stack([leaf // 400, leaf // 20, leaf], 1), batch_size=256, images_per_class=4): pass"""
PAIRS = """from hiertree.samplers import SuperCategoryPairSampler
import numpy as np
leaf = np.repeat(np.arange(8 * round((n / 2.5) ** 0.5)), 2)
sampler = SuperCategoryPairSampler(np.stack([leaf // 8, leaf], 1), batch_size=32, images_per_class=2)
next(iter(sampler))
sampler.load_state_dict({"epoch": 1, "batch": len(sampler) - 1})
next(iter(sampler))"""
LISTS = """from hiertree.datasets import description, load_sop
description.LOOKED_FOR = 0  # images, none of which is there
load_sop(".", verify="structure")"""

CASES = {
    "ClassBalancedSampler": Case(
        BALANCED.format(sampler="ClassBalancedSampler"), nothing, (200_000, 600_000, 2_000_000), 1_500
    ),
    "TreeSampler": Case(BALANCED.format(sampler="TreeSampler"), nothing, (100_000, 300_000, 1_000_000), 1_500),
    "SuperCategoryPairSampler": Case(PAIRS, nothing, (300_000, 1_000_000, 3_000_000), 1_000),
    "load_sop": Case(LISTS, write_products, (100_000, 300_000, 1_000_000), 1_500),
    "evaluate": Case("evaluate e.npz --json", write_gallery, (100_000, 300_000, 1_000_000), 4_000),
    "evaluate-run": Case("evaluate-run run.txt --tree t.csv --json", write_run, (300_000, 1_000_000, 3_000_000), 4_000),
    "report": Case("report e.npz --out r.html --force", write_queries, (10_000, 30_000, 90_000), 3_000),
    "compare": Case("compare run.txt --tree t.csv --json", write_run, (300_000, 1_000_000, 3_000_000), 4_000),
    "split": Case(
        "split t.csv --levels kind,group,leaf --out s.csv --force", write_table, (100_000, 300_000, 1_000_000), 3_000
    ),
    "tree": Case(
        "tree t.csv --levels kind,group,leaf,image --out t.json --force", write_table, (30_000, 100_000, 300_000), 3_000
    ),
    "labels clean": Case("labels clean l.csv --out cleaned", write_landmarks, (10_000, 30_000, 100_000), 2_000),
}


def measure(case: Case, size: int) -> tuple[float, float]:
    """Seconds of the processor and MiB at the peak."""
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            case.write(size)
            command = [sys.executable, "-m", "hiertree", *case.command.split(), "--quiet"]
            if case.command.startswith("from "):
                command = [sys.executable, "-c", f"n = {size}\n{case.command}"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            os.chdir(before)
    if process.returncode:
        raise SystemExit(f"{case.command} of {size:,} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    """Print the table; status 1 if a case grows too fast or takes too much memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *CASES], help="all unless named")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    arguments = parser.parse_args()
    print("| case | sizes | seconds | exponent | peak, MiB | |\n|---|---|---|---:|---:|---|")
    records, failures = [], 0
    for name in arguments.names or CASES:
        case = CASES[name]
        sizes = [max(100, int(arguments.scale * size)) for size in case.sizes]
        start, _ = measure(case, max(100, sizes[0] // 100))
        measured = [measure(case, size) for size in sizes]
        seconds = [max(1e-3, time - start) for time, _ in measured]
        exponent = math.log(seconds[2] / seconds[1]) / math.log(sizes[2] / sizes[1])
        too_steep, too_large = seconds[2] >= SHORTEST and exponent > STEEPEST, measured[2][1] > case.peak
        verdict = ", ".join(["too steep"] * too_steep + ["too much memory"] * too_large)
        failures += too_steep or too_large
        texts = " / ".join(f"{size:,}" for size in sizes), " / ".join(f"{time:.2f}" for time in seconds)
        print(f"| {name} | {texts[0]} | {texts[1]} | {exponent:.2f} | {measured[2][1]:,.0f} | {verdict} |", flush=True)
        records.append({"case": name, "sizes": sizes, "seconds": seconds, "exponent": exponent, "peak": measured[2][1]})
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
