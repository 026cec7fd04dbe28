"""Trackers: names that stay apart, settings, one run however often it is interrupted, and failures on the way."""

from __future__ import annotations

import re

import pytest
from interrupted_runs import break_at

from hiertree.errors import CheckpointError
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import TRACKER, plain_name, read_history


def original_name(mlflow_name):
    """The inverse of ``plain_name`` on the names of metrics."""
    name = re.sub(r" level (\S+)$", r"[\1]", mlflow_name)
    return re.sub(r" with ([^\[]+)", lambda found: f"({found[1].replace(' is ', '=')})", name).replace(" at ", "@")


@pytest.mark.parametrize(
    "name",
    [
        *("R@1[2]", "R@12", "R@1", "mAP@R[1]", "AP[12]", "H-AP(alpha=3)", "first-error[1]", "mean R@1", "TR@10[2]"),
        *("NDCG@100", "mAP@10[3]", "images_per_second"),
    ],
)
def test_names_for_mlflow_are_in_its_letters_and_lead_back(name):
    mlflow_name = plain_name(name)
    assert re.fullmatch(r"[\w./ -]+", mlflow_name)
    assert original_name(mlflow_name) == name


@pytest.mark.filterwarnings("ignore")  # of the packages of mlflow
def test_mlflow_gets_each_metric_by_a_name_of_its_own_the_settings_and_one_run(tiny_recipe, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out, metrics = tmp_path / "run", ["H-AP", "R@1[2]", "R@12"]
    settings = "training.logger=mlflow", f"evaluation.metrics={metrics}", "training.epochs=2"
    recipe = tiny_recipe(*settings)
    break_at(3, recipe, out)
    result = train(tiny_recipe(*settings, "images.workers=1"), out)
    client = mlflow.MlflowClient(f"sqlite:///{out.resolve() / 'mlflow.db'}")
    (experiment,) = [candidate for candidate in client.search_experiments() if candidate.name == "hiertree"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["test/R at 1 level 2"] == pytest.approx(result.metrics["R@1[2]"])
    assert run.data.metrics["test/R at 12"] == pytest.approx(result.metrics["R@12"])
    assert run.data.params["optimizer/lr"] == str(recipe.optimizer.lr)
    history = client.get_metric_history(run.info.run_id, "step/loss")
    assert {point.step for point in history} == {1, 2, 3, 4}


def test_a_damaged_note_of_the_tracked_run_is_named(tiny_recipe, tmp_path):
    pytest.importorskip("lightning.pytorch.loggers")
    (tmp_path / "run").mkdir()
    recipe = tiny_recipe("training.logger=mlflow", "training.epochs=1")
    break_at(1, tiny_recipe("training.logger=none", "training.epochs=1"), tmp_path / "run")
    (tmp_path / "run" / TRACKER).write_text("{")
    with pytest.raises(CheckpointError, match=r"tracker\.json .*remove it"):
        train(recipe, tmp_path / "run")


def test_a_tracker_that_fails_warns_once_and_the_run_goes_on(tiny_recipe, tmp_path, monkeypatch, capsys):
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TensorBoardLogger, "log_metrics", full)
    assert train(tiny_recipe("training.epochs=2"), tmp_path / "run").metrics
    warning = f"warning: tensorboard logs no more in {tmp_path / 'run'} ([Errno 28] No space left on device)"
    assert capsys.readouterr().err.count(warning) == 1
    assert len(read_history(tmp_path / "run" / "history.jsonl")) == 2
