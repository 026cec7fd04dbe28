"""The checkpoints of one run: written as it learns, read where it goes on, and kept as long as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from hiertree.errors import CheckpointError

from ..learning.learner import Learner
from ..recipe.schema import Recipe
from .checkpoint_files import (
    checkpoint_path,
    newest_whole_checkpoint,
    read_checkpoint,
    remove_checkpoints,
    rewrite_state,
    save_checkpoint,
)
from .run_state import RunState


class RunCheckpoints:
    """Checkpoints of a learner and of how far its run is.

    Args:
        folder: of all of them.
        recipe: the experiment.
        learner: whose tensors are written and restored.
    """

    def __init__(self, folder: Path, recipe: Recipe, learner: Learner) -> None:
        self._folder, self._recipe, self._learner = folder, recipe, learner
        self._kept: set[int] = set()  # steps whose checkpoints the last one needs

    def newest(self) -> Path | None:
        """The newest whole checkpoint; None if there is none at all.

        Raises:
            CheckpointError: all are damaged.
        """
        return newest_whole_checkpoint(self._folder)

    def write(self, state: RunState) -> None:
        """Write a checkpoint and remove the earlier ones, except the one before and the best of either.

        Raises:
            CheckpointError: it cannot be written.
        """
        tensors, fingerprint = self._learner.tensors(), self._recipe.fingerprint()
        with _writing(state.step):
            save_checkpoint(self._folder, tensors, self._content(state), step=state.step, fingerprint=fingerprint)
        needed = _steps_needed(state)
        remove_checkpoints(self._folder, keep=needed | self._kept)
        self._kept = needed

    def update(self, state: RunState) -> None:
        """Write the state of the step whose checkpoint was written last, now that its epoch has been evaluated.

        Raises:
            CheckpointError: it cannot be written.
        """
        with _writing(state.step):
            rewrite_state(checkpoint_path(self._folder, step=state.step), self._content(state))
        self._kept = _steps_needed(state)

    def _content(self, state: RunState) -> dict[str, Any]:
        return {"position": asdict(state), "scaler": self._learner.scaler()}

    def restore(self, checkpoint: Path) -> RunState:
        """Load the tensors of a checkpoint into the learner; returns how far the run was.

        Raises:
            CheckpointError: it is damaged, or belongs to another recipe.
        """
        tensors, content = read_checkpoint(checkpoint, accepts=self._recipe.accepts)
        try:
            state = RunState(**content["position"])
            self._learner.load(tensors, content["scaler"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{checkpoint} ({error!r})", expected="the state of a training run") from error
        self._kept = _steps_needed(state)
        return state

    def restore_network(self, *, step: int) -> None:
        """Load the network after an earlier step, whose checkpoint was kept, into the learner.

        Raises:
            CheckpointError: it is damaged, or gone.
        """
        path = checkpoint_path(self._folder, step=step)
        try:
            tensors, content = read_checkpoint(path, accepts=self._recipe.accepts)
        except CheckpointError as error:
            raise CheckpointError(
                f"the best network, of step {step}, is lost: {error.given}",
                expected="a whole checkpoint",
                remedy="the last network is whole in the run's folder; train again (--fresh) to have the best one too",
            ) from error
        self._learner.load(tensors, content["scaler"])


@contextmanager
def _writing(step: int) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint of step {step} was not written ({error})",
            expected="room on the disk",
            remedy="free some and run the same command: it goes on from the checkpoint before, which is whole",
        ) from error


def _steps_needed(state: RunState) -> set[int]:
    """Steps of the checkpoints that a run needs to go on from its state: the last one, and the best so far."""
    return {state.step} | ({int(state.best["step"])} if state.best else set())
