"""Comparisons as jobs: submitted through submitit, requeued when their time is up, collected by the same command."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from hiertree.errors import MissingResourceError, OptionError, TrainingError
from hiertree.pipelines.cli.application import main
from hiertree.pipelines.comparison.cluster_jobs import ClusterJobs, read_parameters, slurm_executor
from hiertree.pipelines.comparison.planned_runs import plan_runs
from hiertree.pipelines.comparison.recipe_comparison import train_in_turn
from hiertree.pipelines.training.recipe.schema import Recipe
from hiertree.pipelines.training.run.experiment import train

submitit = pytest.importorskip("submitit")

NAME = "synthetic-happier"


@pytest.fixture(scope="module")
def overrides(tiny_recipe: Callable[..., Recipe]) -> list[str]:
    values = tiny_recipe("training.epochs=1").as_dict()
    sections = ("data", "images", "sampler", "model", "training", "evaluation")
    return [f"{section}={json.dumps(values[section])}" for section in sections]


COMMANDS = {
    "srun": "exit 1",
    "sbatch": 'cp "$1" HERE/script; echo x >> HERE/jobs; echo "Submitted batch job $(wc -l < HERE/jobs)"',
    "sacct": """echo "JobID|State|NodeList"
while [ $# -gt 0 ]; do
    [ "$1" = -j ] && echo "$2|$(cat HERE/state)|a"
    shift
done""",
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SLURM's commands, as far as submitting needs them: a job waits, in the state that the file ``state`` says."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    for name, text in COMMANDS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text.replace('HERE', str(folder))}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def interrupt_once_it_trains(folder: Path, jobs: Path) -> None:
    """Send a job's process the signal that submitit asks SLURM for, once its run has a checkpoint.

    Only that job's: another that has not begun to listen would end by the signal.
    """
    deadline = time.monotonic() + 300
    while not list(folder.glob("checkpoints/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    controller = int(json.loads((jobs / "submitted.json").read_text())[os.path.relpath(folder, jobs)])
    for process in psutil.Process(controller).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # ended by now, a zombie included
            if "submitit.core._submit" in process.cmdline():
                process.send_signal(signal.SIGUSR2)


@pytest.mark.nightly
def test_interrupted_job_ends_as_a_run_that_was_not_and_one_that_fails_is_named(
    tmp_path: Path, overrides: list[str]
) -> None:
    executor = submitit.LocalExecutor(tmp_path / "out" / "jobs")
    executor.update_parameters(timeout_min=5)
    settings, grid = [*overrides, "training.epochs=20"], {"sampler.batch_size": [8, 64]}
    uninterrupted, failing = plan_runs([NAME], seeds=[0], out=tmp_path / "out", overrides=settings, grid=grid)
    interruption = threading.Thread(target=interrupt_once_it_trains, args=(uninterrupted.folder, executor.folder))
    interruption.start()
    with pytest.raises(TrainingError, match=r"1 of 2 runs .*batch_size=64, seed 0: .*Error: .*; their logs are in"):
        ClusterJobs(executor, seconds=0.2).finish([uninterrupted, failing])
    interruption.join()
    logs = [path.read_text() for path in (tmp_path / "out" / "jobs").glob("*_log.err")]
    assert sum("stopped by SIGTERM after step" in text for text in logs) == 1
    assert failing.metrics() is None
    assert train(uninterrupted.recipe, tmp_path / "alone").metrics == uninterrupted.metrics()


def test_same_command_submits_once_and_collects(
    tmp_path: Path, overrides: list[str], cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--set={override}" for override in overrides]
    command = ["compare", NAME, "--seeds=0,1", "--out", str(tmp_path / "out"), *options]
    slurm = ["--launcher=slurm", "--slurm=partition=gpu", "--slurm=time=240", "--slurm=gpus_per_node=2", "--no-wait"]

    def run() -> str:
        with pytest.raises(SystemExit) as ended:
            main([*command, *slurm])
        assert not ended.value.code
        printed = capsys.readouterr()
        return printed.out + printed.err

    (cluster / "state").write_text("PENDING")
    assert "2 jobs under way" in run()
    script = (cluster / "script").read_text().splitlines()
    for line in ("--partition=gpu", "--time=240", "--gpus-per-node=2", "--signal=USR2@90", "--job-name=hiertree"):
        assert f"#SBATCH {line}" in script
    (cluster / "state").write_text("RUNNING")
    assert "2 jobs under way" in run()
    assert len((cluster / "jobs").read_text()) == 4
    (cluster / "state").write_text("FAILED")
    assert "2 jobs under way" in run()
    assert len((cluster / "jobs").read_text()) == 8
    train_in_turn(plan_runs([NAME], seeds=[0, 1], out=tmp_path / "out", overrides=overrides, grid={}))
    assert f"| {NAME} | 2 | " in run()
    assert len((cluster / "jobs").read_text()) == 8
    assert (tmp_path / "out" / "comparison.tex").is_file()


@pytest.mark.parametrize("options", [["partition"], ["time=1", "time=2"], ["time=4:00:00"]])
def test_impossible_parameters_are_refused(options: list[str]) -> None:
    with pytest.raises(OptionError, match="--slurm"):
        read_parameters(options)


def test_parameters_that_submitit_does_not_take_are_refused(tmp_path: Path, cluster: Path) -> None:
    for parameters in ({"queue": "gpu", "time": 10}, {"setup": "module load cuda"}):
        with pytest.raises(OptionError, match=r"--slurm .*parameters of submitit"):
            slurm_executor(tmp_path, parameters)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingResourceError, match="no srun"):
        slurm_executor(tmp_path, {})
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingResourceError, match=r'pip install "hiertree\[slurm\]"'):
        slurm_executor(tmp_path, {})
