"""Embeddings in several files, and what launched processes make of them."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from hiertree.pipelines.cli.application import main
from hiertree.pipelines.report.sources import read_sources
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file

ROWS, WIDTH, CUTS, PROCESSES = 90, 8, (0, 40, 40, 90), 3


@pytest.fixture
def retrieval():
    random = np.random.default_rng(0)
    return random.standard_normal((ROWS, WIDTH)).astype(np.float32), random.integers(0, 12, ROWS)


def shard(embeddings, leaf, rows, **more):
    column = pa.FixedSizeListArray.from_arrays(pa.array(embeddings[rows].ravel()), embeddings.shape[1])
    images, kinds = [f"{row}.jpg" for row in rows], [f"kind {label // 4}" for label in leaf[rows]]
    table = {"embedding": column, "image": images, "kind": kinds, "name": [str(label) for label in leaf[rows]]}
    return pa.table({**table, **more})


def write(folder, embeddings, leaf):
    folder.mkdir()
    parts = []
    for index, (start, stop) in enumerate(pairwise(CUTS)):
        table = shard(embeddings, leaf, np.arange(start, stop)).replace_schema_metadata({"hiertree.model": "aa"})
        parts.append({"name": f"part-{index:05d}-of-{len(CUTS) - 1:05d}.parquet", "rows": stop - start})
        pq.write_table(table, folder / parts[-1]["name"], row_group_size=7)
    manifest = {"rows": ROWS, "dimensions": WIDTH, "parts": parts, "model": "aa"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_shards_of_all_kinds_give_the_numbers_of_one_file(retrieval, tmp_path):
    embeddings, leaf = retrieval
    rows_table = shard(embeddings, leaf, np.arange(ROWS))
    pq.write_table(rows_table, tmp_path / "whole.parquet")
    rows_table.drop_columns("embedding").to_pandas().to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "arrays").mkdir()
    for index, rows in enumerate(np.split(embeddings, [11, 60])):
        np.save(tmp_path / "arrays" / f"{index}.npy", rows)
        save_file({"embeddings": rows}, tmp_path / f"{index}.safetensors")
    expected = evaluate_file(tmp_path / "whole.parquet").values
    parquet = write(tmp_path / "parquet", embeddings, leaf)
    table = {"labels": tmp_path / "labels.csv"}
    for source, options in (
        (parquet, {}),
        (tmp_path / "parquet" / "part-*.parquet", table),
        (tmp_path / "arrays", table),
        (tmp_path / "*.safetensors", table),
    ):
        np.testing.assert_array_equal(evaluate_file(source, **options).values, expected)
    rows = np.array([70, 3, 39, 40, 3, 89])
    shards = read_embeddings(parquet, in_parts=True)
    np.testing.assert_array_equal(shards.queries.embeddings[rows], embeddings[rows])
    assert "parquet" in read_sources([parquet])[0]
    pq.write_table(rows_table.append_column("split", [["gallery", "query", "gallery"] * 30]), tmp_path / "both.parquet")
    for in_parts in (True, False):
        sides = read_embeddings(tmp_path / "both.parquet", in_parts=in_parts)
        np.testing.assert_array_equal(sides.queries.embeddings[:], embeddings[1::3])
        np.testing.assert_array_equal(sides.items.embeddings[5:], np.delete(embeddings, np.s_[1::3], 0)[5:])
        assert list(sides.queries.ids[:2]) == ["1.jpg", "4.jpg"]
    assert not read_embeddings(tmp_path / "both.parquet", levels=["split"]).separate


FIRST, LAST, NEXT = (f"part-0000{index}-of-00003.parquet" for index in (0, 2, 3))
REST = np.arange(40, 90)  # rows of the last part


def rewrite(folder, **changes):
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **changes}))


def replace_last(folder, embeddings, leaf, rows=REST, model="aa", dropped_columns=()):
    table = shard(embeddings, leaf, rows).drop_columns(list(dropped_columns))
    pq.write_table(table.replace_schema_metadata({"hiertree.model": model}), folder / LAST)


DAMAGE = {
    "expected a Parquet file": lambda folder, *_: (folder / LAST).write_bytes((folder / LAST).read_bytes()[:-100]),
    "width 7": lambda folder, own, leaf: replace_last(folder, own[:, 1:], leaf),
    "model bb": lambda folder, own, leaf: replace_last(folder, own, leaf, model="bb"),
    "dtype float64": lambda folder, own, leaf: replace_last(folder, own.astype(float), leaf),
    "columns ['image']": lambda folder, own, leaf: replace_last(folder, own, leaf, dropped_columns=["kind", "name"]),
    "with 2 shards": lambda folder, *_: (folder / LAST).unlink(),
    "with 4 shards": lambda folder, *_: (folder / NEXT).write_bytes((folder / FIRST).read_bytes()),
    "'rows': 49": lambda folder, own, leaf: replace_last(folder, own, leaf, REST[1:]),
    "'7.jpg' again": lambda folder, own, leaf: replace_last(folder, own, leaf, np.append(REST[1:], 7)),
    "expected 91": lambda folder, *_: rewrite(folder, rows=91),
    "expected 9,": lambda folder, *_: rewrite(folder, dimensions=9),
    "of model aa": lambda folder, *_: rewrite(folder, model="bb"),
    "NaN": lambda folder, own, leaf: replace_last(folder, own * np.float32(np.nan), leaf),
    "neither a run nor": lambda folder, *_: [file.unlink() for file in folder.iterdir()],
}


@pytest.mark.parametrize("words", DAMAGE)
def test_shards_that_do_not_belong_together_are_one_error_before_any_output(words, retrieval, tmp_path, capsys):
    folder = write(tmp_path / "set", *retrieval)
    DAMAGE[words](folder, *retrieval)
    with pytest.raises(SystemExit) as ended:
        main(
            ["evaluate", str(folder), "--per-query", str(tmp_path / "values.csv"), "--out", str(tmp_path / "out.json")]
        )
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err
    assert [file.name for file in tmp_path.iterdir()] == ["set"]
    assert not printed.out


def launched(*arguments, folder):
    """The command in some processes that torchrun starts, its output in files."""
    words = ["-m", "torch.distributed.run", f"--nproc-per-node={PROCESSES}", "-m", "hiertree", "evaluate"]
    words += map(str, arguments)
    with (folder / "stdout").open("w") as stdout, (folder / "stderr").open("w") as stderr:
        return subprocess.Popen([sys.executable, *words], stdout=stdout, stderr=stderr)


def test_torchrun_shares_an_evaluation_and_writes_once(retrieval, tmp_path):
    folder = write(tmp_path / "set", *retrieval)
    evaluate_file(folder, per_query=tmp_path / "one.csv")
    process = launched(folder, "--per-query", tmp_path / "two.csv", "--json", folder=tmp_path)
    assert process.wait(timeout=300) == 0
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert json.loads((tmp_path / "stdout").read_text())["summary"]
    assert (tmp_path / "two.csv.manifest.json").is_file()


@pytest.mark.nightly
@pytest.mark.parametrize("damage", ["expected a Parquet file", "NaN", None])
def test_what_one_process_finds_wrong_is_one_error_of_all(damage, retrieval, tmp_path):
    """Without a damage: the last process sees another folder."""
    for place in ("seen", "seen otherwise"):
        (tmp_path / place).mkdir()
        write(tmp_path / place / "set", *retrieval)
    if damage is None:
        replace_last(tmp_path / "seen otherwise" / "set", retrieval[0] + np.float32(1), retrieval[1])
    else:
        DAMAGE[damage](tmp_path / "seen" / "set", *retrieval)
    enter = f'[ "$RANK" = {PROCESSES - 1} ] && cd "{"seen" if damage else "seen otherwise"}" || cd seen; exec "$@"'
    starter = ["-m", "torch.distributed.run", "--no-python", "--nproc-per-node", str(PROCESSES), "sh", "-c", enter]
    words = [*starter, "sh", sys.executable, "-m", "hiertree", "evaluate", "set", "--out", "values.json"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert done.returncode != 0
    assert done.stderr.count("error: ") == 1, done.stderr
    assert (damage or "processes with different embeddings") in done.stderr
    assert not list(tmp_path.rglob("values.json"))
