"""The run itself: epochs of steps, checkpoints between them, the test split measured now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, TrainingError
from hiertree.io import files
from hiertree.io.progress import show_progress
from hiertree.samplers import DistributedBatches
from hiertree.samplers.epochs import PlannedBatches

from ..data.loading import Batch, BatchSampler, EpochKeys, Views, loader_of
from ..distributed.processes import Processes
from ..network.projection import initialise_projection
from ..recipe.components import target
from ..recipe.schema import Recipe
from .checkpoint import checkpoints, read_checkpoint, remove_checkpoints, save_checkpoint
from .history import Board, write_history
from .learner import Learner
from .measuring import Examination, Measured
from .run_folder import RunFolder
from .stopping import StopRequest

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_TOO_MANY_SKIPPED = 10  # batches in a row: then it is the weights, not the batch


@dataclass
class Position:
    """How far a run has come: all of its state that is not a tensor.

    Attributes:
        epoch: epochs done.
        batch: batches done of the current epoch.
        step: batches done altogether.
        sums: loss and terms, added up over the current epoch.
        history: one row for each epoch done.
        best: epoch, step and value of the best evaluation so far.
        skipped: batches of the current epoch that were not learnt from, as their loss was not finite.
        skipped_in_a_row: the same since the last batch that was.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, float] | None = None
    skipped: int = 0
    skipped_in_a_row: int = 0


class Outcome(NamedTuple):
    """The means of one measurement, and all of it where it was made: in the first process."""

    metrics: dict[str, float]
    measured: Measured | None


class Run:
    """One experiment, from its newest checkpoint (or from nothing) to its results.

    Args:
        recipe: the experiment.
        folder: where it keeps what it makes.
        fabric: device and precision.
        train_set: images to learn from.
        test_set: images to measure on.
        processes: that share every batch; None: this one alone.

    Raises:
        CheckpointError: the newest checkpoint is damaged, or of another recipe.
        HiertreeError: whatever is wrong with recipe or images.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        fabric: Fabric,
        *,
        train_set: ImageDataset,
        test_set: ImageDataset,
        processes: Processes | None = None,
    ) -> None:
        self.recipe, self.folder, self._processes = recipe, folder, processes or Processes()
        self._paths = torch.from_numpy(np.ascontiguousarray(train_set.paths, dtype=np.int64))
        with self._processes.agreeing():
            self._keys = EpochKeys(build_sampler(recipe, train_set, self._processes), part=self._processes.rank)
            views = Views(train_set, recipe.images, augment=recipe.seed)
            self._examination = Examination(test_set, recipe, self._processes)
        pin = fabric.device.type == "cuda"
        self._batches = loader_of(views, self._keys, workers=recipe.images.workers, pin_memory=pin)
        self._steps_per_epoch = len(self._keys)
        self.learner = Learner(
            recipe,
            fabric,
            class_paths=np.unique(self._paths, axis=0),
            steps_per_epoch=self._steps_per_epoch,
            processes=self._processes,
        )
        self._left_out = {part.split: list(part.left_out) for part in (train_set, test_set, *test_set.beside)}
        self.position = Position()
        self._stop = StopRequest(self._processes)
        self._fingerprint = recipe.fingerprint()
        newest = self._processes.first_makes(lambda: max(checkpoints(folder.checkpoints).items(), default=None))
        with self._processes.agreeing():
            if newest is not None:
                self._resume(newest[1])
            elif self._processes.is_first:
                initialise_projection(self.learner.embedder, train_set, recipe, fabric)
        self.learner.take_from_first()

    def finish(self) -> dict[str, Any]:
        """Train the epochs that are left, measure, write the results; returns the content of ``metrics.json``."""
        board = Board(self.folder.tensorboard if self._processes.is_first else None, step=self.position.step)
        outcome = None
        try:
            with self._stop.heeded():
                while self.position.epoch < self.recipe.training.epochs:
                    outcome = self._epoch(board)
                    if self._stop.asked():
                        self._stop.obey(self.position.step)
        finally:
            board.close()
        metrics, measured = outcome or self._measure()
        summary = {
            "recipe": self.recipe.name,
            "seed": self.recipe.seed,
            "fingerprint": self._fingerprint,
            "epochs": self.position.epoch,
            "steps": self.position.step,
            "best": self.position.best,
            "left_out": self._left_out,
            "device": self.learner.fabric.device.type,
            "processes": self._processes.size,
        }
        with self._processes.agreeing():
            if measured is not None:
                return self.folder.finish(self.recipe, self.learner.trained, measured, summary)
        return {**summary, "metrics": metrics}

    def _epoch(self, board: Board) -> Outcome | None:
        """The rest of the current epoch; returns the measurement that followed it, if one did."""
        position = self.position
        self.learner.start_epoch(position.epoch)
        self._keys.start(position.epoch, first=position.batch)
        started, waited, images = time.perf_counter(), 0.0, 0
        description = f"{self.recipe.name}, epoch {position.epoch + 1}/{self.recipe.training.epochs}"
        with show_progress(description=description, total=len(self._keys)) as advance:
            asked = time.perf_counter()
            for batch in self._processes.together(self._batches):
                waited += time.perf_counter() - asked
                values = self._step(batch, board)
                images += len(batch.indices) * self._processes.size
                asked = time.perf_counter()
                found = f"loss {values['loss']:.4f}" if values else "skipped"
                advance(1, f"{found}, {images / (asked - started):.0f} images/s")
                if position.batch < self._steps_per_epoch and self._stop.asked():
                    self._checkpoint()
                    self._stop.obey(position.step)
        seconds = time.perf_counter() - started
        learnt = max(1, position.batch - position.skipped)
        row = {name: total / learnt for name, total in position.sums.items()}
        row |= {"skipped": position.skipped} if position.skipped else {}
        row |= {"lr": self.learner.learning_rate(), "seconds": round(seconds, 3), "waited": round(waited / seconds, 4)}
        row["images_per_second"] = round(images / seconds, 1)
        return self._end_epoch(row, board)

    def _step(self, batch: Batch, board: Board) -> dict[str, float]:
        position = self.position
        values = self._learn(batch)
        position.batch += 1
        position.step += 1
        for name, value in values.items():
            position.sums[name] = position.sums.get(name, 0.0) + value
        board.add(values, group="step", step=position.step)
        every = self.recipe.training.checkpoint_every_steps
        if every and position.step % every == 0 and position.batch < self._steps_per_epoch:
            self._checkpoint()
        return values

    def _learn(self, batch: Batch) -> dict[str, float]:
        """Learn from a batch; nothing comes back from one that is skipped, as its loss is not finite."""
        position = self.position
        try:
            values = self.learner.step(batch.images, self._paths[batch.indices], step=position.step)
        except TrainingError as error:
            self._keep_failed(batch)
            position.skipped_in_a_row += 1
            if self.recipe.training.on_nan == "stop" or position.skipped_in_a_row == _TOO_MANY_SKIPPED:
                self._processes.fail(error)
            position.skipped += 1
            return {}
        position.skipped_in_a_row = 0
        return values

    def _keep_failed(self, batch: Batch) -> None:
        """Write the whole batch, of all processes, for inspection."""
        parts = [self._processes.gathered(tensor) for tensor in batch]
        with self._processes.agreeing():
            if self._processes.is_first:
                indices, images = (torch.cat(part).numpy() for part in parts)
                with files.replacing(self.folder.path / "failed_batch.npz") as temporary:
                    np.savez(temporary, indices=indices, images=images)

    def _end_epoch(self, row: dict[str, Any], board: Board) -> Outcome | None:
        position, every = self.position, self.recipe.evaluation.every
        position.epoch, position.batch, position.sums, position.skipped = position.epoch + 1, 0, {}, 0
        last = position.epoch == self.recipe.training.epochs
        outcome = self._measure() if last or (every and position.epoch % every == 0) else None
        row = {"epoch": position.epoch, "step": position.step, **row}
        scalars = ("loss", "lr", "seconds", "waited", "images_per_second")
        board.add({name: row[name] for name in scalars if name in row}, group="epoch", step=position.step)
        if outcome is not None:
            row["metrics"] = outcome.metrics
            board.add(row["metrics"], group="test", step=position.step)
            self._note_best(row["metrics"])
        position.history.append(row)
        with self._processes.agreeing():
            if self._processes.is_first:
                write_history(self.folder.history, position.history)
        self._checkpoint()
        return outcome

    def _measure(self) -> Outcome:
        """Measure the network of the first process; the others embed their part of the images and wait."""
        self.learner.take_from_first()
        measured = self._examination.measure(self.learner)
        metrics = self._processes.first_makes(lambda: {} if measured is None else measured.metrics())
        return Outcome(metrics, measured)

    def _note_best(self, metrics: dict[str, float]) -> None:
        position, name = self.position, self.recipe.evaluation.select
        if name in metrics and (position.best is None or metrics[name] > position.best["value"]):
            position.best = {"epoch": position.epoch, "step": position.step, "value": metrics[name]}

    def _checkpoint(self) -> None:
        """Keep the state after this step, which is the first process's; the others wait until it is written."""
        with self._processes.agreeing():
            if self._processes.is_first:
                self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        """Of the earlier checkpoints only the best stays."""
        position = self.position
        state = {"position": asdict(position), "scaler": self.learner.scaler()}
        tensors = self.learner.tensors()
        try:
            save_checkpoint(self.folder.checkpoints, tensors, state, step=position.step, fingerprint=self._fingerprint)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"the checkpoint of step {position.step} was not written ({error})",
                expected="room on the disk",
                remedy="free some: the same command goes on from the checkpoint before, which is whole",
            ) from error
        best = {int(position.best["step"])} if position.best else set()
        remove_checkpoints(self.folder.checkpoints, keep={position.step} | best)

    def _resume(self, checkpoint: Path) -> None:
        tensors, state = read_checkpoint(checkpoint, fingerprint=self._fingerprint)
        try:
            self.position = Position(**state["position"])
            self.learner.load(tensors, state["scaler"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{checkpoint} ({error!r})", expected="the state of a training run") from error


def build_sampler(recipe: Recipe, train_set: ImageDataset, processes: Processes | None = None) -> BatchSampler:
    """The batch sampler a recipe asks for, seeded by the recipe; of several processes each has its part of a batch."""
    build: Callable[..., PlannedBatches] = target("sampler", recipe.sampler.name)
    sampler = build(train_set.paths, seed=recipe.seed, **recipe.sampler.options())
    if processes is None or processes.size == 1:
        return sampler
    return DistributedBatches(sampler, rank=processes.rank, world_size=processes.size)
