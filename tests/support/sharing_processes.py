"""What processes do that share a run or its embeddings, in a module that a process started anew can import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from hiertree.errors import HiertreeError
from hiertree.pipelines.training.recipe.reading import check_recipe
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.learner import Learner

Change = Callable[[Learner, int], None]
NUM = 2


def take_part(rank: int, port: int, folder: str, runs: dict[str, object]) -> None:
    """Take part in runs one after another, and note how each ended for this process."""
    os.environ |= {
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": str(NUM),
        "SLURM_NTASKS_PER_NODE": str(NUM),
        "SLURM_NNODES": "1",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "HIERTREE_PROGRESS": "0",
    }
    torch.set_num_threads(1)
    multiprocessing.set_start_method(None, force=True)  # what SLURM starts does not inherit how this was started
    for name, recipe in runs.items():
        with _before_each_step(FAULTS.get(name), only=rank == 1):
            Path(folder, f"{name}-{rank}.txt").write_text(_end(recipe, Path(folder, name)))


def _end(recipe: object, out: Path) -> str:
    """How a run ended: its error or its status."""
    try:
        return f"done, {train(check_recipe(dict(recipe)), out).metrics}"  # type: ignore[call-overload]
    except HiertreeError as error:
        return f"{type(error).__name__}: {error}"
    except SystemExit as end:
        return f"status {end.code}"
    except Exception:  # noqa: BLE001  (reported to the test, while the other process would wait for this one)
        return traceback.format_exc()


def _no_numbers(learner: Learner, step: int) -> None:
    """Let the embeddings of one part of one batch be NaN."""
    if step == 3:
        handle = learner.embedder.register_forward_hook(lambda *call: (handle.remove(), call[-1] * torch.nan)[1])


def _sigterm(_: Learner, step: int) -> None:
    if step == 2:
        os.kill(os.getpid(), signal.SIGTERM)


FAULTS: dict[str, Change] = {"nan": _no_numbers, "skipped": _no_numbers, "stopped": _sigterm}
"""What happens in the second process."""


@contextmanager
def _before_each_step(change: Change | None, *, only: bool) -> Iterator[None]:
    take_step = Learner.step

    def changed(self: Learner, *batch: torch.Tensor, step: int, **options: Any) -> dict[str, float]:
        if change is not None and only:
            change(self, step)
        return take_step(self, *batch, step=step, **options)

    Learner.step = changed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Learner.step = take_step  # type: ignore[method-assign]
