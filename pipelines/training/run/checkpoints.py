"""The progress of a run, the choice of its best epoch, and the checkpoints that keep both."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from hiertree.errors import CheckpointError, raised_as
from hiertree.io import files
from hiertree.io.provenance import sha256
from hiertree.io.reading import Complaint, read_json_object, read_tensors, reading_file, reading_json
from hiertree.metrics.conventions import improves_downward

from ..recipe.settings import Recipe
from .learner import Learner

FORMAT = "hiertree checkpoint 2"
_TENSORS, _STATE = "tensors.safetensors", "state.json"
_REMEDY = "remove this folder to go on from an older checkpoint, or start again (--fresh)"
_WHOLE: Complaint = {"expected": "a whole checkpoint", "remedy": _REMEDY, "kind": CheckpointError}


@dataclass
class RunState:
    """The progress of a run; a checkpoint stores it as JSON."""

    epoch: int = 0  # epochs done
    batch: int = 0  # batches done in the current epoch
    step: int = 0  # batches done in total
    sums: dict[str, float] = field(default_factory=dict)  # loss and terms, summed over the current epoch
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per finished epoch
    best: dict[str, float] | None = None  # epoch, step and value of the best evaluation so far
    skipped: int = 0  # batches of the current epoch that were skipped because their loss was not finite
    skipped_in_a_row: int = 0  # batches skipped since the last one that was not
    measured: bool = True  # whether the last finished epoch has been evaluated, as far as that was due
    started_from: dict[str, Any] | None = None  # path, size and hash of the weights that it started with

    def count_batch(self, values: Mapping[str, float]) -> None:
        """Count a batch and add its loss and terms; a skipped batch has none."""
        self.batch += 1
        self.step += 1
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def mean_losses(self) -> dict[str, float]:
        """Loss and terms, averaged over the batches of this epoch that were not skipped, and the number skipped."""
        learned = max(1, self.batch - self.skipped)
        means = {name: total / learned for name, total in self.sums.items()}
        return means | ({"skipped": self.skipped} if self.skipped else {})

    def end_epoch(self) -> None:
        """Count an epoch and reset what belongs to it."""
        self.epoch, self.batch, self.sums, self.skipped, self.measured = self.epoch + 1, 0, {}, 0, False

    def steps_needed(self) -> set[int]:
        """Steps of the checkpoints from which the run resumes: the last one, and the best so far."""
        return {self.step} | ({int(self.best["step"])} if self.best else set())


@dataclass(frozen=True)
class EpochSelection:
    """The choice of the best epoch; without a validation it is judged on the test split and has no effect."""

    metric: str  # that is compared
    downward: bool = False  # whether the metric falls as it improves
    patience: int | None = None  # evaluations without improvement after which the run stops; None never stops it

    @classmethod
    def from_recipe(cls, recipe: Recipe, *, num_levels: int) -> EpochSelection:
        """The selection that a recipe asks for; its tree has ``num_levels``."""
        settings, metric = recipe.validation, recipe.evaluation.select
        if settings is None:
            return cls(metric)
        metric = settings.select or metric
        direction = settings.direction or ("down" if improves_downward(metric, num_levels=num_levels) else "up")
        return cls(metric, direction == "down", settings.patience)

    def note(self, state: RunState, metrics: Mapping[str, float]) -> None:
        """Remember the epoch that has just been evaluated if it is the best so far."""
        value = metrics.get(self.metric)
        best = None if state.best is None else state.best["value"]
        if value is not None and (best is None or (value < best if self.downward else value > best)):
            state.best = {"epoch": state.epoch, "step": state.step, "value": value}

    def gives_up(self, state: RunState) -> bool:
        """Whether none of the last evaluations, as many as the patience, has improved."""
        best_epoch = 0 if state.best is None else state.best["epoch"]
        evaluations = sum("validation" in row and row["epoch"] > best_epoch for row in state.history)
        return self.patience is not None and evaluations >= self.patience

    def describe_stop(self, state: RunState) -> str:
        """Say that the run has stopped, and why."""
        time = f"epoch {state.best['epoch']:g}" if state.best else "the start"
        stopped = f"stopped after epoch {state.epoch}: {self.metric} of the validation has not improved since {time}"
        return f"{stopped} (validation.patience={self.patience})"


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], state: dict[str, Any], *, step: int, fingerprint: str
) -> Path:
    """Write one checkpoint below ``folder``."""
    path = checkpoint_path(folder, step=step)
    with files.replacing_folder(path) as temporary:
        files.write_tensors(temporary / _TENSORS, tensors)
        _write_state(temporary, fingerprint, sha256(temporary / _TENSORS), state)
    return path


def _write_state(folder: Path, fingerprint: str, tensors: str, state: dict[str, Any]) -> None:
    record = {"format": FORMAT, "recipe": fingerprint, "sha256": tensors, "state": state}
    files.write_json(folder / _STATE, {**record, "check": _digest(record)})


def _digest(record: Mapping[str, Any]) -> str:
    """The SHA-256 of all that a state holds, tensors included, by which damage to any of it shows."""
    covered = {key: value for key, value in record.items() if key != "check"}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def checkpoint_path(folder: Path, *, step: int) -> Path:
    """The folder of the checkpoint of a step."""
    return folder / f"step-{step:08d}"


def read_checkpoint(path: Path, *, accepts: Callable[[str], bool]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the state of one checkpoint."""
    record = _checked(path)
    if not accepts(record["recipe"]):
        problem = f"{path}, of another recipe"
        raise CheckpointError(problem, expected="a checkpoint of this recipe", remedy=_REMEDY)
    return read_tensors(path / _TENSORS, **_WHOLE), record["state"]


def newest_whole_checkpoint(folder: Path) -> Path | None:
    """Find the newest checkpoint that is not damaged, and report the damaged; None if there is no checkpoint at all."""
    damage: CheckpointError | None = None
    for path in reversed(list_checkpoints(folder).values()):
        try:
            _checked(path)
        except CheckpointError as error:
            damage = damage or error
            continue
        if damage is not None:
            print(f"warning: {damage.given}; going on from {path.name}, the newest whole one", file=sys.stderr)
        return path
    if damage is not None:
        raise damage
    return None


def _checked(path: Path) -> dict[str, Any]:
    """The content of ``state.json``, where it and the tensors are as they were written."""
    with reading_json(path / _STATE, **_WHOLE) as record:
        if record["format"] != FORMAT:
            problem = f"{path / _STATE}, of the format {str(record['format'])[:40]!r}"
            raise CheckpointError(problem, expected=f"a checkpoint ({FORMAT})", remedy=_REMEDY)
        if record["check"] != _digest(record):
            raise ValueError("other content than was written")
    with reading_file(path / _TENSORS, **_WHOLE):
        if sha256(path / _TENSORS) != record["sha256"]:
            raise ValueError("other bytes than were written")
    return record


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """List the checkpoints below a folder by step, oldest first, without those left incomplete by a killed process."""
    checkpoints = {int(path.name[5:]): path for path in folder.glob("step-*") if path.name[5:].isdigit()}
    return dict(sorted(checkpoints.items()))


def remove_checkpoints(folder: Path, *, keep: Collection[int | None]) -> None:
    """Remove all checkpoints except some, and what killed processes left."""
    for step, path in list_checkpoints(folder).items():
        if step not in keep:
            shutil.rmtree(path)
    for path in filter(files.is_remnant, folder.glob(".step-*")):
        shutil.rmtree(path)


class RunCheckpoints:
    """Checkpoints of a learner and of how far its run is."""

    def __init__(self, folder: Path, recipe: Recipe, learner: Learner) -> None:
        self._folder, self._recipe, self._learner = folder, recipe, learner
        self._kept: set[int] = set()  # steps whose checkpoints the last one needs

    def write(self, state: RunState) -> None:
        """Write a checkpoint and remove the earlier ones, except the one before and the best of either."""
        record, fingerprint = {"position": asdict(state), **self._learner.numbers()}, self._recipe.fingerprint()
        with _writing(state.step):
            save_checkpoint(self._folder, self._learner.tensors(), record, step=state.step, fingerprint=fingerprint)
        previous_steps, self._kept = self._kept, state.steps_needed()
        remove_checkpoints(self._folder, keep=previous_steps | self._kept)

    def update(self, state: RunState) -> None:
        """Write the state of the step whose checkpoint was written last, now that its epoch has been evaluated."""
        path = checkpoint_path(self._folder, step=state.step)
        with _writing(state.step):
            record = read_json_object(path / _STATE, **_WHOLE)
            new_state = {"position": asdict(state), **self._learner.numbers()}
            _write_state(path, record["recipe"], record["sha256"], new_state)
        self._kept = state.steps_needed()

    def restore(self, checkpoint: Path) -> RunState:
        """Load the tensors of a checkpoint into the learner; returns how far the run was."""
        tensors, record = read_checkpoint(checkpoint, accepts=self._recipe.accepts)
        with reading_file(checkpoint / _STATE, expected="the state of a training run", kind=CheckpointError):
            state = RunState(**record["position"])
            self._learner.load(tensors, record, step=state.step)
        self._kept = state.steps_needed()
        return state

    def restore_network(self, *, step: int) -> None:
        """Load the network after an earlier step, whose checkpoint was kept, into the learner."""
        try:
            tensors, record = read_checkpoint(checkpoint_path(self._folder, step=step), accepts=self._recipe.accepts)
        except CheckpointError as error:  # whose remedy, an older checkpoint, is none here
            raise CheckpointError(
                f"the best network, of step {step}, is lost: {error.given}",
                expected="a whole checkpoint",
                remedy="the last network is whole in the run's folder; train again (--fresh) to have the best one too",
            ) from error
        self._learner.load(tensors, record, step=step)


def _writing(step: int) -> AbstractContextManager[None]:
    return raised_as(
        CheckpointError,
        f"the checkpoint of step {step} was not written",
        expected="room on the disk",
        remedy="free some and run the same command: it goes on from the checkpoint before, which is whole",
        on=(OSError, SafetensorError),
    )
