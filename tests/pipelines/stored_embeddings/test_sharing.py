"""Several processes embed one data set: the same Parquet files as one, also after any of them was killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from benchmark_files import FEW_STEPS, write_benchmark
from PIL import Image
from printed_commands import status_of
from project import ROOT

from hiertree.datasets import load_synthetic
from hiertree.errors import HiertreeError, ImageError
from hiertree.pipelines.inference import load_model
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.experiment import train

PHOTOS, BAD = 90, "17.png"
OPTIONS = {"labeled": False, "shard_size": 4, "overrides": ("evaluation.batch_size=3",)}


@pytest.fixture(scope="module")
def run(tiny_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(tiny_recipe("training.epochs=1"), folder)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, numbers = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(PHOTOS):
        Image.fromarray(numbers.integers(0, 255, (20, 20, 3), dtype=np.uint8)).save(folder / f"{number:02d}.png")
    (folder / BAD).write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def one_process(run, photos, tmp_path_factory):
    """What one process writes."""
    out = tmp_path_factory.mktemp("alone") / "out"
    embed(run, photos, out, skip_bad=True, **OPTIONS)
    return out


def parts(folder):
    return {path.name: path.read_bytes() for path in folder.glob("part-*.parquet")}


def assert_same(out, expected):
    assert parts(out) == parts(expected)
    assert (out / "skipped.csv").read_text() == (expected / "skipped.csv").read_text()
    manifest, expected_manifest = (json.loads((folder / "manifest.json").read_text()) for folder in (out, expected))
    for key in ("model", "rows", "dimensions", "dtype", "parts"):
        assert manifest[key] == expected_manifest[key]
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in expected.iterdir())


def command(run, photos, out, *more):
    fixed = ["--no-labels", "--shard-size=4", "--set=evaluation.batch_size=3", "--skip-bad", *more]
    return ["-m", "hiertree", "embed", str(run), str(photos), "--out", str(out), *fixed]


def killed_once_it_has(num_parts, arguments, out, *, victim, number):
    """Kill one of the processes of a call once all have started and some parts stand; returns what the call said."""
    call = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True)
    children_started = []
    deadline = time.monotonic() + 240
    while (len(children_started) < number or len(list(out.glob("part-*"))) < num_parts) and call.poll() is None:
        assert time.monotonic() < deadline
        with suppress(psutil.NoSuchProcess):  # ended by now
            children = psutil.Process(call.pid).children()
            children_started = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        time.sleep(0.005)
    if len(children_started) == number:
        with suppress(psutil.NoSuchProcess):
            sorted(children_started, key=lambda child: child.pid)[victim].kill()
    stderr = call.communicate(timeout=60)[1]
    assert call.returncode == 2 or (out / "manifest.json").is_file(), stderr
    return stderr


def test_parts_hold_what_the_trained_model_embeds(run, photos, one_process, tmp_path):
    with pytest.raises(ImageError, match=BAD):
        embed(run, photos, tmp_path / "failed", **OPTIONS)
    good = tmp_path / "good"
    shutil.copytree(photos, good)
    (good / BAD).unlink()
    expected = load_model(run, device="cpu").embed(sorted(good.iterdir()), progress=False)
    table = pq.read_table(sorted(one_process.glob("part-*")))
    assert str(table.schema.field("embedding").type) == "fixed_size_list<element: float>[8]"
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy()), expected, atol=1e-6)
    assert table["image"].to_pylist() == [path.name for path in sorted(good.iterdir())]
    assert (one_process / "skipped.csv").read_text().startswith(f"image,reason\n{BAD},")
    half = embed(run, good, tmp_path / "half", dtype="float16", **OPTIONS)
    assert half.images == PHOTOS - 1
    assert str(pq.read_schema(next((tmp_path / "half").glob("part-*"))).field(0).type).startswith("fixed_size_list<el")


def test_queries_and_gallery_are_rows_with_labels_in_parts_of_their_own(tmp_path):
    write_benchmark("dyml-vehicle", tmp_path / "data")
    recipe = load_recipe("dyml-vehicle-happier", [*FEW_STEPS, f"data.root={tmp_path / 'data'}"])
    train(recipe, tmp_path / "run")
    embedded = embed(tmp_path / "run", tmp_path / "data", tmp_path / "out", split="test_middle", shard_size=2)
    dataset = load_split(recipe, "test").beside[0]
    table = pq.read_table(sorted(embedded.folder.glob("part-*"))).to_pandas()
    rows = {"query": dataset.queries, "gallery": dataset.gallery}
    assert table["split"].tolist() == [split for split, split_rows in rows.items() for _ in split_rows]
    for split, split_rows in rows.items():
        part = table[table["split"] == split]
        assert part["image"].tolist() == [str(dataset.ids[row]) for row in split_rows]
        expected = [list(map(str, dataset.tree.labels_of(path))) for path in dataset.paths[split_rows].tolist()]
        assert part[list(dataset.tree.level_names)].to_numpy().tolist() == expected
    manifest = json.loads((embedded.folder / "manifest.json").read_text())
    assert sum(part["rows"] for part in manifest["parts"]) == manifest["rows"] == embedded.images == len(table)
    stored_arrays = read_embeddings(embedded.folder)
    assert [len(side.paths) for side in stored_arrays.image_sets] == [len(dataset.queries), len(dataset.gallery)]
    assert np.array_equal(stored_arrays.queries.embeddings, np.stack(table["embedding"])[: len(dataset.queries)])
    assert np.array_equal(stored_arrays.items.embeddings, np.stack(table["embedding"])[len(dataset.queries) :])


@pytest.mark.nightly
def test_killed_process_ends_the_call_and_one_process_goes_on(run, photos, one_process, tmp_path):
    out = tmp_path / "out"
    stderr = killed_once_it_has(2, command(run, photos, out, "--devices=2"), out, victim=1, number=2)
    assert "run the same command to go on" in stderr
    standing = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    embed(run, photos, out, skip_bad=True, **OPTIONS)
    assert {path: path.stat().st_mtime_ns for path in standing} == standing
    assert_same(out, one_process)


def test_launcher_ends_the_others_when_a_process_is_killed(run, photos, tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=3"]
    out, words = tmp_path / "out", command(run, photos, tmp_path / "out", "--shard-size=1")
    with subprocess.Popen([*launcher, *words], stderr=subprocess.PIPE, text=True) as call:
        while not list(out.glob("part-*")):
            assert call.poll() is None
            time.sleep(0.005)
        next(child for child in psutil.Process(call.pid).children() if child.environ()["RANK"] == "2").kill()
        _, stderr = call.communicate(timeout=300)
    assert "Signal 9 (SIGKILL)" in stderr
    assert call.returncode != 0


def test_error_of_one_of_two_processes_is_raised_and_another_number_goes_on(run, photos, one_process, tmp_path):
    begun = time.monotonic()
    with pytest.raises(ImageError, match=BAD):
        embed(run, photos, tmp_path / "failed", devices=2, **OPTIONS)
    assert time.monotonic() - begun < 120
    assert not (tmp_path / "failed" / "manifest.json").exists()
    assert 0 < len(parts(tmp_path / "failed")) < len(parts(one_process))


def test_parts_of_other_work_and_damaged_ones_are_refused(run, photos, one_process, tmp_path, capsys):
    out, images = tmp_path / "out", shutil.copytree(photos, tmp_path / "images")
    with pytest.raises(ImageError):
        embed(run, images, out, **OPTIONS)  # the fifth shard has the damaged image
    first = min(out.glob("part-*"))
    assert len(parts(out)) == 4
    first.write_bytes(first.read_bytes()[:-1] + b"0")
    assert "has changed since it was written" in refused(command(run, images, out), capsys)
    first.unlink()
    assert "other settings" in refused(command(run, images, out, "--dtype=float16"), capsys)
    (out / "shards" / f"{first.stem}.json").unlink()
    Image.new("RGB", (20, 20)).save(images / "05.png")  # of the second shard
    assert "part-00001-of-00023.parquet was computed from other images" in refused(command(run, images, out), capsys)
    for number in range(4):
        Image.new("RGB", (20, 20)).save(images / f"more{number}.png")
    assert "is not of these 24 parts" in refused(command(run, images, out), capsys)


def test_a_bit_that_flips_in_a_finished_part_is_noticed_by_whatever_reads_it(one_process, tmp_path):
    out = shutil.copytree(one_process, tmp_path / "out")
    names = read_embeddings(out, needs_labels=False).items.image_names
    first, draw = min(out.glob("part-*")), np.random.default_rng(0)
    content = first.read_bytes()
    for position in draw.integers(0, len(content), 40).tolist():
        first.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(HiertreeError):
            assert read_embeddings(out, needs_labels=False).items.image_names == names


def refused(words, capsys):
    """The line that a command says which is refused."""
    assert status_of(*words[2:]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("error: ") == 1
    return stderr


def test_the_script_for_slurm_embeds_and_evaluates_with_all_tasks(run, tmp_path):
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    scripts = re.findall(r"^```sh\n(#!/bin/bash\n.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    (script,) = (text for text in scripts if "hiertree embed" in text)
    (tmp_path / "runs").mkdir()
    shutil.copytree(run, tmp_path / "runs" / "sop")
    dataset = load_synthetic("test", families=3, kinds=3, instances=4, images=4, image_size=16)
    for row, path in enumerate(dataset.paths):
        file = tmp_path.joinpath("images", *map(str, path), f"{row}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        dataset.images[row].save(file)
    srun = tmp_path / "srun"
    srun.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -m torch.distributed.run --nproc-per-node=2 -m "$@"\n')
    srun.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=variables, check=True, timeout=500)
    assert pq.read_metadata(tmp_path / "values.parquet").num_rows == len(dataset.paths)
    assert list((tmp_path / "embedded").glob("part-*"))


@pytest.mark.nightly
@pytest.mark.parametrize("number", [2, 3, 4])
def test_any_number_of_processes_writes_the_same_bytes(run, photos, one_process, tmp_path, number):
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={number}"]
    subprocess.run([sys.executable, *launcher, *command(run, photos, tmp_path / "torchrun")], check=True)
    assert_same(tmp_path / "torchrun", one_process)
    embed(run, photos, tmp_path / "devices", devices=number, skip_bad=True, **OPTIONS)
    assert_same(tmp_path / "devices", one_process)
