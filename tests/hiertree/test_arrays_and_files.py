"""Array checks name what is wrong; files appear whole or not at all; importing stays light."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import hiertree
from hiertree.arrays import as_embeddings, as_paths, to_numpy
from hiertree.errors import EmbeddingError, HiertreeError, PathError, ShapeError, UnknownLeafError
from hiertree.io.files import replacing, replacing_folder, write_json, write_text
from hiertree.io.progress import progress, track
from hiertree.io.provenance import manifest, sha256


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, 2], [float("nan"), 1]], r"queries holds NaN or infinite values \(1 rows: 1\)"),
        ([[1, 2], [float("inf"), 1]], "1 rows: 1"),
        ([[0, 0], [1, 1]], r"zero norm \(1 rows: 0\)"),
        ([["a", "b"]], "real numbers"),
    ],
)
def test_embeddings_that_cannot_be_compared_are_refused_by_row(values, message):
    with pytest.raises(EmbeddingError, match=message):
        as_embeddings(values, name="queries")


@pytest.mark.parametrize("shape", [(3,), (2, 0), (1, 2, 3)])
def test_embeddings_must_be_a_matrix(shape):
    with pytest.raises(ShapeError, match="expected shape"):
        as_embeddings(np.ones(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_becomes_float32(dtype):
    array = as_embeddings(torch.ones((2, 3), dtype=dtype, requires_grad=True))
    assert array.dtype == np.float32


def test_float64_stays_and_strided_arrays_become_contiguous():
    array = as_embeddings(np.ones((4, 6))[::2, ::2])
    assert array.dtype == np.float64
    assert array.flags.c_contiguous


@pytest.mark.parametrize(
    ("values", "error"),
    [([[0.5, 1.0]], PathError), ([[0, -1]], PathError), (np.zeros((2, 256), int), ShapeError), ([[[1]]], ShapeError)],
)
def test_paths_that_are_none_are_refused(values, error):
    with pytest.raises(error):
        as_paths(values)


def test_paths_must_match_their_items():
    with pytest.raises(ShapeError, match="expected 3 rows"):
        as_paths([1, 2], num_items=3)


def test_bfloat16_scores_become_numpy():
    assert to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32


def test_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "new" / "a.txt"
    write_text(target, "first")
    with pytest.raises(ZeroDivisionError), replacing(target) as temporary:
        temporary.write_text(str(1 / 0))
    assert target.read_text() == "first"
    assert [entry.name for entry in target.parent.iterdir()] == ["a.txt"]
    assert target.stat().st_mode & 0o444 == 0o444 & ~_umask()


def test_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    with replacing_folder(target) as temporary:
        (temporary / "a").write_text("1")
    with pytest.raises(ZeroDivisionError), replacing_folder(target) as temporary:
        (temporary / "b").write_text(str((temporary / "c").write_text("2") // 0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert [entry.name for entry in target.iterdir()] == ["a"]


def test_json_with_nan_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_manifest_records_inputs_by_hash(tmp_path):
    (tmp_path / "in.csv").write_text("a")
    content = manifest(command="x", parameters={}, inputs=[tmp_path / "in.csv"], seed=3)
    assert content["inputs"] == [{"name": "in.csv", "bytes": 1, "sha256": sha256(tmp_path / "in.csv")}]
    assert content["packages"]["numpy"] == np.__version__
    json.dumps(content)


def test_progress_prints_plain_lines_off_a_terminal(monkeypatch):
    monkeypatch.delenv("HIERTREE_PROGRESS")
    stream, now = io.StringIO(), iter([0.0, 1.0, 12.0, 13.0])
    with progress(description="pages", total=3, stream=stream, clock=lambda: next(now)) as advance:
        for _ in range(3):
            advance(1, "ok")
    assert stream.getvalue().splitlines() == ["pages: 2/3 ok", "pages: 3/3 ok"]


def test_progress_off_a_terminal_says_how_long_it_will_take(monkeypatch):
    monkeypatch.delenv("HIERTREE_PROGRESS")
    stream, now = io.StringIO(), iter([0.0, 20.0, 40.0, 50.0])
    with progress(description="queries", total=40, stream=stream, clock=lambda: next(now)) as advance:
        for steps in (4, 26, 10):
            advance(steps)
    assert stream.getvalue().splitlines() == ["queries: 4/40 3 min left", "queries: 30/40 13 s left", "queries: 40/40"]


def test_track_yields_every_item(capsys):
    assert list(track(range(3), description="items")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_errors_read_as_sentences_and_cross_processes():
    error = UnknownLeafError("leaf 3", expected="a leaf", remedy="look again")
    assert str(pickle.loads(pickle.dumps(error))) == "leaf 3: expected a leaf; look again"
    assert isinstance(error, HiertreeError)


def test_importing_the_package_loads_no_heavy_library():
    heavy = "('torch', 'open_clip', 'pandas', 'networkx', 'numba')"
    code = f"import sys, hiertree; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_every_public_name_exists():
    for name in hiertree.__all__:
        assert getattr(hiertree, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = hiertree.nonsense
    assert set(hiertree.__all__) <= set(dir(hiertree))


@pytest.mark.parametrize("package", ["metrics", "losses", "pipelines"])
def test_source_folders_refuse_to_be_imported_by_their_bare_name(package, request):
    code = f"import sys; sys.path.insert(0, {str(request.config.rootpath)!r}); import {package}"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert f"hiertree.{package}" in answer.stderr


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
