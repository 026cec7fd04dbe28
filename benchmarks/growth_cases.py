"""The cases of the growth table: each a command, or statements that know the size as ``n``, and what it reads.

A new command, sampler, or reader or writer of trees, tables, embeddings, lists, judgments or images, and each request
of a local page belong here; ``tests/package/test_growth.py`` names those that are missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from growth_inputs import (
    write_edges,
    write_gallery,
    write_gallery_as,
    write_images,
    write_judged_pairs,
    write_network,
    write_queries,
    write_recipe,
    write_run,
    write_table,
    write_table_of_embeddings,
    write_table_of_files,
)
from growth_landmarks import (
    classes,
    hosted_archive,
    unasked,
    wikimedia,
    write_labels,
    write_landmarks,
    write_photos,
    write_proposal,
    write_unlabeled,
)
from growth_lists import (
    LISTS,
    write_classes,
    write_flags,
    write_gldv2,
    write_inaturalist,
    write_list,
    write_pickle,
    write_products,
)

Inputs = Callable[[int], "AbstractContextManager[str] | None"]


class Case(NamedTuple):
    """A command, what writes its inputs, the smallest size, the most MiB at ten times it, and what is done around it.

    ``before`` are commands that make further inputs of it. ``asks`` are what a browser asks of a command that serves a
    page until Ctrl-C: paths, and actions of a review in JSON. ``WIKIMEDIA`` in a command is what its inputs yield.
    """

    command: str
    write: Inputs
    size: int
    peak: int
    before: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()


def nothing(_: int) -> None:
    """No input."""


ONE_SIZE = {
    "demo": "draws its own images",
    "recipes": "reads the recipes of the package",
    "recipes show": "reads a recipe of the package",
    "datasets list": "reads the benchmarks of the package",
    "export": "writes a network, whose size no input changes",
}
"""Commands that are not in the table, and why."""
SMALL_LISTS = {
    "aircraft": "10,000 images",
    "cars": "16,185 images",
    "cifar": "60,000 images in files of one size",
    "cub": "11,788 images",
    "ilias": "5,947 images",
    "imagenet100": "128,503 images in lists as of inshop",
    "omniglot": "32,460 drawings",
    "revisited": "6,392 images",
    "synthetic": "draws its own images",
}
"""Readers of benchmarks that are not in the table, and why."""

SAME_READER = {".xls": ".xlsx", ".ods": ".xlsx", ".pq": ".parquet"}
"""Endings of files that are not in the table, and the one whose reader reads them."""

# An epoch of a sampler; of the pair sampler its first batch of n and its last one.
EPOCH = """from hiertree import samplers
import numpy as np
leaf = np.arange(n) // 5
paths = np.stack([leaf // 400, leaf // 20, leaf], 1)
sampler = samplers.{}
for batch in sampler: pass"""
BATCHES = "batch_size=256, images_per_class=4"
PAIRS = """from hiertree.samplers import SuperCategoryPairSampler
import numpy as np
leaf = np.repeat(np.arange(8 * round((n / 2.5) ** 0.5)), 2)
sampler = SuperCategoryPairSampler(np.stack([leaf // 8, leaf], 1), batch_size=32, images_per_class=2)
next(iter(sampler))
sampler.load_state_dict({"epoch": 1, "batch": len(sampler) - 1})
next(iter(sampler))"""
SAMPLERS = {
    "ClassBalancedSampler": (f"ClassBalancedSampler(paths, {BATCHES})", 500_000),
    "ClassBalancedSampler by size": (f"ClassBalancedSampler(paths, {BATCHES}, visits='by_size')", 300_000),
    "RandomSampler": ("RandomSampler(paths, batch_size=256)", 500_000),
    "TreeSampler": (f"TreeSampler(paths, {BATCHES})", 100_000),
    "DistributedBatches": (
        f"DistributedBatches(samplers.ClassBalancedSampler(paths, {BATCHES}), rank=1, world_size=2)",
        500_000,
    ),
}

LABELS = "from hiertree import LabelTree\nrows = [(row // 400, row // 20, row) for row in range(n)]\n"
FILES = (
    LABELS
    + """LabelTree.from_paths(rows).to_{form}("t")
tree = LabelTree.from_{form}("t"{levels})
assert len(tree.paths(tree.leaves)) == n"""
)
FRAME = (
    LABELS
    + """import pandas as pd
assert len(LabelTree.from_frame(pd.DataFrame(rows, columns=["a", "b", "c"])).leaves) == n"""
)
EDGES = (
    LABELS
    + """pairs = [(f"g{{b}}", c) for a, b, c in rows] + [(f"k{{a}}", f"g{{b}}") for a, b in {{row[:2] for row in rows}}]
assert len(LabelTree.from_edges(pairs, forest="join").leaves) == n""".replace("{{", "{").replace("}}", "}")
)
GRAPHS = (
    LABELS
    + """tree = LabelTree.from_paths(rows)
assert len(LabelTree.from_networkx(tree.to_networkx()).leaves) == n"""
)

READ = 'from hiertree.io.tables import read_table\nassert len(read_table("t{}")) == n'
LOAD = """from hiertree.datasets import description, {call}
description.LOOKED_FOR = 0
{call}({options})"""
BENCHMARKS: dict[str, tuple[Inputs, str, int]] = {  # the writer, options, and images
    **{name: (partial(write_list, name), "", 100_000) for name in LISTS},
    "ijbc": (partial(write_list, "ijbc"), ', "test"', 100_000),
    "sfm120k": (write_pickle, "", 200_000),
    "nus_wide": (write_flags, ", queries_per_label=1, training_per_label=5", 100_000),
    "gldv2": (write_gldv2, ', "train", hierarchy=True', 200_000),
    "inaturalist": (write_inaturalist, "", 100_000),
    "better_mistakes": (write_classes, "", 20_000),
}
HUB = """import datasets, numpy as np
from hiertree.datasets import from_huggingface, load_huggingface
leaf = np.arange(n) // 5
image = datasets.Image().encode_example(np.zeros((2, 2, 3), np.uint8))
rows = datasets.Dataset.from_dict({"image": [image] * n, "kind": leaf // 20, "leaf": leaf},
    datasets.Features(image=datasets.Image(), kind=datasets.Value("int64"), leaf=datasets.Value("int64")))
rows.save_to_disk("saved")
assert len(load_huggingface("saved", "train", levels=["kind", "leaf"])) == n"""
DOWNLOAD = """import urllib.request, hashlib
from pathlib import Path
from dataclasses import replace
from hiertree.datasets import describe, download
from hiertree.datasets.description import Download
md5 = hashlib.md5(Path("host/data.zip").read_bytes()).hexdigest()
download(replace(describe("sop"), downloads=(Download(url="WIKIMEDIA", md5=md5),)), Path("data"))"""

CLEAN = "labels clean l.csv --out cleaned"
CLUSTER = "labels cluster cleaned --out clustered --clusters 50"
EXPORT = "labels export clustered --out exported"
SCRAPE = "labels scrape l.csv --store s.sqlite --table i.csv WIKIMEDIA"
TABLE = "labels review clustered --annotator {0} --table {0}.csv"
REVIEW_ASKS = (
    "/",
    "/page/main.js",
    "/api/review",
    "/api/landmarks?label=lake 0",
    "/images?landmark=0",
    *(
        json.dumps(action)
        for action in (
            {"do": "rename", "cluster": 0, "name": "lakes"},
            {"do": "approve", "clusters": [0], "approved": True},
            {"do": "move", "labels": ["lake 0"], "name": "lake", "kind": "natural"},
            {"do": "undo"},
            {"do": "redo"},
        )
    ),
    "/api/news?since=0",
)
BROWSE_ASKS = (
    *("/", "/page/main.js", "/api/everything", "/api/children?node=0", "/api/images?start=0", "/api/random"),
    *(
        "/api/find?name=1",
        "/api/neighbors?query=0&model=0",
        "/api/neighbors?query=1&model=0&within=0",
        "/images/0",
        "/large/0",
    ),
)
TRAIN = "train recipe.yaml --out run"
EMBED = "embed timm:test_resnet/w.pth photos --out out --set images.workers=0"
RUN = "evaluate-run run{} --tree t.csv --json"
RUN_LINES = {".txt": 300_000, ".csv": 300_000, ".parquet": 300_000, ".json": 300_000, ".npy": 1_000_000}

CASES = {
    "SuperCategoryPairSampler": Case(PAIRS, nothing, 1_000_000, 1_000),
    **{name: Case(EPOCH.format(call), nothing, size, 1_500) for name, (call, size) in SAMPLERS.items()},
    "tree as CSV": Case(
        FILES.format(form="csv", levels=', levels=["level_1", "level_2", "level_3"]'), nothing, 30_000, 2_000
    ),
    "tree as JSON": Case(FILES.format(form="json", levels=""), nothing, 30_000, 2_000),
    "tree as a frame": Case(FRAME, nothing, 100_000, 2_000),
    "tree as a graph": Case(GRAPHS, nothing, 20_000, 2_000),
    "tree as text": Case(LABELS + "LabelTree.from_paths(rows).to_text()", nothing, 100_000, 2_000),
    "edges in memory": Case(EDGES, nothing, 30_000, 2_000),
    "tree": Case("tree t.csv --levels kind,group,leaf,image --out t.json", write_table, 30_000, 3_000),
    "tree of JSON": Case(
        "tree t.json --out u.csv",
        write_table,
        50_000,
        3_000,
        ("tree t.csv --levels kind,group,leaf,image --out t.json",),
    ),
    "tree of a table of edges": Case("tree e.csv --edges parent,child --out t.csv", write_edges, 30_000, 2_000),
    "tree of edges": Case("tree e.txt --out t.csv", write_edges, 30_000, 2_000),
    "tree of paths": Case("tree paths.txt --separator > --out t.csv", write_edges, 30_000, 2_000),
    "tree of GraphML": Case("tree g.graphml --out t.json", write_edges, 20_000, 2_000),
    **{
        f"table {suffix}": Case(READ.format(suffix), partial(write_table, name=f"t{suffix}"), size, 2_000)
        for suffix, size in {
            ".csv": 200_000,
            ".tsv": 200_000,
            ".parquet": 300_000,
            ".xlsx": 40_000,
            ".csv.gz": 200_000,
            ".csv.bz2": 200_000,
            ".csv.xz": 200_000,
            ".csv.zip": 200_000,
            ".csv.zst": 200_000,
        }.items()
    },
    "split": Case("split t.csv --levels kind,group,leaf --out s.csv", write_table, 100_000, 3_000),
    "load_table": Case(
        LOAD.format(call="load_table", options='"t.csv", root=".", image="image", levels=["kind", "group", "leaf"]'),
        write_table_of_files,
        30_000,
        1_000,
    ),
    "load_folder": Case(LOAD.format(call="load_folder", options='"photos"'), write_images, 20_000, 1_000),
    "load_archives": Case(LOAD.format(call="load_archives", options='"images.tar"'), write_images, 10_000, 1_000),
    "load_huggingface": Case(HUB, nothing, 10_000, 2_000),
    **{
        f"load_{name}": Case(
            LOAD.format(call=f"load_{name}", options=f'"."{options}, verify="structure"'), write, size, 1_500
        )
        for name, (write, options, size) in BENCHMARKS.items()
    },
    "datasets check": Case("datasets check sop . --structure --split train --json", write_products, 25_000, 1_000),
    "datasets download": Case(DOWNLOAD, hosted_archive, 2_000, 1_000),
    "train": Case(TRAIN, write_recipe, 15_000, 2_000),
    "train, tested": Case(TRAIN, partial(write_recipe, tested=True), 1_000, 2_000),
    "embed": Case(EMBED, write_network, 300, 2_000),
    "evaluate": Case("evaluate e.npz --json", write_gallery, 100_000, 4_000),
    "evaluate .parquet": Case("evaluate e.parquet --json", write_table_of_embeddings, 30_000, 4_000),
    **{
        f"evaluate {suffix}": Case(
            f"evaluate q{suffix} --labels q.csv --gallery g{suffix} --gallery-labels g.csv --json",
            partial(write_gallery_as, suffix),
            100_000,
            4_000,
        )
        for suffix in (".npy", ".pt", ".safetensors")
    },
    **{
        f"evaluate --per-query {suffix}": Case(f"evaluate e.npz --per-query v{suffix}", write_queries, 3_000, 4_000)
        for suffix in (".csv", ".parquet")
    },
    "evaluate --codes": Case("evaluate e.npz --codes --json", write_gallery, 200_000, 4_000),
    "evaluate-pairs": Case(
        "evaluate-pairs q.npy grades.npy --gallery g.npy --json", write_judged_pairs, 200_000, 4_000
    ),
    "evaluate-pairs .pkl": Case(
        "evaluate-pairs q.npy grades.pkl --gallery g.npy --json", write_judged_pairs, 100_000, 4_000
    ),
    **{
        f"evaluate-run {suffix}": Case(RUN.format(suffix), partial(write_run, suffix=suffix), size, 4_000)
        for suffix, size in RUN_LINES.items()
    },
    "evaluate-run --qrels": Case(
        "evaluate-run run.txt --qrels q.txt --json",
        write_run,
        300_000,
        4_000,
        ("qrels t.csv --levels group,leaf --out q.txt",),
    ),
    "qrels": Case("qrels t.csv --levels group,leaf --out q.txt", write_table, 6_000, 2_000),
    "compare": Case("compare run.txt --tree t.csv --json", write_run, 300_000, 4_000),
    "compare trained": Case("compare recipe.yaml --out c", partial(write_recipe, tested=True), 300, 4_000),
    "report": Case("report e.npz --out r.html", write_queries, 5_000, 3_000),
    "report of a run": Case("report run --out r.html", partial(write_recipe, tested=True), 3_000, 3_000, (TRAIN,)),
    "report of a comparison": Case(
        "report c --out r.html", partial(write_recipe, tested=True), 2_000, 3_000, ("compare recipe.yaml --out c",)
    ),
    "browse": Case(
        "browse e.parquet --images . --no-browser", write_table_of_embeddings, 30_000, 2_000, asks=BROWSE_ASKS
    ),
    "labels scrape": Case(SCRAPE, wikimedia, 3_000, 1_000),
    "labels scrape, pages": Case(SCRAPE + " --source html", wikimedia, 300, 1_000),
    "labels retry": Case("labels retry s.sqlite WIKIMEDIA", unasked, 3_000, 1_000),
    "labels hypernyms": Case("labels hypernyms cleaned --store s.sqlite WIKIMEDIA", classes, 5_000, 1_000, (CLEAN,)),
    "labels status": Case("labels status s.sqlite --table i.csv --json", wikimedia, 5_000, 1_000, (SCRAPE,)),
    "labels clean": Case(CLEAN, write_landmarks, 30_000, 2_000),
    "labels fill": Case(
        "labels fill cleaned --embeddings v.npz --clip-model local-dir:clip --out filled",
        write_unlabeled,
        50_000,
        2_000,
        (CLEAN,),
    ),
    "labels cluster": Case(CLUSTER, write_labels, 1_000, 2_000, (CLEAN,)),
    "labels review": Case(
        "labels review clustered --annotator a --images photos --no-browser",
        write_proposal,
        10_000,
        2_000,
        asks=REVIEW_ASKS,
    ),
    "labels review --table": Case(TABLE.format("a"), write_proposal, 10_000, 2_000),
    "labels agreement": Case(
        "labels agreement clustered a.csv b.csv --json",
        write_proposal,
        10_000,
        2_000,
        (TABLE.format("a"), TABLE.format("b")),
    ),
    "labels export": Case(EXPORT, write_proposal, 10_000, 2_000),
    "labels tree": Case("labels tree exported --out t.html", write_proposal, 10_000, 2_000, (EXPORT,)),
    "labels images": Case(
        "labels images exported --images photos --image-table i.csv --min-images 1 --out listed",
        write_photos,
        10_000,
        2_000,
        (CLEAN, CLUSTER.replace("50", "8"), EXPORT),
    ),
    "labels build": Case("labels build l.csv --out built --clusters 8", write_landmarks, 10_000, 2_000),
    "labels build, scraped": Case("labels build plan.yaml --out built", wikimedia, 2_000, 2_000),
}
