"""Every file that a command reads, damaged at random: one line that names it, or the right result.

What has a checksum (``.npz``, ``.gz``) may be read only if the result is that of the whole file.
"""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import click
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from fuzz_world import ITEMS, call, command_of, flips, make_world, names_of

from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.cli.checked_paths import DeclaredPath

# Commands, and the files that are damaged for each.
READ = {
    "evaluate s.npz --json": ("s.npz",),
    "evaluate s.pt --json": ("s.pt",),
    "evaluate s.parquet --json": ("s.parquet",),
    "evaluate e.npy --labels l.csv --gallery e.safetensors --gallery-labels l.csv --junk junk.csv --json": (
        *("e.npy", "e.safetensors", "l.csv", "junk.csv"),
    ),
    "evaluate-run run.txt.gz --qrels qrels.txt.gz --json": ("run.txt.gz", "qrels.txt.gz"),
    "evaluate-run run.json --qrels qrels.txt --json": ("run.json", "qrels.txt"),
    "evaluate-run run.parquet --qrels qrels.txt --json": ("run.parquet",),
    "evaluate-run run.csv --qrels qrels.txt --json": ("run.csv",),
    "evaluate-run run.txt --tree items.csv --json": ("run.txt", "items.csv"),
    "evaluate-run lists.npy --tree items.csv --json": ("lists.npy",),
    "evaluate-pairs e.npy grades.npy --gallery e.npy --json": ("grades.npy",),
    "evaluate-pairs e.npy gnd.pkl --gallery e.npy --json": ("gnd.pkl",),
    "evaluate run --json": ("run/embeddings.npz", "run/recipe.yaml", "run/metrics.json", "run/tree.json"),
    "qrels exported/hierarchical.csv --ids landmark_id --levels hierarchical_label,supercategory --out OUT/q.txt": (
        "exported/hierarchical.csv",
    ),
    "split l.csv --levels kind --by images --out OUT/s.csv": ("l.csv",),
    "tree tree.json --out OUT/tree.csv": ("tree.json",),
    "tree tree.graphml --out OUT/tree.csv": ("tree.graphml",),
    "tree edges.txt --out OUT/tree.csv": ("edges.txt",),
    "report run --out OUT/page.html --queries 1 --hits 1": ("run/per_query.parquet", "run/history.jsonl"),
    "datasets check sop data --structure": ("data/Ebay_test.txt",),
    "labels clean landmarks.csv --out OUT/cleaned": ("landmarks.csv",),
    "labels cluster cleaned --out OUT/clustered --clusters 3": ("cleaned/landmarks.csv",),
    "labels cluster cleaned --encoder vectors --vectors words.parquet --out OUT/clustered --clusters 3": (
        "words.parquet",
    ),
    "labels export clustered --out OUT/exported": ("clustered/proposal.json",),
    "labels agreement clustered log.jsonl other-log.jsonl": ("log.jsonl",),
    "labels tree exported --out OUT/tree.html": ("exported/tree.json",),
    "labels images exported --images photos --out OUT/listed": ("exported/hierarchical.csv",),
    "labels build landmarks.csv --out OUT/built --clusters 2": ("landmarks.csv",),
    "labels status store.sqlite": ("store.sqlite",),
    "embed run data --out OUT/embedded": ("run/model.json", "run/model.safetensors"),
}
OTHERS = {  # inputs whose reader is tried above, or which are folders
    "demo --data": "a data set, as datasets check",
    "browse sources": "as report, and serves until Ctrl-C",
    "browse --images": "a folder",
    "embed --root": "a folder",
    "report --images": "a folder",
    "labels review clustered": "as labels export, and serves until Ctrl-C",
    "export model": "as embed, and takes minutes",
    "export --images": "a folder",
    "labels fill cleaned": "as labels cluster",
    "labels fill --embeddings": "in tests/pipelines/labels/test_filling.py; the command needs CLIP's weights",
}
SAME = ("--labels", "--gallery", "--gallery-labels", "--image-table", "--instances", "--query-labels", "--images")
SAME_FORMAT = (
    *SAME,
    "--hypernyms",
    "--review",
    "--store",
    "landmarks",
    "--tree",
    "--qrels",
    "--vectors",
    "--texts",
    "--edited",
    "--assignments",
)
CHECKED = (".npz", ".gz")
NUMBER = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    import torch
    from safetensors.numpy import save_file

    import hiertree as ht
    from hiertree.pipelines.labels.cluster.proposal_files import read_proposal
    from hiertree.pipelines.labels.review.log_file import Header
    from hiertree.pipelines.labels.review.state import initial_state
    from hiertree.pipelines.labels.scrape.store import Store

    folder, random = tmp_path_factory.mktemp("world"), np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIERTREE_PROGRESS", "0")
        patch.chdir(folder)
        make_world(folder)
        vectors, paths = np.load("e.npy"), np.load("s.npz")["paths"]
        torch.save({"embeddings": torch.from_numpy(vectors), "paths": torch.from_numpy(paths)}, "s.pt")
        save_file({"embeddings": vectors}, "e.safetensors")
        np.save("lists.npy", random.permuted(np.tile(np.arange(ITEMS), (ITEMS, 1)), axis=1))
        np.save("grades.npy", random.integers(0, 3, (ITEMS, ITEMS)))
        names = [f"i{row}" for row in range(ITEMS)]
        truth = [{"bbx": [0, 0, 1, 1], "easy": [1, 2], "hard": [3], "junk": [4]}] * ITEMS
        Path("gnd.pkl").write_bytes(pickle.dumps({"imlist": names, "qimlist": names, "gnd": truth}, protocol=2))
        leaves = pd.read_csv("l.csv").assign(item=names)
        ht.LabelTree.from_csv("l.csv", levels=["kind", "name"], repeats="merge")
        leaves.to_csv("leaves.csv", index=False)
        leaves[["item", "kind", "name"]].to_csv("items.csv", index=False)
        tree = ht.LabelTree.from_csv("leaves.csv", levels=["kind", "name", "item"])
        tree.to_json("tree.json")
        nx.write_graphml(nx.DiGraph([("r", name) for name in names]), "tree.graphml")
        Path("edges.txt").write_text("".join(f"{a} {b}\n" for a, b in leaves[["name", "item"]].to_numpy()))
        with Path("edges.txt").open("a") as file:
            file.writelines(f"r n{trial}\n" for trial in range(4))
        scores = [(q, i, round(float(random.normal()), 6)) for q in names[:4] for i in names if i != q]
        lines = [f"{q} Q0 {i} 1 {score} mine\n" for q, i, score in scores]
        qrels_lines = [f"{q} 0 {i} {trial % 3}\n" for trial, (q, i, _) in enumerate(scores)]
        for name, text in (("run.txt", "".join(lines)), ("qrels.txt", "".join(qrels_lines))):
            Path(name).write_text(text)
            Path(f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        frame = pd.DataFrame(scores, columns=["query", "item", "score"])
        frame.to_csv("run.csv", index=False), frame.to_parquet("run.parquet")
        Path("run.json").write_text(
            json.dumps({q: dict(rows[["item", "score"]].to_numpy()) for q, rows in frame.groupby("query")})
        )
        owners = np.repeat(np.arange(1, 10), 2).astype(str)
        np.savez("vectors.npz", embeddings=random.normal(size=(18, 4)), landmark_ids=owners)
        with Store("store.sqlite"):
            pass
        labels = sorted({label for text in pd.read_csv("cleaned/labels.csv").label for label in text.split()})
        rows = pd.DataFrame({"label": labels, "vector": list(random.normal(size=(len(labels), 8)))})
        rows.to_parquet("words.parquet")
        proposal = initial_state(read_proposal("clustered")).digest
        for name, annotator in (("log.jsonl", "anna"), ("other-log.jsonl", "ben")):
            header = Header(proposal=proposal, annotator=annotator, time="2025-01-31T09:00:00+00:00")
            Path(name).write_text(f"{header.model_dump_json()}\n")
        yield folder


def declared():
    """The inputs of all commands."""
    inputs = set()
    for name in names_of(commands):
        for param in command_of(name.split())[0].params:
            if isinstance(param.type, DeclaredPath) and param.type.role == "input":
                inputs.add(f"{name} {param.opts[-1] if isinstance(param, click.Option) else param.name}")
    return inputs


def test_every_input_of_a_command_is_damaged_or_like_another():
    inputs_read = set()
    for typed in READ:
        subcommand, arguments = command_of(typed.split())
        inputs_read |= {f"{' '.join(arguments)} {argument}" for argument in typed.split() if argument.startswith("--")}
        inputs_read |= {
            f"{' '.join(arguments)} {param.name}" for param in subcommand.params if isinstance(param, click.Argument)
        }
    missing = {name for name in declared() - inputs_read - OTHERS.keys() if not name.endswith(SAME_FORMAT)}
    assert missing == set()
    assert OTHERS.keys() <= declared()


@pytest.mark.nightly
@pytest.mark.parametrize(("typed", "file"), [(typed, file) for typed, files in READ.items() for file in files])
def test_a_damaged_file_is_named_in_one_line_or_does_no_harm(typed, file, world, tmp_path):
    target, out = world / file, tmp_path / "out"
    undamaged, wrong = target.read_bytes(), []
    arguments = typed.split()
    out.mkdir()
    right = call([argument.replace("OUT", str(out)) for argument in arguments])
    assert right[0] == 0, right[2]
    is_list = file.startswith("data/")  # whose images may be missing as well
    names, allowed = (target.name, *(["images/", "data"] if is_list else [])), (0, 1) if is_list else (0,)
    try:
        for trial, (damage, damaged) in enumerate(flips(undamaged, NUMBER)):
            target.write_bytes(damaged)
            (out / str(trial)).mkdir()
            status, printed, errors = call([argument.replace("OUT", str(out / str(trial))) for argument in arguments])
            messages = [line for line in errors.splitlines() if line.startswith("error:")]
            is_named = (
                status == 2
                and len(messages) == 1
                and len(messages[0]) <= 1000
                and any(name in messages[0] for name in names)
            )
            harmless = status in allowed and (printed == right[1] or not file.endswith(CHECKED))
            if "Traceback" in errors or not (is_named or harmless):
                wrong.append((damage, status, errors[-300:]))
    finally:
        target.write_bytes(undamaged)
    assert wrong == []
