"""What goes wrong in long runs: a scheduler's SIGTERM, a full disk or GPU, a loss that is not finite, a bad image."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from multiprocessing import active_children

import numpy as np
import pytest
import torch
import yaml
from benchmark_files import write_benchmark
from interrupted_runs import assert_same_weights, before_each_step
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from hiertree.errors import CheckpointError, DeviceError, ImageError, RecipeError, TrainingError
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.distributed.group import build_fabric
from hiertree.pipelines.training.recipe.reading import check_recipe
from hiertree.pipelines.training.run.checkpoints import list_checkpoints
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import read_history
from hiertree.pipelines.training.run.learner import Learner

MEMORY = "loss={name: CrossBatchMemory, size: 24, loss: {name: SupHAP}}"


def test_sigterm_keeps_the_step_ends_with_status_143_and_costs_nothing(tiny_recipe, tmp_path):
    recipe = tiny_recipe("training.epochs=400", "images.workers=1")
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe.as_dict()))
    out = tmp_path / "run"
    command = [sys.executable, "-m", "hiertree", "train", str(file), "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 90
    while not list_checkpoints(out / "checkpoints") and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)  # as schedulers do: its data-loading workers hear it too
    _, output = process.communicate(timeout=60)
    assert process.returncode == 143, output
    step = max(list_checkpoints(out / "checkpoints"))
    assert f"stopped by SIGTERM after step {step}" in output
    assert 0 < step < 800
    assert not (out / "metrics.json").exists()


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGHUP])
def test_run_stopped_in_the_middle_of_an_epoch_ends_with_the_same_weights(
    stop_signal, tiny_recipe, tmp_path, monkeypatch, capsys
):
    train(tiny_recipe(MEMORY), tmp_path / "whole")
    previous = signal.signal(stop_signal, signal.SIG_DFL)  # nohup ignores SIGHUP
    with monkeypatch.context() as patch:
        before_each_step(patch, lambda _, step: os.kill(os.getpid(), stop_signal) if step == 2 else None)
        with pytest.raises(SystemExit) as stopped:
            train(tiny_recipe(MEMORY), tmp_path / "stopped")
    assert stopped.value.code == 143
    assert signal.signal(stop_signal, previous) is signal.SIG_DFL
    assert f"stopped by {stop_signal.name} after step 3" in capsys.readouterr().err
    *_, path = list_checkpoints(tmp_path / "stopped" / "checkpoints").values()
    assert path.name == "step-00000003"
    memory = load_file(path / "tensors.safetensors")
    assert int(memory["loss.num_enqueued"]) == 24
    assert memory["loss.embeddings"].norm(dim=1).min() > 0.9
    train(tiny_recipe(MEMORY), tmp_path / "stopped")
    assert_same_weights(tmp_path / "whole", tmp_path / "stopped")


def test_nohup_keeps_a_run_going_when_its_terminal_closes(tiny_recipe, tmp_path):
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.MonkeyPatch.context() as patch:
            before_each_step(patch, lambda _, step: os.kill(os.getpid(), signal.SIGHUP))
            assert train(tiny_recipe("training.epochs=1"), tmp_path / "run").metrics
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_workers_hear_neither_ctrl_c_nor_sigterm(tiny_recipe, tmp_path, monkeypatch):
    def signal_workers(_, step):
        for worker in active_children():
            os.kill(worker.pid or 0, signal.SIGINT if step else signal.SIGTERM)

    before_each_step(monkeypatch, signal_workers)
    train(tiny_recipe("images.workers=2", "training.epochs=1"), tmp_path / "run")
    monkeypatch.undo()
    train(tiny_recipe("training.epochs=1"), tmp_path / "alone")
    assert_same_weights(tmp_path / "run", tmp_path / "alone")


def test_worker_that_is_killed_is_one_error_that_says_what_to_do(tiny_recipe, tmp_path, monkeypatch):
    def kill_workers(_, step):
        for worker in active_children():
            worker.kill()
            worker.join()

    before_each_step(monkeypatch, kill_workers)
    recipe = tiny_recipe("images.workers=1", "training.epochs=20")
    with pytest.raises(DeviceError, match=r"decodes images has ended \(DataLoader worker.*lower images\.workers"):
        train(recipe, tmp_path / "run")


def test_full_disk_while_the_network_is_written_is_reported(tiny_recipe, tmp_path, monkeypatch):
    def fail(tensors, path):
        if "model" in path.name:
            raise SafetensorError('IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })')
        save_file(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.torch.save_file", fail)
        with pytest.raises(CheckpointError, match=r"model\.safetensors .*No space left .*room on the disk; free some"):
            train(tiny_recipe("training.epochs=1"), tmp_path / "run")
    assert train(tiny_recipe("training.epochs=1"), tmp_path / "run").metrics


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's writer
def test_full_disk_is_reported_and_the_checkpoint_before_is_whole(tiny_recipe, tmp_path, monkeypatch):
    recipe = tiny_recipe("training.checkpoint_every_steps=1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(_, step):
        if step == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))

    with monkeypatch.context() as patch:
        before_each_step(patch, fill)
        try:
            with pytest.raises(CheckpointError, match=r"step 3 was not written .*goes on from the checkpoint before"):
                train(recipe, tmp_path / "run")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(list_checkpoints(tmp_path / "run" / "checkpoints")) == [1, 2]
    train(recipe, tmp_path / "run")
    train(recipe, tmp_path / "whole")
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


def test_batch_whose_gradient_is_not_finite_is_skipped_if_asked(tiny_recipe, tmp_path, monkeypatch):
    def poison(learner, step):
        if step == 3:
            weight = learner.embedder.head_parameters()[0]
            handle = weight.register_hook(lambda gradient: (handle.remove(), gradient * float("inf"))[1])

    before_each_step(monkeypatch, poison)
    train(tiny_recipe("training.on_nan=skip"), tmp_path)
    rows = read_history(tmp_path / "history.jsonl")
    assert [row.get("skipped") for row in rows] == [None, 1, None]
    assert [row["step"] for row in rows] == [2, 4, 6]
    assert all(np.isfinite(row["loss"]) for row in rows)
    with np.load(tmp_path / "failed_batch.npz") as file:
        assert len(file["indices"]) == 8


def test_weights_that_are_lost_stop_the_run_though_batches_may_be_skipped(tiny_recipe, tmp_path):
    recipe = tiny_recipe("training.on_nan=skip", "optimizer.lr=1e36", "schedule.warmup_epochs=0", "training.epochs=8")
    with pytest.raises(TrainingError, match="step 10"):
        train(recipe, tmp_path)


def test_full_gpu_names_the_settings_that_need_less(tiny_recipe, tmp_path, monkeypatch):
    def refuse(learner, _):
        def no_memory(*_):
            raise torch.OutOfMemoryError("CUDA out of memory")

        learner.embedder.register_forward_pre_hook(no_memory)

    before_each_step(monkeypatch, refuse)
    with pytest.raises(DeviceError, match=r"sampler\.batch_size.*training\.accumulate=two_pass"):
        train(tiny_recipe(), tmp_path)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_two_passes_learn_what_one_pass_learns(tiny_recipe, precision):
    gradients = {}
    for accumulate in ("none", "two_pass"):
        recipe = tiny_recipe(
            f"training={{epochs: 1, device: cpu, precision: {precision}, accumulate: {accumulate}, chunk_size: 3}}",
            "model.freeze_batch_norm=true",
        )
        paths = torch.tensor([[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 2], [0, 1, 2], [1, 2, 3], [1, 2, 3]])
        learner = Learner(recipe, build_fabric(recipe.training), class_paths=paths[::2].numpy(), steps_per_epoch=1)
        learner.start_epoch(0)
        images = torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        values = learner.step(images, paths, step=0)
        parameters = [*learner.embedder.parameters(), *learner.loss.parameters()]
        gradients[accumulate] = values, [parameter.grad for parameter in parameters]
    assert gradients["none"][0] == pytest.approx(gradients["two_pass"][0], rel=1e-2 if "bf16" in precision else 1e-6)
    for gradient, two in zip(gradients["none"][1], gradients["two_pass"][1], strict=True):
        tolerance = 0.05 if "bf16" in precision else 1e-5
        assert (gradient - two).norm() <= tolerance * gradient.norm() + 1e-8


def test_two_passes_refuse_statistics_of_chunks(tiny_recipe, tmp_path):
    with pytest.raises(RecipeError, match=r"model\.freeze_batch_norm=true"):
        train(tiny_recipe("training.accumulate=two_pass"), tmp_path / "run")


def test_bad_images_of_any_benchmark_are_left_out_and_named(tmp_path):
    sections = {
        "name": "tiny",
        "data": {"name": "inshop", "root": str(tmp_path / "data"), "verify": "structure"},
        "images": {"size": 16, "on_bad_image": "skip"},
        "sampler": {"name": "ClassBalancedSampler", "batch_size": 4, "images_per_class": 2},
        "model": {"width": 4, "embedding_size": 8},
        "loss": {"name": "HAPPIER"},
        "training": {"epochs": 1, "device": "cpu"},
        "evaluation": {"select": "R@1"},
    }
    write_benchmark("inshop", tmp_path / "data")
    dataset = load_split(check_recipe(sections), "test")
    first, last = (dataset.images.name(int(row)) for row in (dataset.gallery[0], len(dataset) - 1))
    (tmp_path / "data" / first).write_bytes(b"no image")
    split = load_split(check_recipe(sections), "test")
    assert split.left_out == (first,)
    assert split.queries is not None
    assert len(split.gallery) == len(dataset.gallery) - 1
    assert last in {split.images.name(int(row)) for row in [*split.gallery, *split.queries]}
    assert json.loads(json.dumps(train(check_recipe(sections), tmp_path / "run").metrics))["R@1"] >= 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["left_out"]["test"] == [first]
    with pytest.raises(ImageError):
        train(check_recipe({**sections, "images": {"size": 16}}), tmp_path / "other")
