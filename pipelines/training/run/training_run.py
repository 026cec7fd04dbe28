"""The training loop: epochs of steps, checkpoints between them, evaluations of the test split."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
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

from ..data.batches import BatchSampler, EpochKeys, ImageBatch, batch_loader
from ..data.views import ImageViews
from ..distributed.processes import Processes
from ..recipe.components import target
from ..recipe.schema import Recipe
from .checkpoint_files import newest_whole_checkpoint, read_checkpoint, remove_checkpoints, save_checkpoint
from .evaluator import SplitResult, TestEvaluator
from .history import TensorBoardLog, write_history
from .initial_projection import initialize_projection
from .learner import Learner
from .run_folder import RunFolder
from .run_state import RunState
from .stopping import StopRequest

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_MAX_SKIPPED = 10  # batches in a row; after that many it is the weights, not the batches


class EvaluatedEpoch(NamedTuple):
    """An evaluation of the test split.

    Attributes:
        metrics: their means, in every process.
        result: all values, in the first process; None in the others.
    """

    metrics: dict[str, float]
    result: SplitResult | None


class TrainingRun:
    """One experiment, from its newest checkpoint (or from the start) to its results.

    Args:
        recipe: the experiment.
        folder: for its files.
        fabric: device and precision.
        train_set: images to learn from.
        test_set: images to evaluate on.
        processes: that share every batch; None for this one alone.

    Raises:
        CheckpointError: all checkpoints are damaged, or the newest belongs to another recipe.
        HiertreeError: something is wrong with the recipe or the images.
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
            views = ImageViews(train_set, recipe.images, augment=recipe.seed)
            self._evaluator = TestEvaluator(test_set, recipe, self._processes)
        pin = fabric.device.type == "cuda"
        self._batches = batch_loader(views, self._keys, workers=recipe.images.workers, pin_memory=pin)
        self._steps_per_epoch = len(self._keys)
        self.learner = Learner(
            recipe,
            fabric,
            class_paths=np.unique(self._paths, axis=0),
            steps_per_epoch=self._steps_per_epoch,
            processes=self._processes,
        )
        self._left_out = {part.split: list(part.left_out) for part in (train_set, test_set, *test_set.beside)}
        self.state = RunState()
        self._stop = StopRequest(self._processes)
        self._fingerprint = recipe.fingerprint()
        self._last_checkpoint: int | None = None
        newest = self._processes.from_first(lambda: newest_whole_checkpoint(folder.checkpoints))
        with self._processes.agreeing():
            if newest is not None:
                self._resume(newest)
            elif self._processes.is_first:
                initialize_projection(self.learner.embedder, train_set, recipe, fabric)
        self.learner.copy_from_first()

    def finish(self) -> dict[str, Any]:
        """Train the remaining epochs, evaluate, write the results; returns the content of ``metrics.json``."""
        log = TensorBoardLog(self.folder.tensorboard if self._processes.is_first else None, step=self.state.step)
        evaluated = None
        try:
            with self._stop.listening():
                while self.state.epoch < self.recipe.training.epochs:
                    evaluated = self._epoch(log)
                    if self._stop.requested():
                        self._stop.obey(self.state.step)
        finally:
            log.close()
        metrics, result = evaluated or self._evaluate()
        summary = self._summary()
        with self._processes.agreeing():
            if result is not None:
                return self.folder.finish(self.recipe, self.learner.trained, result, summary)
        return {**summary, "metrics": metrics}

    def _summary(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe.name,
            "seed": self.recipe.seed,
            "fingerprint": self._fingerprint,
            "epochs": self.state.epoch,
            "steps": self.state.step,
            "best": self.state.best,
            "left_out": self._left_out,
            "device": self.learner.fabric.device.type,
            "processes": self._processes.size,
        }

    def _epoch(self, log: TensorBoardLog) -> EvaluatedEpoch | None:
        """Train the rest of the current epoch; returns its evaluation if there was one."""
        state = self.state
        self.learner.start_epoch(state.epoch)
        self._keys.start(state.epoch, first=state.batch)
        started, waited, images = time.perf_counter(), 0.0, 0
        description = f"{self.recipe.name}, epoch {state.epoch + 1}/{self.recipe.training.epochs}"
        with show_progress(description=description, total=len(self._keys)) as advance:
            asked = time.perf_counter()
            for batch in self._processes.in_step(self._batches):
                waited += time.perf_counter() - asked
                values = self._step(batch, log)
                images += len(batch.indices) * self._processes.size
                asked = time.perf_counter()
                note = f"loss {values['loss']:.4f}" if values else "skipped"
                advance(1, f"{note}, {images / (asked - started):.0f} images/s")
                if state.batch < self._steps_per_epoch and self._stop.requested():
                    self._checkpoint()
                    self._stop.obey(state.step)
        seconds = time.perf_counter() - started
        row = {"lr": self.learner.learning_rate(), "seconds": round(seconds, 3), "waited": round(waited / seconds, 4)}
        row["images_per_second"] = round(images / seconds, 1)
        return self._end_epoch(state.mean_losses() | row, log)

    def _step(self, batch: ImageBatch, log: TensorBoardLog) -> dict[str, float]:
        values = self._learn(batch)
        self.state.count_batch(values)
        log.add(values, group="step", step=self.state.step)
        every = self.recipe.training.checkpoint_every_steps
        if every and self.state.step % every == 0 and self.state.batch < self._steps_per_epoch:
            self._checkpoint()
        return values

    def _learn(self, batch: ImageBatch) -> dict[str, float]:
        """Learn from a batch; returns nothing if it is skipped because its loss is not finite."""
        state = self.state
        try:
            values = self.learner.step(batch.images, self._paths[batch.indices], step=state.step)
        except TrainingError as error:
            self._keep_failed(batch)
            state.skipped_in_a_row += 1
            if self.recipe.training.on_nan == "stop" or state.skipped_in_a_row == _MAX_SKIPPED:
                self._processes.fail(error)
            state.skipped += 1
            return {}
        state.skipped_in_a_row = 0
        return values

    def _keep_failed(self, batch: ImageBatch) -> None:
        """Write the whole batch, of all processes, for inspection."""
        parts = [self._processes.gathered(tensor) for tensor in batch]
        with self._processes.agreeing():
            if self._processes.is_first:
                indices, images = (torch.cat(part).numpy() for part in parts)
                with files.replacing(self.folder.path / "failed_batch.npz") as temporary:
                    np.savez(temporary, indices=indices, images=images)

    def _end_epoch(self, row: dict[str, Any], log: TensorBoardLog) -> EvaluatedEpoch | None:
        state, every = self.state, self.recipe.evaluation.every
        state.end_epoch()
        last = state.epoch == self.recipe.training.epochs
        evaluated = self._evaluate() if last or (every and state.epoch % every == 0) else None
        row = {"epoch": state.epoch, "step": state.step, **row}
        scalars = ("loss", "lr", "seconds", "waited", "images_per_second")
        log.add({name: row[name] for name in scalars if name in row}, group="epoch", step=state.step)
        if evaluated is not None:
            row["metrics"] = evaluated.metrics
            log.add(row["metrics"], group="test", step=state.step)
            state.note_best(evaluated.metrics.get(self.recipe.evaluation.select))
        state.history.append(row)
        with self._processes.agreeing():
            if self._processes.is_first:
                write_history(self.folder.history, state.history)
        self._checkpoint()
        return evaluated

    def _evaluate(self) -> EvaluatedEpoch:
        """Evaluate the network of the first process; the others embed their share of the images and wait."""
        self.learner.copy_from_first()
        result = self._evaluator.evaluate(self.learner)
        metrics = self._processes.from_first(lambda: {} if result is None else result.metrics())
        return EvaluatedEpoch(metrics, result)

    def _checkpoint(self) -> None:
        """Write the first process's state; the others wait."""
        with self._processes.agreeing():
            if self._processes.is_first:
                self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        """Write a checkpoint and remove the earlier ones, except the one before and the best."""
        step = self.state.step
        content = {"position": asdict(self.state), "scaler": self.learner.scaler()}
        tensors = self.learner.tensors()
        try:
            save_checkpoint(self.folder.checkpoints, tensors, content, step=step, fingerprint=self._fingerprint)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"the checkpoint of step {step} was not written ({error})",
                expected="room on the disk",
                remedy="free some and run the same command: it goes on from the checkpoint before, which is whole",
            ) from error
        best = None if self.state.best is None else int(self.state.best["step"])
        remove_checkpoints(self.folder.checkpoints, keep={step, self._last_checkpoint, best})
        self._last_checkpoint = step

    def _resume(self, checkpoint: Path) -> None:
        tensors, content = read_checkpoint(checkpoint, fingerprint=self._fingerprint)
        try:
            self.state = RunState(**content["position"])
            self.learner.load(tensors, content["scaler"])
            self._last_checkpoint = self.state.step
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{checkpoint} ({error!r})", expected="the state of a training run") from error


def build_sampler(recipe: Recipe, train_set: ImageDataset, processes: Processes | None = None) -> BatchSampler:
    """Build a recipe's batch sampler, seeded by the recipe; each of several processes gets its part of every batch."""
    build: Callable[..., PlannedBatches] = target("sampler", recipe.sampler.name)
    sampler = build(train_set.paths, seed=recipe.seed, **recipe.sampler.options())
    if processes is None or processes.size == 1:
        return sampler
    return DistributedBatches(sampler, rank=processes.rank, world_size=processes.size)
