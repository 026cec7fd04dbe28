"""Several processes share every batch: they learn what one learns, end together, and one of them speaks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
import yaml
from forked_processes import run_together
from lightning_fabric.plugins.environments.lightning import find_free_network_port
from near_ties import ROUNDING
from safetensors.torch import load_file
from sharing_processes import NUM, take_part

import hiertree
from hiertree.datasets import load_synthetic
from hiertree.errors import DeviceError
from hiertree.metrics import evaluate_scores
from hiertree.pipelines.training.distributed.group import detect_launch
from hiertree.pipelines.training.distributed.processes import Processes, randomness_by_rank
from hiertree.pipelines.training.recipe.settings import Recipe
from hiertree.pipelines.training.run.checkpoints import list_checkpoints
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import read_history

FROZEN = "model.freeze_batch_norm=true"
ALIKE = {
    "happier": (FROZEN, "evaluation.every=1", "evaluation.batch_size=7", "images.workers=1"),
    "memory": (FROZEN, "loss={name: CrossBatchMemory, size: 24, loss: {name: SupHAP}}", "training.ema_decay=0.9"),
    "two-pass": (FROZEN, "training.accumulate=two_pass", "training.chunk_size=3", "optimizer.clip_norm=0.1"),
    "validated": (FROZEN, "data.instances=4", "training.epochs=4", "validation={classes: 0.5, patience: 1}"),
    "frozen-backbone": (FROZEN, "model.freeze_backbone_epochs=1", "loss={name: CSL}", "optimizer.name=sgd"),
}
"""What must be learned alike by one process and by two; the others are ended by one of them."""
ENDED = {
    "stopped": ALIKE["happier"],
    "nan": (FROZEN, "loss={name: CSL}"),
    "skipped": ("training.on_nan=skip",),
    "sync": ("model.sync_batch_norm=true",),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A data section: image files, of which one does not decode."""
    folder = tmp_path_factory.mktemp("photos")
    rows = []
    for split in ("train", "test"):
        images = load_synthetic(split, families=2, kinds=2, instances=2, images=4, image_size=16)
        for row, path in enumerate(images.paths):
            name = f"{split}-{row}.png"
            images.images[row].save(folder / name)
            rows.append({"file": name, "family": path[0], "leaf": f"{split}-{path[-1]}", "split": split})
    (folder / "train-3.png").write_bytes(b"no image")
    pd.DataFrame(rows).to_csv(folder / "images.csv", index=False)
    section = {"name": "table", "path": str(folder / "images.csv"), "root": str(folder), "image": "file"}
    return f"data={json.dumps({**section, 'levels': ['family', 'leaf'], 'split': 'split'})}"


@pytest.fixture(scope="module")
def runs_folder(tiny_recipe, photos, tmp_path_factory):
    """The runs of two processes, and how each process saw them end."""
    folder = tmp_path_factory.mktemp("shared")
    runs = {name: tiny_recipe(*overrides) for name, overrides in {**ALIKE, **ENDED}.items()}
    runs["image"] = from_files(tiny_recipe, photos)
    recipes = {name: recipe.as_dict() for name, recipe in runs.items()}
    run_together(take_part, find_free_network_port(), str(folder), recipes, count=NUM)
    return folder


def from_files(tiny_recipe, photos):
    """A run that meets the bad image when one of its processes decodes it."""
    values = yaml.safe_load(photos.removeprefix("data="))
    recipe = tiny_recipe("images.cache=false", "images.augmentation={name: photo}")
    return Recipe.model_validate({**recipe.as_dict(), "data": values})


def ends(folder, name):
    return [(folder / f"{name}-{rank}.txt").read_text() for rank in range(NUM)]


def newest(run):
    """Every tensor of the newest checkpoint: network, loss, memory and optimizer."""
    *_, path = list_checkpoints(run / "checkpoints").values()
    return load_file(path / "tensors.safetensors")


def assert_alike(run, reference):
    first, second = newest(run), newest(reference)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        expected = tensor.double()
        assert (expected - second[name].double()).norm() <= 1e-4 * expected.norm() + 1e-7, name
    for row, reference_row in zip(
        read_history(run / "history.jsonl"), read_history(reference / "history.jsonl"), strict=True
    ):
        assert row["loss"] == pytest.approx(reference_row["loss"], rel=1e-5)
        for section in ("metrics", "validation"):
            assert row.get(section, {}).keys() == reference_row.get(section, {}).keys()
    assert (run / "best").is_dir() == (reference / "best").is_dir()
    for folder in ("", "best") if (run / "best").is_dir() else ("",):
        assert_alike_metrics(run / folder, reference / folder)


def assert_alike_metrics(shared_run, reference):
    """Embeddings to a bound, and metrics within what scores that far apart allow: near-equal ones may swap ranks."""
    scores, paths = scores_of(shared_run)
    error = np.abs(scores - scores_of(reference)[0]).max() + ROUNDING
    assert error < 1e-3
    levels, mask = hiertree.levels(paths, paths), ~np.eye(len(paths), dtype=bool)
    shifts = 2.0 * error * levels  # see near_ties.metric_bounds
    low, high = (
        evaluate_scores(shifted, levels, valid=mask, num_levels=paths.shape[1]).summary()
        for shifted in (scores - shifts, scores + shifts)
    )
    for run in (shared_run, reference):
        metrics = json.loads((run / "metrics.json").read_text())["metrics"]
        assert metrics.keys() == set(low.index)
        for name, value in metrics.items():
            assert low[name] - 1e-6 <= value <= high[name] + 1e-6, (run, name)


def scores_of(run):
    """Cosines of a run's embeddings, and the paths of their images."""
    with np.load(run / "embeddings.npz") as archive:
        vectors, paths = archive["embeddings"].astype(np.float64), archive["paths"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T, paths


@pytest.mark.parametrize("name", ALIKE)
def test_two_processes_learn_what_one_learns(name, runs_folder, tiny_recipe, tmp_path):
    train(tiny_recipe(*ALIKE[name]), tmp_path)
    first, second = ends(runs_folder, name)
    assert first == second
    assert first.startswith("done")
    assert_alike(tmp_path, runs_folder / name)
    assert json.loads((runs_folder / name / "metrics.json").read_text())["processes"] == NUM


def test_sigterm_to_one_stops_all_at_one_step_and_another_number_of_processes_goes_on(runs_folder, tiny_recipe):
    assert ends(runs_folder, "stopped") == ["status 143"] * NUM
    assert list(list_checkpoints(runs_folder / "stopped" / "checkpoints")) == [2, 3]
    train(tiny_recipe(*ALIKE["happier"]), runs_folder / "stopped")
    assert_alike(runs_folder / "happier", runs_folder / "stopped")


def test_loss_of_one_that_is_no_number_ends_all_with_one_message(runs_folder):
    first, second = ends(runs_folder, "nan")
    assert first.startswith("TrainingError: step 3: ")
    assert second == "status 0"
    with np.load(runs_folder / "nan" / "failed_batch.npz") as file:
        assert file["images"].shape == (8, 3, 16, 16)  # of both


def test_batch_that_one_cannot_learn_from_is_skipped_by_all(runs_folder):
    assert all(end.startswith("done") for end in ends(runs_folder, "skipped"))
    assert [row.get("skipped") for row in read_history(runs_folder / "skipped" / "history.jsonl")] == [None, 1, None]


def test_image_that_one_cannot_decode_ends_all_with_one_message(runs_folder):
    first, second = ends(runs_folder, "image")
    assert first.startswith("ImageError: ")
    assert "train-3.png" in first
    assert second == "status 0"


def test_synchronized_statistics_need_gpus(runs_folder):
    first, second = ends(runs_folder, "sync")
    assert first.startswith("DeviceError: model.sync_batch_norm=true on a CPU")
    assert second == "status 0"


def command(out, recipe, *command_line):
    out.parent.mkdir(exist_ok=True)
    file = out.parent / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe.as_dict()))
    return [*command_line, "train", str(file), "--out", str(out)]


def until_next_checkpoint(process, out):
    """Wait for a step more than there was; returns the processes that share the batches."""
    step = max(list_checkpoints(out / "checkpoints"), default=0)
    deadline = time.monotonic() + 300
    while max(list_checkpoints(out / "checkpoints"), default=0) == step:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    children = psutil.Process(process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.nightly
def test_command_starts_its_processes_and_obeys_sigterm(tiny_recipe, tmp_path):
    recipe, out = tiny_recipe(FROZEN, "training.epochs=4000", "training.devices=2"), tmp_path / "run"
    script = command(out, recipe, str(Path(sys.executable).with_name("hiertree")))
    with subprocess.Popen(script, stderr=subprocess.PIPE, text=True) as process:
        step = until_next_checkpoint(process, out)
        assert len(step) == NUM
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=120)
    assert process.returncode == 143, output
    assert output.count("by SIGTERM") == 1
    assert "Traceback" not in output
    assert not any(child.is_running() for child in step)
    assert not (out / "metrics.json").exists()


def test_torchrun_shares_the_batches_and_speaks_once(tiny_recipe, runs_folder, tmp_path):
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(NUM), "--standalone")
    command_line = command(tmp_path / "run", tiny_recipe(*ALIKE["happier"]), *launcher, "-m", "hiertree")
    done = subprocess.run(command_line, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.count("H-AP") == 1
    assert_alike(tmp_path / "run", runs_folder / "happier")


def test_each_process_draws_its_own_and_then_all_draw_alike():
    device, draws, next_draw = torch.device("cpu"), [], []
    for rank in (0, 1, 1):
        processes = Processes()
        processes.rank, processes.size = rank, NUM
        torch.manual_seed(5)
        with randomness_by_rank(processes, device, 7, 3):
            draws.append(float(torch.rand(())))
        next_draw.append(float(torch.rand(())))
    torch.manual_seed(5)
    assert draws[0] != draws[1] == draws[2]
    assert next_draw == [float(torch.rand(()))] * 3


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "4"}, None),  # in a job script, before srun
        ({"SLURM_STEP_ID": "0", "SLURM_NTASKS": "1"}, None),
        ({"SLURM_STEP_ID": "0", "SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "4", "SLURM_NNODES": "2"}, (4, 2)),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "12"}, (4, 3)),
    ],
)
def test_processes_that_a_launcher_started_are_found(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    launch = detect_launch()
    assert (None if launch is None else (launch.devices, launch.nodes)) == expected


def test_slurm_tasks_without_a_number_for_each_machine_are_refused(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    with pytest.raises(DeviceError, match="--ntasks-per-node"):
        detect_launch()
