"""The runs of a comparison as jobs of a SLURM cluster, through submitit."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CalledProcessError
from types import FrameType
from typing import TYPE_CHECKING, Any

from hiertree.errors import (
    CheckpointError,
    MissingResourceError,
    OptionError,
    TrainingError,
    raised_as,
    require_package,
)
from hiertree.io import files
from hiertree.io.progress import show_progress
from hiertree.io.reading import read_json_object

from ..training.recipe.reading import check_recipe
from ..training.run.experiment import train
from ..yaml_files import parse_yaml
from .planned_runs import PlannedRun

if TYPE_CHECKING:
    from submitit import Executor, Job, SlurmExecutor
    from submitit.helpers import DelayedSubmission

_MOST_REQUEUES = 100
_DEFAULTS: Mapping[str, Any] = {"job_name": "hiertree", "time": 60}


def read_parameters(options: Iterable[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` texts; values are YAML, the time is in minutes.

    >>> read_parameters(["partition=gpu", "time=240", "gpus_per_node=2"])
    {'partition': 'gpu', 'time': 240, 'gpus_per_node': 2}
    """
    parameters: dict[str, Any] = {}
    for option in options:
        key, equals, text = (part.strip() for part in option.partition("="))
        if not equals or not key or key in parameters:
            raise OptionError(f"--slurm {option}", expected="KEY=VALUE, each key once")
        if key == "time" and not text.isdigit():
            raise OptionError(f"--slurm {option}", expected="a number of minutes")
        parameters[key] = parse_yaml(text, source=f"--slurm {option}")
    return parameters


def slurm_executor(folder: Path, parameters: Mapping[str, Any]) -> SlurmExecutor:
    """Make what submits jobs to SLURM, with the parameters of submitit's ``SlurmExecutor.update_parameters``.

    Every machine of the cluster must see the folder, which is for logs and submitit's own files.
    """
    require_package("submitit", extra="slurm")
    from submitit import SlurmExecutor

    expected, remedy = "one that can submit to SLURM", "or pass --launcher local"
    with raised_as(MissingResourceError, "no srun on this machine", expected=expected, remedy=remedy, on=RuntimeError):
        executor = SlurmExecutor(folder, max_num_timeout=_MOST_REQUEUES)
    problem, expected = f"--slurm {dict(parameters)}", "parameters of submitit's SlurmExecutor"
    with raised_as(OptionError, problem, expected=expected, on=(TypeError, ValueError)):
        executor.update_parameters(**{**_DEFAULTS, **parameters})
    return executor


class ClusterJobs:
    """Jobs by name, one for each run of a comparison until it is finished.

    ``submitted.json`` in the executor's folder lists them, so that none is submitted twice. Jobs that are under way are
    checked every so many seconds.
    """

    def __init__(self, executor: Executor, *, seconds: float = 5.0) -> None:
        self._executor, self._seconds = executor, seconds
        self._record = executor.folder / "submitted.json"

    def submit(self, runs: Sequence[PlannedRun]) -> dict[Path, Job[Any]]:
        """Submit the runs that are neither finished nor under way; returns the jobs that are, by the runs' folders."""
        return {run.folder: self._job(run) for run in runs if run.metrics() is None}

    def finish(self, runs: Sequence[PlannedRun]) -> None:
        """Submit what is left, and wait until every job has ended; a TrainingError names the runs that have not."""
        jobs = self.submit(runs)
        self._wait(list(jobs.values()))
        unfinished = [run for run in runs if run.metrics() is None]
        if unfinished:
            reasons = "; ".join(f"{run.label}: {_last_error_line(jobs[run.folder])}" for run in unfinished)
            raise TrainingError(
                f"{len(unfinished)} of {len(runs)} runs are not finished ({reasons})",
                expected="all runs finished",
                remedy=f"their logs are in {self._executor.folder}; the same command submits them again",
            )

    def _job(self, run: PlannedRun) -> Job[Any]:
        """The job of a run that is under way, or that is submitted now."""
        ids: dict[str, str] = {}  # of the jobs submitted so far
        if self._record.is_file():
            remedy = "remove it if none is under way"
            ids = read_json_object(self._record, expected="ids of jobs", remedy=remedy, kind=CheckpointError)
        key = os.path.relpath(run.folder, self._executor.folder)
        if key in ids:
            active_job: Job[Any] = self._executor.job_class(self._executor.folder, ids[key])
            if not active_job.done(force_check=True):
                return active_job
        problem, remedy = f"the job of {run.label} was not submitted", "correct --slurm; the same command goes on"
        refused, expected = (RuntimeError, CalledProcessError, OSError), "a job that the scheduler accepts"
        with raised_as(TrainingError, problem, expected=expected, remedy=remedy, on=refused):
            submitted = self._executor.submit(TrainingJob(run)).task(0)
        files.write_json(self._record, {**ids, key: submitted.job_id})
        return submitted

    def _wait(self, jobs: list[Job[Any]]) -> None:
        with show_progress(description="jobs", total=len(jobs)) as advance:
            while jobs:
                left = [job for job in jobs if not job.done()]
                states = Counter(job.state.lower() for job in left)
                advance(len(jobs) - len(left), ", ".join(f"{count} {state}" for state, count in states.items()))
                jobs = left
                if jobs:
                    time.sleep(self._seconds)


def _last_error_line(job: Job[Any]) -> str:
    """The last line of a job's log of errors that is not srun's, which only counts the tasks; or the job's state."""
    lines = [line for line in (job.stderr() or "").strip().splitlines() if not line.startswith("srun: ")]
    return re.sub(r"^\[rank\d+\]: ", "", lines[-1]) if lines else f"job {job.job_id} {job.state.lower()}"


class TrainingJob:
    """The training of a run, as submitit stores it, calls it, and submits it again if its time is up."""

    def __init__(self, run: PlannedRun) -> None:
        self._recipe, self._folder = run.recipe.as_dict(), run.folder.absolute()  # components do not pickle

    def __call__(self) -> dict[str, float]:
        """Train, and return the metrics."""
        with _saving_the_step():
            return train(check_recipe(self._recipe, imports=None), self._folder).metrics

    def checkpoint(self) -> DelayedSubmission:
        """What to submit again: the same job, since what it has written holds its state."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@contextmanager
def _saving_the_step() -> Iterator[None]:
    """When the scheduler signals that time is up, let the run finish and save its step, as on SIGTERM."""
    requeue, terminate = signal.getsignal(signal.SIGUSR2), signal.getsignal(signal.SIGTERM)
    requested = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        if signal.getsignal(signal.SIGTERM) != terminate:
            signal.raise_signal(signal.SIGTERM)
        elif callable(requeue):  # the run has not begun
            requeue(number, frame)

    signal.signal(signal.SIGUSR2, stop)
    try:
        yield
    except SystemExit:
        if requested and callable(requeue):
            requeue(signal.SIGUSR2, None)
        raise
    finally:
        signal.signal(signal.SIGUSR2, requeue)
