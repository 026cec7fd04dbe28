"""The training loop: epochs of steps, checkpoints between them, evaluations, and the results at the end."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from hiertree.datasets import GradedDataset, ImageDataset
from hiertree.errors import RecipeError, TrainingError
from hiertree.io import files
from hiertree.io.progress import show_progress
from hiertree.losses import Loss
from hiertree.samplers import DistributedBatches
from hiertree.samplers.epochs import PlannedBatches

from ..data.batches import EpochKeys, ImageBatch, batch_loader
from ..data.texts import LabelTexts
from ..data.views import ImageViews
from ..distributed.group import StopRequest
from ..distributed.processes import ALONE, Processes, worker_errors
from ..recipe.settings import Recipe
from .checkpoints import EpochSelection, RunCheckpoints, RunState, newest_whole_checkpoint
from .evaluator import SplitEvaluator, SplitResult, require_one_of
from .history import RunLog, write_history
from .learner import Learner
from .run_folder import RunFolder
from .starting_weights import initialize_projection, start_from_earlier

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Sets = tuple[ImageDataset, ImageDataset | None, ImageDataset]  # to learn from, to validate on, to test on
_MAX_SKIPPED = 10  # batches in a row; after that many it is the weights, not the batches


class TrainingRun:
    """One experiment, from its newest checkpoint (or from the start) to its results."""

    def __init__(
        self, recipe: Recipe, folder: RunFolder, fabric: Fabric, sets: Sets, processes: Processes, stop: StopRequest
    ) -> None:
        self.recipe, self.folder, self._processes, self._stop = recipe, folder, processes, stop
        train_set, validation_set, test_set = sets
        with processes.agreeing():
            self._texts = None if recipe.texts is None else LabelTexts(train_set, recipe.texts)
            if self._texts is not None and processes.size > 1:
                raise RecipeError("texts in several processes", expected="one", remedy="set training.devices=1")
            self._keys = EpochKeys(build_sampler(recipe, train_set, processes), rank=processes.rank)
            views = ImageViews(train_set.images, recipe.images, augment=recipe.seed)
            self._test, self._validation = SplitEvaluator(test_set, recipe, processes), None
            self.selection = EpochSelection.from_recipe(recipe, num_levels=test_set.tree.num_levels)
            if validation_set is None:
                require_one_of(self._test.names, self.selection.metric)
            else:
                self._validation = SplitEvaluator(validation_set, recipe, processes, select=self.selection.metric)
        pin = fabric.device.type == "cuda"
        self._batches = batch_loader(views, self._keys, workers=recipe.images.workers, pin_memory=pin)
        self._steps_per_epoch, classes = len(self._keys), np.unique(train_set.paths, axis=0)
        self.learner = Learner(
            recipe,
            fabric,
            class_paths=classes,
            steps_per_epoch=self._steps_per_epoch,
            processes=processes,
            text_size=None if self._texts is None else self._texts.size,
        )
        with processes.agreeing():
            self._paths = labels_for(self.learner.loss, train_set)
        lists = [dataset for each in sets if each is not None for dataset in (each, *each.beside)]
        self._left_out = {dataset.split: list(dataset.left_out) for dataset in lists}
        self.state = RunState()
        self._checkpoints = RunCheckpoints(folder.checkpoints, recipe, self.learner)
        newest = processes.from_first(lambda: newest_whole_checkpoint(folder.checkpoints))
        with processes.agreeing():
            if newest is not None:
                self.state = self._checkpoints.restore(newest)
            elif processes.is_first:
                self.state.started_from = start_from_earlier(self.learner.embedder, recipe)
                initialize_projection(self.learner.embedder, train_set, recipe, fabric)
        self.learner.copy_from_first()

    def finish(self) -> dict[str, Any]:
        """Train the remaining epochs, evaluate, write the results; returns the content of ``metrics.json``."""
        with self._stop.listening(), worker_errors():  # from here on a signal ends the run between two steps
            record = self._write(self._trained() or self._test.evaluate(self.learner))
            self._stop_if_requested()
            return record

    def _trained(self) -> SplitResult | None:
        """Train the remaining epochs; returns the evaluation of the last one if it was due now."""
        with self._processes.agreeing():
            log = RunLog(self.recipe, self.folder.path if self._processes.is_first else None, step=self.state.step)
        with closing(log):
            last = None if self.state.measured else self._measure(log)
            while not self._is_done():
                self._stop_if_requested()
                self._epoch(log)
                self._stop_if_requested()
                last = self._measure(log)
        return last

    def _stop_if_requested(self) -> None:
        if self._stop.requested():
            self._stop.obey(f"step {self.state.step}")

    def _write(self, last: SplitResult) -> dict[str, Any]:
        """Write the results; returns the content of ``metrics.json``."""
        recipe, state, folder, from_first = self.recipe, self.state, self.folder, self._processes.from_first
        gives_up = self.selection.gives_up(state)
        if self._processes.is_first and gives_up:
            print(self.selection.describe_stop(state), file=sys.stderr)
        network_files = from_first(lambda: folder.write_network(recipe, self.learner.trained, last))
        summary = {"recipe": recipe.name, "seed": recipe.seed, "fingerprint": recipe.fingerprint()}
        summary |= {"epochs": state.epoch, "steps": state.step, "best": state.best, "left_out": self._left_out}
        summary |= {"device": self.learner.fabric.device.type, "processes": self._processes.size}
        if self._validation is not None and state.best is not None:
            best = self._evaluated_best(last, int(state.best["step"]))
            best_summary = {**summary, "network": "best", "epochs": state.best["epoch"], "steps": state.best["step"]}
            network = self.learner.trained
            from_first(lambda: folder.write_best(recipe, network, best, best_summary, state.started_from))
            summary |= {"best_metrics": best.metrics, "stopped_early": gives_up}
        return from_first(lambda: folder.finish(recipe, last, network_files, summary, state.started_from))

    def _evaluated_best(self, last: SplitResult, step: int) -> SplitResult:
        """The evaluation of the best network, which the learner holds from then on."""
        if step == self.state.step:
            return last
        with self._processes.agreeing():
            self._checkpoints.restore_network(step=step)
        return self._test.evaluate(self.learner)

    def _is_done(self) -> bool:
        return self.state.epoch >= self.recipe.training.epochs or self.selection.gives_up(self.state)

    def _epoch(self, log: RunLog) -> None:
        """Train the rest of the current epoch and save it."""
        state = self.state
        self.learner.start_epoch(state.epoch)
        self._keys.start(state.epoch, first=state.batch)
        start_time, waited, images = time.perf_counter(), 0.0, 0
        description = f"{self.recipe.name}, epoch {state.epoch + 1}/{self.recipe.training.epochs}"
        with show_progress(description=description, total=len(self._keys)) as advance:
            request_time = time.perf_counter()
            for batch in self._processes.in_step(self._batches):
                waited += time.perf_counter() - request_time
                values = self._step(batch, log)
                images += len(batch.indices) * self._processes.size
                request_time = time.perf_counter()
                note = f"loss {values['loss']:.4f}" if values else "skipped"
                advance(1, f"{note}, {images / (request_time - start_time):.0f} images/s")
                if state.batch < self._steps_per_epoch and self._stop.requested():
                    self._checkpoint()
                    self._stop.obey(f"step {state.step}")
        seconds = time.perf_counter() - start_time
        row = {"lr": self.learner.learning_rate(), "seconds": round(seconds, 3), "waited": round(waited / seconds, 4)}
        row["images_per_second"] = round(images / seconds, 1)
        self._end_epoch(state.mean_losses() | row, log)

    def _step(self, batch: ImageBatch, log: RunLog) -> dict[str, float]:
        """Learn from a batch; returns nothing if it is skipped because its loss is not finite."""
        state, training, values = self.state, self.recipe.training, dict[str, float]()
        try:
            texts = None if self._texts is None else self._texts.of_batch(batch.indices)
            values = self.learner.step(batch.images, self._paths[batch.indices], step=state.step, texts=texts)
            state.skipped_in_a_row = 0
        except TrainingError as error:
            self._keep_failed(batch)
            state.skipped_in_a_row += 1
            if training.on_nan == "stop" or state.skipped_in_a_row == _MAX_SKIPPED:
                self._processes.fail(error)
            state.skipped += 1
        state.count_batch(values)
        log.add(values, group="step", step=state.step)
        every = training.checkpoint_every_steps
        if every and state.step % every == 0 and state.batch < self._steps_per_epoch:
            self._checkpoint()
        return values

    def _keep_failed(self, batch: ImageBatch) -> None:
        """Write the whole batch, of all processes, for inspection."""
        of_processes = [self._processes.gathered(tensor) for tensor in batch]

        def write() -> None:
            indices, images = (torch.cat(tensors).numpy() for tensors in of_processes)
            with files.replacing(self.folder.path / "failed_batch.npz") as temporary:
                np.savez(temporary, indices=indices, images=images)

        self._processes.from_first(write)

    def _end_epoch(self, losses: dict[str, Any], log: RunLog) -> None:
        """Save the epoch before it is evaluated, so that no kill in an evaluation costs training."""
        state = self.state
        state.end_epoch()
        if losses.get("loss") == 0 and self._processes.is_first:
            print(
                f"warning: the loss was 0 in every step of epoch {state.epoch}: nothing was learned. Perhaps no query "
                "has a positive in its batch; look at the sampler's images_per_class and the loss's levels",
                file=sys.stderr,
            )
        row = {"epoch": state.epoch, "step": state.step, **losses}
        scalars = ("loss", "lr", "seconds", "waited", "images_per_second")
        log.add({name: row[name] for name in scalars if name in row}, group="epoch", step=state.step)
        state.history.append(row)
        self._checkpoint()

    def _measure(self, log: RunLog) -> SplitResult | None:
        """Evaluate the epoch that has just been saved; returns its evaluation on the test split if that was due."""
        state, recipe, result = self.state, self.recipe, None
        row = state.history[-1]
        validation, every = recipe.validation, recipe.evaluation.every
        is_last = state.epoch == recipe.training.epochs
        if self._validation is not None and validation and (is_last or state.epoch % validation.every == 0):
            row["validation"] = self._validation.evaluate(self.learner).metrics
            log.add(row["validation"], group="validation", step=state.step)
            self.selection.note(state, row["validation"])
        if self._is_done() or (every and state.epoch % every == 0):
            result = self._test.evaluate(self.learner)
            row["metrics"] = result.metrics
            log.add(row["metrics"], group="test", step=state.step)
            if self._validation is None:
                self.selection.note(state, row["metrics"])
        state.measured = True
        self._processes.from_first(lambda: write_history(self.folder.history, state.history))
        self._processes.from_first(lambda: self._checkpoints.update(state))
        return result

    def _checkpoint(self) -> None:
        self._processes.from_first(lambda: self._checkpoints.write(self.state))


def labels_for(loss: Loss, train_set: ImageDataset) -> Tensor:
    """(n, L) paths of the images, or (n, 1) rows, which the loss is told to compare by the grades of their pairs."""
    if isinstance(train_set, GradedDataset):
        loss.compare_rows(train_set.grades, train_set.highest)
        return torch.arange(len(train_set))[:, None]
    return torch.from_numpy(np.ascontiguousarray(train_set.paths, dtype=np.int64))


def build_sampler(
    recipe: Recipe, train_set: ImageDataset, processes: Processes = ALONE
) -> PlannedBatches | DistributedBatches:
    """Build a recipe's batch sampler, seeded by the recipe; each of several processes gets its part of every batch."""
    sampler = recipe.sampler.build(paths=train_set.paths, seed=recipe.seed)
    required_methods = (
        ("__iter__", "__len__", "load_state_dict") if processes.size == 1 else ("set_epoch", "classes_per_batch")
    )
    if lacking := [name for name in required_methods if not hasattr(sampler, name)]:
        raise RecipeError(
            f"sampler: {recipe.sampler.name} makes {sampler!r}, without {', '.join(lacking)}",
            expected="lists of indices, their number, and load_state_dict({'epoch': e, 'batch': b}), to resume there"
            + ("" if processes.size == 1 else "; for several processes a subclass of a sampler of hiertree"),
        )
    if processes.size == 1:
        return cast(PlannedBatches, sampler)
    return DistributedBatches(sampler, rank=processes.rank, world_size=processes.size)
