"""Whole runs: what they write, that they resume to the bit, and how they refuse."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from forked_processes import started
from interrupted_runs import (
    assert_resumes,
    assert_same_weights,
    before_each_step,
    break_at,
    curve,
    train_slowly,
    weights,
)
from PIL import Image, ImageOps

from hiertree import LabelTree
from hiertree.datasets import load_synthetic
from hiertree.errors import (
    CheckpointError,
    DeviceError,
    ImageError,
    MissingPackageError,
    OptionError,
    OutputError,
    RecipeError,
    TableError,
    TrainingError,
)
from hiertree.io.files import locked_folder
from hiertree.metrics import evaluate
from hiertree.pipelines.training.recipe.reading import load_recipe
from hiertree.pipelines.training.run.checkpoints import list_checkpoints
from hiertree.pipelines.training.run.evaluator import SplitEvaluator
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import read_history
from hiertree.pipelines.training.run.learner import Learner
from hiertree.pipelines.training.run.run_folder import RunFolder


@pytest.fixture(scope="module")
def finished_run(tiny_recipe, tmp_path_factory):
    """An uninterrupted run: 3 epochs of 2 steps."""
    folder = tmp_path_factory.mktemp("finished")
    train(tiny_recipe(), folder)
    return folder


def test_run_writes_everything_it_promises(finished_run):
    assert {path.name for path in finished_run.iterdir()} == {
        *("recipe.yaml", "images.json", "tree-train.json", "tree.json", "history.jsonl", "checkpoints"),
        *("tensorboard", "model.safetensors", "model.json", "embeddings.npz", "per_query.parquet", "manifest.json"),
        "metrics.json",
    }
    assert list(list_checkpoints(finished_run / "checkpoints")) == [4, 6]
    assert any((finished_run / "tensorboard").iterdir())
    tensors = [finished_run / "model.safetensors", *(finished_run / "checkpoints").glob("*/tensors.safetensors")]
    (finished_run / "checkpoints" / "another").touch()
    mode = (finished_run / "checkpoints" / "another").stat().st_mode
    assert {path.stat().st_mode for path in tensors} == {mode}


def test_metrics_are_those_of_the_embeddings_written(finished_run):
    text = json.loads((finished_run / "metrics.json").read_text())
    with np.load(finished_run / "embeddings.npz", allow_pickle=False) as file:
        result = evaluate(file["embeddings"], file["paths"])
    assert text["metrics"] == result.summary().to_dict()
    assert text["skipped"] == result.skipped
    assert text["convention"] == result.convention.as_dict()
    assert text["queries"] == len(result)
    per_query = pd.read_parquet(finished_run / "per_query.parquet")
    assert per_query.mean().to_dict() == pytest.approx(text["metrics"])


def test_history_has_a_row_an_epoch_with_every_term(finished_run):
    rows = read_history(finished_run / "history.jsonl")
    assert [(row["epoch"], row["step"]) for row in rows] == [(1, 2), (2, 4), (3, 6)]
    assert all(row["loss"] == pytest.approx(0.9 * row["SupHAP"] + 0.1 * row["ProxyDecomposability"]) for row in rows)
    assert "metrics" not in rows[0]
    assert "H-AP" in rows[-1]["metrics"]


def test_recipe_written_is_the_recipe_run(finished_run, tiny_recipe):
    assert yaml.safe_load((finished_run / "recipe.yaml").read_text()) == tiny_recipe().as_dict()


def test_same_recipe_gives_the_same_curve_and_leaves_the_callers_generator_alone(finished_run, tiny_recipe, tmp_path):
    torch.manual_seed(12345)
    state = torch.get_rng_state()
    train(tiny_recipe(), tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    assert_same_weights(finished_run, tmp_path)
    assert curve(finished_run) == curve(tmp_path)


def test_another_seed_gives_another_model(finished_run, tiny_recipe, tmp_path):
    train(tiny_recipe("seed=1"), tmp_path)
    assert not torch.equal(weights(finished_run)["head.1.weight"], weights(tmp_path)["head.1.weight"])


def test_finished_run_is_not_run_again(finished_run, tiny_recipe):
    times = {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}
    result = train(tiny_recipe(), finished_run)
    assert result.already_finished
    assert result.metrics == json.loads((finished_run / "metrics.json").read_text())["metrics"]
    assert times == {path: path.stat().st_mtime_ns for path in finished_run.rglob("*")}


def test_run_of_another_recipe_is_not_overwritten(finished_run, tiny_recipe):
    with pytest.raises(RecipeError, match=r"another recipe \(loss\.alpha: 1\.0 there, 2\.0 here\).*--fresh"):
        train(tiny_recipe("loss.alpha=2"), finished_run)


def test_fresh_replaces_a_run_and_nothing_else(finished_run, tiny_recipe, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(finished_run, out)
    (out / "notes.txt").write_text("mine")
    assert not train(tiny_recipe("loss.alpha=2", "training.epochs=1"), out, fresh=True).already_finished
    assert len(read_history(out / "history.jsonl")) == 1
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("fresh", [False, True])
def test_folder_of_something_else_is_left_alone(tiny_recipe, tmp_path, fresh):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OptionError, match="a new or empty folder"):
        train(tiny_recipe(), tmp_path, fresh=fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("broken_at", [0, 1, 2, 3, 5])
def test_run_interrupted_at_any_step_ends_with_the_same_weights(finished_run, tiny_recipe, tmp_path, broken_at):
    """The recipe is the finished one's but for how often a checkpoint is written, which no weight depends on."""
    recipe = tiny_recipe("training.checkpoint_every_steps=1")
    break_at(broken_at, recipe, tmp_path)
    assert max(list_checkpoints(tmp_path / "checkpoints"), default=0) == broken_at
    train(recipe, tmp_path)
    assert_same_weights(finished_run, tmp_path)
    assert curve(finished_run) == curve(tmp_path)


@pytest.mark.parametrize(
    "overrides",
    [
        ("model.freeze_backbone_epochs=2",),
        ("optimizer.name=sgd", "optimizer.lr=0.01", "optimizer.clip_norm=0.5"),
        ("loss={name: SmoothAP}", "images.workers=2", "images.cache=false"),
        ("training.precision=bf16-mixed", "evaluation.every=1"),
        ("loss={name: CrossBatchMemory, size: 20, from_epoch: 1, loss: {name: HAPPIER, sampled_classes: 3}}",),
        ("loss={name: LevelSum, loss: {name: PytorchMetricLearning, loss: ProxyNCALoss}}",),
        ("loss={name: BlackboxAP}",),
        ("loss={name: CSL}",),
    ],
)
def test_interrupted_run_of_any_kind_ends_with_the_same_weights(tiny_recipe, tmp_path, overrides):
    assert_resumes(tiny_recipe(*overrides), tmp_path)


def test_killed_run_ends_with_the_same_weights(tiny_recipe, tmp_path):
    """A process of its own, killed without warning in the middle of its epochs."""
    recipe = tiny_recipe("training.epochs=10", "training.checkpoint_every_steps=1")
    train(recipe, tmp_path / "whole")
    killed = tmp_path / "killed"
    process = started(train_slowly, recipe.as_dict(), str(killed))
    deadline = time.monotonic() + 300
    while max(list_checkpoints(killed / "checkpoints"), default=0) < 7 and process.is_alive():
        assert time.monotonic() < deadline, "the run never came to its seventh step"
        time.sleep(0.002)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (killed / "metrics.json").exists()
    assert not train(recipe, killed).already_finished
    assert_same_weights(tmp_path / "whole", killed)
    assert curve(tmp_path / "whole") == curve(killed)


def test_kill_in_an_evaluation_costs_no_training(tiny_recipe, tmp_path, monkeypatch):
    every = "evaluation.every=1"
    train(tiny_recipe(every), tmp_path / "whole")
    steps, evaluate_split = [], SplitEvaluator.evaluate

    def killed(self, learner):
        if len(steps) == 4:
            raise KeyboardInterrupt
        return evaluate_split(self, learner)

    before_each_step(monkeypatch, lambda _, step: steps.append(step))
    with monkeypatch.context() as patch:
        patch.setattr(SplitEvaluator, "evaluate", killed)
        for _ in range(2):  # an evaluation that always fails trains nothing again either
            with pytest.raises(KeyboardInterrupt):
                train(tiny_recipe(every), tmp_path / "killed")
    train(tiny_recipe(every), tmp_path / "killed")
    assert steps == [0, 1, 2, 3, 4, 5]
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    assert curve(tmp_path / "whole") == curve(tmp_path / "killed")
    results = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("whole", "killed")]
    assert results[0] == results[1]


def test_settings_that_change_no_number_may_change_on_resume_and_are_recorded(tiny_recipe, tmp_path, capsys):
    train(tiny_recipe(), tmp_path / "whole")
    break_at(3, tiny_recipe(), tmp_path / "broken")
    overrides = ("name=mine", "images.cache=false", "training.on_nan=skip", "training.chunk_size=3")
    often = ("evaluation.batch_size=7", "evaluation.every=1", "training.checkpoint_every_steps=1")
    train(tiny_recipe(*overrides, *often), tmp_path / "broken")
    assert "going on with other settings: name: 'synthetic-happier' there, 'mine' here" in capsys.readouterr().err
    assert_same_weights(tmp_path / "whole", tmp_path / "broken")
    (noted,) = map(json.loads, (tmp_path / "broken" / "changes.jsonl").read_text().splitlines())
    assert noted["step"] == 2
    assert "evaluation.batch_size: 512 there, 7 here" in noted["changed"]
    assert len(noted["changed"]) == 7
    assert yaml.safe_load((tmp_path / "broken" / "recipe.yaml").read_text())["evaluation"]["batch_size"] == 7
    assert train(tiny_recipe(), tmp_path / "broken").already_finished


def test_folder_in_use_is_refused_with_the_host_and_process_that_use_it(tiny_recipe, tmp_path):
    with locked_folder(tmp_path / "run"):
        with pytest.raises(OutputError, match="in use by another process"):
            train(tiny_recipe("training.epochs=1"), tmp_path / "run")
        assert {path.name for path in (tmp_path / "run").iterdir()} == {".hiertree-lock"}
    assert not (tmp_path / "run").exists()
    assert not train(tiny_recipe("training.epochs=1"), tmp_path / "run").already_finished
    assert not list((tmp_path / "run").glob(".hiertree*"))


@pytest.mark.parametrize(
    ("owner", "method", "message", "is_finished"),
    [
        (Learner, "__init__", "stopped by SIGTERM before the first step", False),
        (RunFolder, "finish", "stopped by SIGTERM after step 2; run the same command", True),
    ],
)
def test_sigterm_outside_of_the_steps_ends_with_status_143_too_and_results_are_whole(
    tiny_recipe, tmp_path, monkeypatch, capsys, owner, method, message, is_finished
):
    function, recipe = getattr(owner, method), tiny_recipe("training.epochs=1")

    def signaled(*arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        return function(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, signaled)
        with pytest.raises(SystemExit) as ended:
            train(recipe, tmp_path / "run")
    assert ended.value.code == 143
    assert message in capsys.readouterr().err
    assert (tmp_path / "run").exists() == is_finished
    assert train(recipe, tmp_path / "run").already_finished == is_finished
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_flipped_digit_in_a_state_changes_no_history(tiny_recipe, tmp_path):
    recipe = tiny_recipe("training.epochs=3")
    train(recipe, tmp_path / "whole")
    break_at(5, recipe, tmp_path / "run")
    *_, newest = list_checkpoints(tmp_path / "run" / "checkpoints").values()
    text = (newest / "state.json").read_text()
    digit = re.search(r'"loss": \d\.\d(\d)', text)
    at = digit.start(1)
    (newest / "state.json").write_text(text[:at] + str(9 - int(text[at])) + text[at + 1 :])
    train(recipe, tmp_path / "run")
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")
    assert_same_weights(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("text", ["", '{"level', "[]"])
@pytest.mark.parametrize("name", ["tree.json", "tree-train.json"])
def test_a_damaged_tree_of_a_run_that_goes_on_is_written_again(tiny_recipe, tmp_path, name, text):
    recipe = tiny_recipe("training.epochs=2")
    break_at(3, recipe, tmp_path / "run")
    tree_text = (tmp_path / "run" / name).read_text()
    (tmp_path / "run" / name).write_text(text)
    train(recipe, tmp_path / "run")
    assert (tmp_path / "run" / name).read_text() == tree_text


def test_a_run_does_not_go_on_with_other_labels(tiny_recipe, tmp_path):
    recipe = tiny_recipe("training.epochs=2")
    break_at(3, recipe, tmp_path / "run")
    LabelTree.from_paths([("a", "b"), ("a", "c")]).to_json(tmp_path / "run" / "tree.json")
    with pytest.raises(CheckpointError, match=r"tree\.json has labels that differ .*--fresh"):
        train(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.json", "embeddings.npz", "per_query.parquet", "tree.json", "manifest.json"]
)
def test_damage_to_a_finished_run_is_named_and_mended_as_the_error_says(tiny_recipe, tmp_path, name):
    recipe, run = tiny_recipe("training.epochs=1"), tmp_path / "run"
    train(recipe, run)
    weights_before = {key: tensor.clone() for key, tensor in weights(run).items()}  # not mapped from the file
    text = (run / name).read_bytes()
    (run / name).write_bytes(text[: len(text) // 2])
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)}.*remove .*metrics\.json.*last checkpoint"):
        train(recipe, run)
    (run / "metrics.json").unlink()
    assert not train(recipe, run).already_finished
    assert all(torch.equal(tensor, weights(run)[key]) for key, tensor in weights_before.items())
    assert train(recipe, run).already_finished


def test_sigterm_that_a_library_swallows_before_the_steps_ends_the_run_all_the_same(
    tiny_recipe, tmp_path, monkeypatch, capsys
):
    build = Learner.__init__

    def swallow(*arguments, **options):
        with suppress(SystemExit):  # as a callback of llvmlite or a destructor does
            signal.raise_signal(signal.SIGTERM)
        build(*arguments, **options)

    monkeypatch.setattr(Learner, "__init__", swallow)
    with pytest.raises(SystemExit) as ended:
        train(tiny_recipe("training.epochs=1"), tmp_path / "run")
    assert ended.value.code == 143
    assert "stopped by SIGTERM after step 0" in capsys.readouterr().err
    assert not (tmp_path / "run" / "metrics.json").exists()
    monkeypatch.setattr(Learner, "__init__", build)
    assert train(tiny_recipe("training.epochs=1"), tmp_path / "run").metrics


def test_doubtful_settings_are_warned_of_in_one_line_each(tiny_recipe, tmp_path, capsys):
    doubtful = ("training.epochs=1", "schedule.warmup_epochs=5", "sampler.images_per_class=1", "sampler.batch_size=4")
    train(tiny_recipe(*doubtful), tmp_path)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning:")]
    assert [line.split(":")[1].strip() for line in lines[:2]] == [
        "schedule.warmup_epochs=5 with training.epochs=1",
        "sampler.images_per_class=1",
    ]
    assert "the learning rate rises to 20% of optimizer.lr at most" in lines[0]


def test_a_metric_that_counts_few_queries_says_how_many(table, capsys):
    rows = pd.read_csv(table / "images.csv")
    test = rows.index[rows["part"] == "test"]
    rows["leaf"] = rows["leaf"].astype(str)
    rows.loc[test[2:], "leaf"] = [f"single-{row}" for row in test[2:]]
    rows.to_csv(table / "images.csv", index=False)
    train(table_recipe(table, "images={size: 16}"), table / "run")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "counts" in line]
    assert line == (
        "warning: AP[2] of the test split counts 2 of 32 queries; the others have no positive in the gallery"
    )


@pytest.mark.parametrize("leaf", ["label", "path"])
def test_levels_from_fine_to_coarse_are_said_to_be_reversed(table, leaf, capsys):
    recipe = table_recipe(table, "images={size: 16}", leaf=leaf, levels=["leaf", "family"])
    if leaf == "label":
        with pytest.raises(RecipeError, match=r"fine → coarse: .*reverse them: data\.levels=\[family, leaf\]"):
            train(recipe, table / "run")
    else:
        train(recipe, table / "run")
        assert "level leaf (4 labels) stands before family (2) and determines it" in capsys.readouterr().err


def damage(checkpoint):
    tensors = checkpoint / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-8])


def test_damaged_newest_checkpoint_gives_way_to_the_one_before_with_a_warning(
    finished_run, tiny_recipe, tmp_path, capsys
):
    out = tmp_path / "run"
    shutil.copytree(finished_run, out)
    (out / "metrics.json").unlink()
    damage(out / "checkpoints" / "step-00000006")
    train(tiny_recipe(), out)
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert re.search(r"step-00000006\S+ cannot be read", warning)
    assert "going on from step-00000004" in warning
    assert_same_weights(finished_run, out)
    assert curve(finished_run) == curve(out)


def test_damage_of_all_checkpoints_stops_before_anything_is_lost(finished_run, tiny_recipe, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(finished_run, out)
    (out / "metrics.json").unlink()
    for path in list_checkpoints(out / "checkpoints").values():
        damage(path)
    with pytest.raises(CheckpointError, match=r"step-00000006\S+ cannot be read"):
        train(tiny_recipe(), out)
    assert list(list_checkpoints(out / "checkpoints")) == [4, 6]


def test_tensorboard_shows_every_step_of_a_resumed_run_once(tiny_recipe, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe = tiny_recipe("training.checkpoint_every_steps=1")
    break_at(3, recipe, tmp_path)
    time.sleep(1 - time.time() % 1)  # TensorBoard reads files of one second and process as …9, …10 sort: 10 before 9
    train(recipe, tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("step/loss")] == [1, 2, 3, 4, 5, 6]


def test_another_logger_is_named_by_one_key(tiny_recipe, tmp_path, monkeypatch):
    train(tiny_recipe("training.epochs=1", "training.logger=none"), tmp_path / "none")
    assert not (tmp_path / "none" / "tensorboard").exists()
    assert len(read_history(tmp_path / "none" / "history.jsonl")) == 1
    monkeypatch.setattr("lightning.pytorch.loggers.wandb._WANDB_AVAILABLE", False)
    with pytest.raises(MissingPackageError, match=r"training\.logger=wandb: wandb is missing; pip install wandb"):
        train(tiny_recipe("training.epochs=1", "training.logger=wandb"), tmp_path / "wandb")


def test_photographs_are_turned_upright_where_the_recipe_asks_for_it(tmp_path):
    from hiertree.pipelines.inference import load_model

    photographs = load_synthetic("train", families=2, kinds=2, instances=2, images=2, image_size=16)
    for row in range(len(photographs)):
        exif, leaf = Image.Exif(), photographs.paths[row, -1]
        exif[274] = 6  # taken with the camera turned to the right
        for split in ("train", "test"):
            file = tmp_path / "photos" / split / f"{leaf // 2}" / f"{leaf}" / f"{row}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            turned = photographs.images[row].rotate(90, expand=True).resize((20, 12))
            turned.save(file, exif=exif, quality=99, comment=split)
    data = f"data={{name: folder, root: {tmp_path / 'photos'}}}"
    embedded = []
    for upright in (True, False):
        overrides = (data, f"images={{size: 16, exif_orientation: {upright}, cache: {upright}}}")
        run = train(load_recipe("synthetic-happier", [*overrides, *ONLY_TINY]), tmp_path / f"{upright}").folder
        model = load_model(run, device="cpu")
        assert model.preprocessing.exif_orientation is upright
        with np.load(run / "embeddings.npz") as file:
            of_files = model.embed(tmp_path / "photos" / "test", progress=False)
            np.testing.assert_allclose(of_files, file["embeddings"], atol=1e-6)
        photo = Image.open(tmp_path / "photos" / "test" / "0" / "0" / "0.jpg")
        by_hand = ImageOps.exif_transpose(photo)
        embedded.append([model.embed([image], progress=False)[0] for image in (photo, by_hand)])
    np.testing.assert_allclose(*embedded[0], atol=1e-6)
    assert np.abs(embedded[1][0] - embedded[1][1]).max() > 1e-3


def test_absent_gpu_is_refused_before_anything_is_read_or_written(tiny_recipe, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    override = "data={name: omniglot, root: nowhere}"
    for devices in ("1", "2"):
        with pytest.raises(DeviceError, match=r"training\.device=cuda: expected a GPU.*set training\.device=cpu"):
            train(tiny_recipe(override, "training.device=cuda", f"training.devices={devices}"), tmp_path / "run")
    with pytest.raises(DeviceError, match="bf16-mixed"):
        train(tiny_recipe(override, "training.precision=16-mixed"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "override",
    [
        "evaluation.select=HAP",
        "evaluation.metrics=[R@one]",
        "loss.lambda_=2",
        "sampler.batch_size=800",
        "images.size=2",
    ],
)
def test_setting_that_cannot_work_stops_the_run_before_it_writes(tiny_recipe, tmp_path, override):
    with pytest.raises((RecipeError, OptionError)):
        train(tiny_recipe(override), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def assert_stopped_whole(folder, step):
    assert max(list_checkpoints(folder / "checkpoints")) == step
    with np.load(folder / "failed_batch.npz") as file:
        assert file["images"].shape == (8, 3, 16, 16)
        assert file["indices"].shape == (8,)


def test_diverging_run_stops_and_keeps_batch_and_checkpoint(tiny_recipe, tmp_path):
    recipe = tiny_recipe("optimizer.lr=1e36", "schedule.warmup_epochs=0", "training.checkpoint_every_steps=1")
    with pytest.raises(TrainingError, match=r"step 1: .*lower optimizer\.lr"):
        train(recipe, tmp_path)
    assert_stopped_whole(tmp_path, 1)


def test_infinite_gradient_stops_the_run_before_it_is_learned_from(tiny_recipe, tmp_path, monkeypatch):
    def poison(learner, step):
        if step == 3:
            learner.embedder.head_parameters()[0].register_hook(lambda gradient: gradient * float("inf"))

    before_each_step(monkeypatch, poison)
    with pytest.raises(TrainingError, match=r"step 3: norm of the gradient = (inf|nan)"):
        train(tiny_recipe(), tmp_path)
    assert_stopped_whole(tmp_path, 2)


def test_frozen_backbone_learns_only_later(tiny_recipe, tmp_path):
    start = "schedule.name=constant"
    for epochs in (1, 2):
        recipe = tiny_recipe("model.freeze_backbone_epochs=1", f"training.epochs={epochs}", start)
        train(recipe, tmp_path / str(epochs))
    train(tiny_recipe("optimizer.lr=1e-30", "optimizer.proxies_lr=1e-30", "training.epochs=1"), tmp_path / "none")
    first, second, none = (weights(tmp_path / name) for name in ("1", "2", "none"))
    assert torch.equal(first["backbone.0.weight"], none["backbone.0.weight"])
    assert not torch.equal(first["head.1.weight"], none["head.1.weight"])
    assert not torch.equal(second["backbone.0.weight"], none["backbone.0.weight"])


def test_best_epoch_is_reported_and_its_checkpoint_kept(tiny_recipe, tmp_path):
    train(tiny_recipe("evaluation.every=1", "training.epochs=4"), tmp_path)
    rows = read_history(tmp_path / "history.jsonl")
    best = max(rows, key=lambda row: row["metrics"]["H-AP"])
    text = json.loads((tmp_path / "metrics.json").read_text())
    assert text["best"] == {"epoch": best["epoch"], "step": best["step"], "value": best["metrics"]["H-AP"]}
    assert set(list_checkpoints(tmp_path / "checkpoints")) == {best["step"], 6, 8}
    assert text["metrics"] == rows[-1]["metrics"]


@pytest.fixture
def table(tmp_path):
    """PNG files of several sizes and modes, and a CSV of them: 4 training classes, 4 test classes."""
    rows = []
    for split in ("train", "test"):
        images = load_synthetic(split, families=2, kinds=2, instances=2, images=4, image_size=16)
        for index in range(len(images)):
            labels = dict(zip(["family", "kind", "leaf"], images.paths[index], strict=True))
            name = f"{split}/{index}.png"
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            picture = images.images[index].resize((20 + index % 3, 18))
            picture.convert(["RGB", "RGBA", "L", "P"][index % 4]).save(path)
            leaf = f"{split}-{labels['leaf']}"
            rows.append({"file": name, "family": labels["family"], "leaf": leaf, "part": split})
    pd.DataFrame(rows).to_csv(tmp_path / "images.csv", index=False)
    return tmp_path


def table_section(table, **keys):
    files = {"name": "table", "path": str(table / "images.csv"), "root": str(table / "photos"), "image": "file"}
    return f"data={json.dumps({**files, 'levels': ['family', 'leaf'], 'split': 'part', **keys})}"


ONLY_TINY = (
    *("training.epochs=1", "training.device=cpu", "sampler.batch_size=8", "sampler.images_per_class=2"),
    "model.width=4",
)


def table_recipe(table, *overrides, **keys):
    """A recipe that is tiny but for its images, which are those of the table."""
    return load_recipe("synthetic-happier", [table_section(table, **keys), *ONLY_TINY, *overrides])


def test_a_file_in_both_splits_stops_the_run_before_it_writes(table):
    rows = pd.read_csv(table / "images.csv")
    rows.loc[rows["file"] == "test/0.png", "file"] = "train/0.png"
    rows.to_csv(table / "images.csv", index=False)
    with pytest.raises(TableError, match=r"1 of 32 images of the split 'test' are in 'train' .*'train/0\.png'"):
        train(table_recipe(table), table / "run")
    assert not (table / "run").exists()


@pytest.mark.parametrize("change", ["pixels", "another image", "another name"])
def test_a_run_does_not_go_on_with_other_images(table, change):
    recipe = table_recipe(table, "images={size: 16}", "training.epochs=2")
    folder, photos = table / "run", table / "photos"
    break_at(3, recipe, folder)
    rows = pd.read_csv(table / "images.csv")
    if change == "pixels":
        for file in (photos / "train").iterdir():
            Image.new("RGB", (16, 16), "navy").save(file)
    else:
        Image.new("RGB", (16, 16), "navy").save(photos / "train" / "new.png")
        new_row = rows[rows["part"] == "train"].iloc[[0]].assign(file="train/new.png")
        kept = rows if change == "another image" else rows.drop(new_row.index)
        pd.concat([kept, new_row]).to_csv(table / "images.csv", index=False)
    with pytest.raises(CheckpointError, match=r"images of the split train differ .*--fresh.*remove images\.json"):
        train(recipe, folder)
    (folder / "images.json").unlink()
    assert train(recipe, folder).metrics


def test_an_epoch_without_a_positive_is_warned_of(tiny_recipe, tmp_path, capsys):
    overrides = ("training.epochs=1", "sampler.images_per_class=1", "sampler.batch_size=4")
    train(tiny_recipe(*overrides, recipe="synthetic-smooth-ap"), tmp_path / "run")
    assert "the loss was 0 in every step of epoch 1: nothing was learned" in capsys.readouterr().err


def test_undecodable_image_is_named_or_left_out_and_counted(table):
    (table / "photos" / "train" / "3.png").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"train/3\.png"):
        train(table_recipe(table), table / "run")
    assert not (table / "run").exists()
    train(table_recipe(table, on_bad_image="skip"), table / "run")
    assert json.loads((table / "run" / "metrics.json").read_text())["left_out"] == {
        "train": ["train/3.png"],
        "test": [],
    }
