"""A validation picks the best epoch and ends the run; both networks are kept, and the test split picks nothing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from interrupted_runs import assert_same_weights, break_at, curve, weights
from safetensors.torch import load_file

import hiertree as ht
from hiertree.datasets import load_synthetic
from hiertree.errors import CheckpointError, RecipeError
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.settings import Recipe
from hiertree.pipelines.training.run.checkpoints import list_checkpoints
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import read_history

DATA = ("data.families=3", "data.instances=3", "images.augmentation={name: none}", "sampler.batch_size=8")
WORSE = ("optimizer.lr=0.3", "optimizer.proxies_lr=0.3", "schedule.warmup_epochs=0")  # so large that epochs get worse
HELD_OUT = "validation={classes: 0.4, patience: 2}"
EARLY = (*DATA, *WORSE, "training.epochs=8", HELD_OUT)


def content(run):
    return dict(json.loads((run / "metrics.json").read_text()))


def same(weights_of_run, reference):
    return weights_of_run.keys() == reference.keys() and all(
        torch.equal(weights_of_run[name], reference[name]) for name in weights_of_run
    )


@pytest.fixture(scope="module")
def stopped(tiny_recipe, tmp_path_factory):
    """A run that stops early: its best epoch is not its last one."""
    folder = tmp_path_factory.mktemp("stopped")
    train(tiny_recipe(*EARLY), folder)
    return folder


def test_run_stops_two_evaluations_after_its_best_and_records_it(stopped):
    rows, record = read_history(stopped / "history.jsonl"), content(stopped)
    values = [row["validation"]["H-AP"] for row in rows]
    best = int(np.argmax(values))
    assert len(rows) == best + 3 < 8
    assert record["best"] == {"epoch": best + 1, "step": rows[best]["step"], "value": values[best]}
    assert record["stopped_early"]
    assert record["epochs"] == len(rows)
    assert ["metrics" in row for row in rows] == [False] * (len(rows) - 1) + [True]  # the test split: at the end only


def test_both_networks_are_kept_and_measured(stopped, tiny_recipe):
    files = content(stopped)
    images = load_split(tiny_recipe(*EARLY), "test").images
    for folder, metrics in ((stopped, files["metrics"]), (stopped / "best", files["best_metrics"])):
        with np.load(folder / "embeddings.npz") as file:
            embeddings = ht.load_model(folder, device="cpu").embed(images)
            np.testing.assert_allclose(embeddings, file["embeddings"], atol=1e-5)
            assert ht.metrics.evaluate(file["embeddings"], file["paths"]).summary().to_dict() == metrics
    assert content(stopped / "best")["metrics"] == files["best_metrics"]
    assert not same(weights(stopped), weights(stopped / "best"))


def test_best_network_is_that_of_the_best_epoch(stopped, tiny_recipe, tmp_path):
    metadata = content(stopped)["best"]
    (checkpoint,) = [p for step, p in list_checkpoints(stopped / "checkpoints").items() if step == metadata["step"]]
    tensors = load_file(checkpoint / "tensors.safetensors")
    network = {k.removeprefix("embedder."): v for k, v in tensors.items() if k.startswith("embedder.")}
    assert same(network, weights(stopped / "best"))


def test_held_out_classes_are_drawn_by_the_seed_and_never_learned(stopped, tiny_recipe):
    every = set(load_split(tiny_recipe(*EARLY), "train").tree.leaves)
    learned = set(ht.load_model(stopped, device="cpu").tree.leaves)
    assert len(every) == 9
    assert len(every - learned) == 4
    assert learned < every


@pytest.mark.parametrize("broken_at", [3, 7])
def test_interrupted_run_stops_at_the_same_epoch_with_the_same_networks(stopped, tiny_recipe, tmp_path, broken_at):
    recipe = tiny_recipe(*EARLY)
    break_at(broken_at, recipe, tmp_path)
    train(recipe, tmp_path)
    assert curve(tmp_path) == curve(stopped)
    assert_same_weights(tmp_path, stopped)
    assert_same_weights(tmp_path / "best", stopped / "best")
    assert content(tmp_path) == content(stopped)


def test_run_that_had_stopped_before_its_results_were_written_writes_them(stopped, tiny_recipe, tmp_path):
    recipe = tiny_recipe(*EARLY)
    train(recipe, tmp_path)
    (tmp_path / "metrics.json").unlink()
    assert train(recipe, tmp_path).best_metrics == content(stopped)["best_metrics"]
    assert len(read_history(tmp_path / "history.jsonl")) == content(stopped)["epochs"]


def test_a_lost_best_network_is_an_error_with_the_remedy_that_helps(tiny_recipe, tmp_path):
    recipe = tiny_recipe(*EARLY)
    train(recipe, tmp_path)
    (tmp_path / "metrics.json").unlink()
    oldest, *_ = list_checkpoints(tmp_path / "checkpoints").values()
    (oldest / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"the best network, of step \d+, is lost: .*--fresh") as error:
        train(recipe, tmp_path)
    assert "older checkpoint" not in str(error.value)


def test_more_patience_goes_on_where_the_run_stopped(stopped, tiny_recipe, tmp_path):
    train(tiny_recipe(*EARLY), tmp_path)
    patient = tiny_recipe(*EARLY, "validation.patience=3")
    assert not train(patient, tmp_path).already_finished
    assert content(tmp_path)["epochs"] == content(stopped)["epochs"] + 1
    assert train(patient, tmp_path).already_finished


def test_command_says_what_is_held_out_and_when_it_stopped(tiny_recipe, tmp_path):
    import yaml

    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(tiny_recipe(*EARLY, "validation.patience=1").as_dict()))
    ended = CliRunner().invoke(commands, ["train", str(file), "--out", str(tmp_path / "run")])
    assert ended.exit_code == 0
    assert "validation: 4 of 9 training classes held out, 16 of 36 images; H-AP picks the best epoch" in ended.stderr
    assert "H-AP of the validation has not improved since epoch" in ended.stderr
    assert "which the validation picked after epoch" in ended.stdout.splitlines()[0]
    output = CliRunner().invoke(
        commands, ["train", str(file), "--out", str(tmp_path / "plain"), "--set", "validation=null"]
    )
    assert "no validation: these are the test values of the last epoch" in output.stderr


def test_any_metric_selects_and_falls_if_it_measures_errors(tiny_recipe, tmp_path):
    recipe = tiny_recipe(*DATA, *WORSE, "validation={classes: 0.4, select: 'first-error[0]'}", "training.epochs=4")
    train(recipe, tmp_path)
    values = [row["validation"]["first-error[0]"] for row in read_history(tmp_path / "history.jsonl")]
    assert content(tmp_path)["best"]["value"] == min(values)
    assert "first-error[0]" not in content(tmp_path)["metrics"]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{}", "give either split"),
        ("{split: val, classes: 0.2}", "give either split"),
        ("{split: test}", "no validation"),
        ("{classes: 0.01}", "at least two classes held out"),
        ("{classes: 0.4, select: HAP}", r"select='HAP'"),
        ("{classes: 0.4, pateince: 3}", "did you mean 'patience'"),
    ],
)
def test_impossible_validation_is_refused_before_anything_is_written(tiny_recipe, tmp_path, section, problem):
    with pytest.raises(RecipeError, match=problem):
        train(tiny_recipe(*DATA, f"validation={section}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("images", [4, 1])
def test_rows_of_a_table_validate(tiny_recipe, tmp_path, images):
    dataset, rows = load_synthetic("train", families=2, kinds=2, instances=3, images=4, image_size=16), []
    for row, (family, _, leaf) in enumerate(dataset.paths.tolist()):
        split = ("train", "val", "test")[leaf % 3]
        if split != "val" or row % 4 < images:
            dataset.images[row].save(tmp_path / f"{row}.png")
            rows.append({"file": f"{row}.png", "family": family, "leaf": f"class {leaf}", "split": split})
    pd.DataFrame(rows).to_csv(tmp_path / "images.csv", index=False)
    table = {"name": "table", "path": str(tmp_path / "images.csv"), "root": str(tmp_path), "image": "file"}
    data = {**table, "levels": ["family", "leaf"], "split": "split"}
    values = tiny_recipe("validation={split: val}", "sampler.batch_size=4", "training.epochs=1").as_dict()
    recipe = Recipe.model_validate({**values, "data": data})
    if images == 1:
        with pytest.raises(RecipeError, match="2 images of 2 classes"):
            train(recipe, tmp_path / "run")
        return
    assert train(recipe, tmp_path / "run").best_metrics == train(recipe, tmp_path / "run").metrics
    assert content(tmp_path / "run")["left_out"] == {"train": [], "val": [], "test": []}


def test_earlier_runs_without_the_section_still_resume(tiny_recipe):
    assert "validation" not in tiny_recipe().experiment(defaults=False)
    assert "start_from" not in tiny_recipe().experiment(defaults=False)["training"]


CONSTANT = (*DATA, "schedule={name: constant}")


def test_finished_run_goes_on_with_more_epochs_as_if_it_had_never_ended(tiny_recipe, tmp_path):
    train(tiny_recipe(*CONSTANT, "training.epochs=2"), tmp_path / "run")
    longer = tiny_recipe(*CONSTANT, "training.epochs=3")
    assert not train(longer, tmp_path / "run").already_finished
    train(longer, tmp_path / "whole")
    assert_same_weights(tmp_path / "run", tmp_path / "whole")
    assert train(longer, tmp_path / "run").already_finished
    with pytest.raises(RecipeError, match=r"training\.epochs: 3 there, 2 here"):
        train(tiny_recipe(*CONSTANT, "training.epochs=2"), tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").rglob("*.*"):
        path.unlink()
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.rmdir()
    with pytest.raises(CheckpointError, match="without checkpoints"):
        train(tiny_recipe(*CONSTANT, "training.epochs=4"), tmp_path / "run")


def test_damaged_checkpoint_of_a_run_that_goes_on_is_warned_of_once(tiny_recipe, tmp_path, capsys):
    train(tiny_recipe(*CONSTANT, "training.epochs=2"), tmp_path)
    newest = list(list_checkpoints(tmp_path / "checkpoints").values())[-1]
    (newest / "state.json").write_text("{", encoding="utf-8")
    train(tiny_recipe(*CONSTANT, "training.epochs=3"), tmp_path)
    assert capsys.readouterr().err.count("cannot be read") == 1


def test_cosine_that_has_ended_takes_no_more_epochs(tiny_recipe, tmp_path):
    train(tiny_recipe(*DATA, "training.epochs=1"), tmp_path)
    metrics_text = (tmp_path / "metrics.json").read_text()
    with pytest.raises(RecipeError, match=r"cosine that ends in the last epoch.*training\.start_from"):
        train(tiny_recipe(*DATA, "training.epochs=2"), tmp_path)
    assert (tmp_path / "metrics.json").read_text() == metrics_text


def test_network_starts_with_the_weights_of_an_earlier_run(stopped, tiny_recipe, tmp_path, capsys):
    still = (*DATA, "optimizer.lr=1e-30", "optimizer.proxies_lr=1e-30", "training.epochs=1")
    frozen = (*still, "model.freeze_batch_norm=true")
    start = f"training.start_from={stopped / 'best'}"
    train(tiny_recipe(*frozen, start), tmp_path / "warm")
    assert_same_weights(tmp_path / "warm", stopped / "best")
    recorded = json.loads((tmp_path / "warm" / "manifest.json").read_text())["inputs"][-1]
    outputs = json.loads((stopped / "best" / "manifest.json").read_text())["outputs"]
    assert recorded["sha256"] in {entry["sha256"] for entry in outputs if entry["name"] == "model.safetensors"}

    train(tiny_recipe(*frozen, start, "model.embedding_size=4"), tmp_path / "head")
    assert "its head is not used: here embeddings have 4 dimensions" in capsys.readouterr().err
    warm, baseline = weights(tmp_path / "warm"), weights(tmp_path / "head")
    assert all(torch.equal(warm[name], baseline[name]) for name in warm if name.startswith("backbone."))

    train(tiny_recipe(*frozen, start, "model.embedding_size=null"), tmp_path / "bare")
    assert "its head is not used: here embeddings have 16 dimensions" in capsys.readouterr().err
    assert not any(name.startswith("head.") for name in weights(tmp_path / "bare"))
    assert ht.load_model(tmp_path / "bare").embedding_size == 16

    with pytest.raises(RecipeError, match=r"another network .*backbone\.0\.weight"):
        train(tiny_recipe(*frozen, start, "model.width=8"), tmp_path / "other")
    with pytest.raises(CheckpointError, match=r"training\.start_from \(no folder"):
        train(tiny_recipe(*frozen, "training.start_from=nowhere"), tmp_path / "none")
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "none").exists()
