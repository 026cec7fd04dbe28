"""How time and memory of commands, readers, samplers and pages grow: a table that fails where they outgrow their input.

Each case runs at a size, three and ten times it, as a process of its own; its time is the processor's, less that of the
same command at a hundredth of the size, which is its start. The exponent is that between the last two sizes. It fails
above 1.15 (where the last size takes two seconds or more), or above the case's peak of memory. ``python
benchmarks/growth_table.py`` runs all, ``… evaluate report`` some, ``--scale 0.1`` a tenth of each size. Commands that
wait for a network, a person or a GPU are not here, nor is training, whose steps are all of one size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

STEEPEST = 1.15
SHORTEST = 2.0  # seconds below which an exponent is noise
# What a process says of its own memory at its end: that of wait4 is at least its parent's.
_AT_END = r"""
import atexit, os, re
at_end = lambda: os.write({target}, re.search(rb"VmHWM:\s+(\d+)", open("/proc/self/status", "rb").read())[1])
atexit.register(at_end)
"""
_COMMAND = 'import runpy\nrunpy.run_module("hiertree", run_name="__main__", alter_sys=True)'
WORDS = ("lake", "church", "peak", "museum", "bridge", "castle", "park", "river")


class Case(NamedTuple):
    """A command or statements, what writes inputs of a size, the smallest size, and the most MiB at ten times it."""

    command: str
    write: Callable[[int], None]
    size: int
    peak: int


def run(command: str, size: int) -> tuple[float, float]:
    """Seconds of the processor and MiB at the peak of a command, or of statements that know the size as n."""
    source, target = os.pipe()
    is_python = "import " in command
    code = _AT_END.format(target=target) + (f"n = {size}\n{command}" if is_python else _COMMAND)
    arguments = [sys.executable, "-c", code, *([] if is_python else [*command.split(), "--quiet"])]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, pass_fds=[target]) as process:
        os.close(target)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    with os.fdopen(source, "rb") as peak:
        kibibytes = int(peak.read() or 0)
    if process.returncode:
        raise SystemExit(f"{command} of {size:,} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, kibibytes / 1024


def after(write: Callable[[int], None], *commands: str) -> Callable[[int], None]:
    """What writes the inputs of a command that comes after others."""

    def prepare(count: int) -> None:
        write(count)
        for command in commands:
            run(command, count)

    return prepare


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


def write_table_of_files(count: int) -> None:
    """A table of images that are there, empty."""
    write_table(count)
    for row in range(count):
        Path(f"{row}.jpg").touch()


def write_table_of_embeddings(count: int) -> None:
    """A thousand queries and a gallery with columns of labels in Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    vectors, _ = clustered(count)
    table = pa.Table.from_pandas(
        leaves(count).astype(str).assign(split=np.where(np.arange(count) < 1000, "query", "gallery"))
    )
    parquet.write_table(
        table.append_column("embedding", pa.FixedSizeListArray.from_arrays(vectors.ravel(), 32)), "e.parquet"
    )


def write_judged_pairs(count: int) -> None:
    """A hundred queries, a gallery, and grades of all pairs."""
    random = np.random.default_rng(0)
    for name, rows in (("q.npy", 100), ("g.npy", count)):
        np.save(name, random.standard_normal((rows, 32), np.float32))
    np.save("grades.npy", (random.random((100, count)) < 0.01).astype(np.uint8))


def write_edges(count: int) -> None:
    """As many leaves of a tree of four levels as edges, a pair a line and in GraphML."""
    leaf = [(f"leaf {row}", f"group {row // 20}") for row in range(count)]
    group = [(f"group {row}", f"kind {row // 20}") for row in range(-(-count // 20))]
    pairs = leaf + group + [(f"kind {row}", "root") for row in range(-(-count // 400))]
    pd.DataFrame(pairs, columns=["child", "parent"]).to_csv("e.csv", index=False)
    nodes = "".join(f'<node id="{child}"/>' for child, _ in pairs)
    edges = "".join(f'<edge source="{parent}" target="{child}"/>' for child, parent in pairs)
    text = f'<graph edgedefault="directed"><node id="root"/>{nodes}{edges}</graph>'
    Path("g.graphml").write_text(f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{text}</graphml>')


def write_images(count: int) -> None:
    """Small images in folders of classes, five in each, and in an archive."""
    from io import BytesIO

    from PIL import Image

    stream = BytesIO()
    Image.new("RGB", (32, 32)).save(stream, "PNG")
    with tarfile.open("images.tar", "w") as archive:
        for row in range(count):
            file = Path("photos", f"class {row // 5}", f"{row}.png")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(stream.getvalue())
            for name, data in ((f"{row}.png", stream.getvalue()), (f"{row}.cls", str(row // 5).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, BytesIO(data))


def write_network(count: int) -> None:
    """Images, and the random weights of a small network."""
    import timm
    import torch

    write_images(count)
    torch.save(timm.create_model("test_resnet").state_dict(), "w.pth")


def write_landmarks(count: int) -> None:
    """Landmarks with labels of Wikidata's kind."""
    rows = (f"{row},http://commons.wikimedia.org/wiki/Category:P{row},{WORDS[row % 8]}" for row in range(count))
    Path("l.csv").write_text("landmark_id,category,instance_of\n" + "\n".join(rows) + "\n", encoding="utf-8")


def write_labels(count: int) -> None:
    """A landmark for each of as many labels, of five words."""
    labels = (" ".join(WORDS[row // 8**place % 8] for place in range(5)) for row in range(count))
    rows = (f"{row},http://commons.wikimedia.org/wiki/Category:P{row},{label}" for row, label in enumerate(labels))
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
description.LOOKED_FOR = 0
load_sop(".", verify="structure")"""

FILES = """from hiertree import LabelTree
LabelTree.from_paths([(row // 400, row // 20, row) for row in range(n)]).to_{form}("t")
tree = LabelTree.from_{form}("t"{levels})
assert len(tree.paths(tree.leaves)) == n"""
GRAPHS = """from hiertree import LabelTree
tree = LabelTree.from_paths([(row // 400, row // 20, row) for row in range(n)])
assert len(LabelTree.from_networkx(tree.to_networkx()).leaves) == n"""
TABLE = """from hiertree.datasets import description, load_table
description.LOOKED_FOR = 0
load_table("t.csv", root=".", image="image", levels=["kind", "group", "leaf"])"""
PAGE = """from urllib.request import urlopen
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.browse.server import served
with served(read_embedded(["e.npz"])) as url:
    urlopen(url).read()"""
CLUSTER = "labels cluster cleaned --out clustered --clusters 50"
EXPORT = "labels export clustered --out exported"
CLEAN = "labels clean l.csv --out cleaned"

CASES = {
    "ClassBalancedSampler": Case(BALANCED.format(sampler="ClassBalancedSampler"), nothing, 200_000, 1_500),
    "TreeSampler": Case(BALANCED.format(sampler="TreeSampler"), nothing, 100_000, 1_500),
    "SuperCategoryPairSampler": Case(PAIRS, nothing, 300_000, 1_000),
    "load_sop": Case(LISTS, write_products, 100_000, 1_500),
    "load_table": Case(TABLE, write_table_of_files, 10_000, 1_000),
    "load_folder": Case('from hiertree.datasets import load_folder\nload_folder("photos")', write_images, 3_000, 1_000),
    "load_archives": Case(
        'from hiertree.datasets import load_archives\nload_archives("images.tar")', write_images, 3_000, 1_000
    ),
    "tree as CSV": Case(
        FILES.format(form="csv", levels=', levels=["level_1", "level_2", "level_3"]'), nothing, 30_000, 2_000
    ),
    "tree as JSON": Case(FILES.format(form="json", levels=""), nothing, 30_000, 2_000),
    "tree as a graph": Case(GRAPHS, nothing, 10_000, 2_000),
    "tree": Case("tree t.csv --levels kind,group,leaf,image --out t.json", write_table, 30_000, 3_000),
    "tree of edges": Case("tree e.csv --edges parent,child --out t.csv", write_edges, 10_000, 2_000),
    "tree of GraphML": Case("tree g.graphml --out t.json", write_edges, 10_000, 2_000),
    "split": Case("split t.csv --levels kind,group,leaf --out s.csv", write_table, 100_000, 3_000),
    "embed": Case("embed timm:test_resnet/w.pth photos --out out --set images.workers=0", write_network, 300, 2_000),
    "evaluate": Case("evaluate e.npz --json", write_gallery, 100_000, 4_000),
    "evaluate Parquet": Case("evaluate e.parquet --json", write_table_of_embeddings, 30_000, 4_000),
    "evaluate --codes": Case("evaluate e.npz --codes --json", write_gallery, 100_000, 4_000),
    "evaluate-pairs": Case(
        "evaluate-pairs q.npy grades.npy --gallery g.npy --json", write_judged_pairs, 100_000, 4_000
    ),
    "evaluate-run": Case("evaluate-run run.txt --tree t.csv --json", write_run, 300_000, 4_000),
    "qrels": Case("qrels t.csv --levels group,leaf --out q.txt", write_table, 3_000, 2_000),
    "evaluate-run --qrels": Case(
        "evaluate-run run.txt --qrels q.txt --json",
        after(write_run, "qrels t.csv --levels group,leaf --out q.txt"),
        300_000,
        4_000,
    ),
    "report": Case("report e.npz --out r.html", write_queries, 10_000, 3_000),
    "browse": Case(PAGE, write_queries, 30_000, 2_000),
    "compare": Case("compare run.txt --tree t.csv --json", write_run, 300_000, 4_000),
    "labels clean": Case(CLEAN, write_landmarks, 10_000, 2_000),
    "labels cluster": Case(CLUSTER, after(write_labels, CLEAN), 1_000, 2_000),
    "labels review": Case(
        "labels review clustered --annotator a --table r.csv", after(write_labels, CLEAN, CLUSTER), 1_000, 2_000
    ),
    "labels export": Case(EXPORT, after(write_labels, CLEAN, CLUSTER), 1_000, 2_000),
    "labels tree": Case("labels tree exported --out t.html", after(write_labels, CLEAN, CLUSTER, EXPORT), 1_000, 2_000),
    "labels build": Case("labels build l.csv --out built --clusters 8", write_landmarks, 10_000, 2_000),
}


def measure(case: Case, size: int) -> tuple[float, float]:
    """Seconds of the processor and MiB at the peak, in a folder of the case's own."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            case.write(size)
            return run(case.command, size)
        finally:
            os.chdir(before)


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
        sizes = [max(100, int(arguments.scale * case.size * times)) for times in (1, 3, 10)]
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
