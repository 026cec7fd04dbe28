"""Commands on files whose names are not UTF-8, and in a folder that was deleted."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from hiertree.pipelines.cli.application import main
from hiertree.pipelines.stored_embeddings.shards import Shards, shard_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
CAFE = os.fsdecode(b"caf\xe9")  # in Latin-1
TYPES = {1: "lake", 2: "lake", 3: "church building", 4: "church building", 5: "castle"}


def hiertree(folder, *arguments):
    command = [sys.executable, "-m", "hiertree", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="surrogateescape", check=False)


def save_embeddings(path):
    np.savez(path, embeddings=np.eye(9)[:, :4] + 1, paths=np.arange(9)[:, None] // 3)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_values_by_query_are_written_beside_a_manifest_that_names_the_file(tmp_path, suffix):
    save_embeddings(tmp_path / f"{CAFE}.npz")
    table = tmp_path / f"{CAFE}{suffix}"
    answer = hiertree(tmp_path, "evaluate", f"{CAFE}.npz", "--metrics", "R@1", "--per-query", table.name)
    assert answer.returncode == 0, answer.stderr
    table_bytes = io.BytesIO(table.read_bytes())
    assert len(pd.read_csv(table_bytes) if suffix == ".csv" else pd.read_parquet(table_bytes)) == 9
    manifest = json.loads((tmp_path / f"{table.name}.manifest.json").read_text(encoding="utf-8"))
    assert [entry["name"] for entry in manifest["inputs"]] == [f"{CAFE}.npz"]


def test_name_that_no_table_can_hold_is_one_line(tmp_path, capsys):
    save_embeddings(tmp_path / f"{CAFE}.npz")
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / f"{CAFE}.npz"), "--out", str(tmp_path / "out")])
    message = capsys.readouterr().err
    assert (ended.value.code, message.count("\n")) == (2, 1)
    assert "caf\\udce9.npz': expected UTF-8; rename it, as convmv does" in message


def test_shards_of_parquet_are_read_from_a_folder(tmp_path):
    (tmp_path / CAFE).mkdir()
    frame = pd.DataFrame({"embedding": list(np.eye(9)[:, :4] + 1), "kind": np.arange(9) // 3})
    frame.to_parquet(tmp_path / "part.parquet")
    for run in range(2):
        shutil.copy(tmp_path / "part.parquet", tmp_path / CAFE / f"part-0000{run}-of-00002.parquet")
    shards = Shards(shard_files(tmp_path / CAFE))
    assert (shards[:] == np.tile(np.eye(9)[:, :4] + 1, (2, 1))).all()


def test_labels_are_built_from_a_table_into_a_folder(tmp_path):
    with (tmp_path / f"{CAFE}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("landmark_id", "category", "instance_of"), *((n, n, t) for n, t in TYPES.items())])
    answer = hiertree(tmp_path, "labels", "build", f"{CAFE}.csv", "--out", f"{CAFE}-labels", "--clusters", "2")
    assert answer.returncode == 0, answer.stderr
    exported = tmp_path / f"{CAFE}-labels" / "exported" / "hierarchical.csv"
    assert len(exported.read_text(encoding="utf-8").splitlines()) == 6


def test_a_report_shows_a_sign_for_each_byte_that_is_not_utf8(tmp_path):
    save_embeddings(tmp_path / f"{CAFE}.npz")
    answer = hiertree(tmp_path, "report", f"{CAFE}.npz", "--title", CAFE, "--out", "report.html")
    assert answer.returncode == 0, answer.stderr
    assert "caf\ufffd" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_deleted_working_folder_is_named(tmp_path):
    start = "import os, sys; os.rmdir(os.getcwd()); from hiertree.pipelines.cli import main; main(sys.argv[1:])"
    (tmp_path / "gone").mkdir()
    command = [sys.executable, "-c", start, "tree", "edges.txt", "--out", "tree.json"]
    answer = subprocess.run(command, cwd=tmp_path / "gone", capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
