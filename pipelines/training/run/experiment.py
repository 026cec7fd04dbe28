"""Train one recipe: the whole experiment, from the images to the metrics, resumed if it was interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hiertree.datasets import ImageDataset
from hiertree.io.files import locked_folder, remove_abandoned_lock

from ..data.splits import check_apart, describe_validation, load_learning_splits, load_split
from ..distributed.group import (
    Launch,
    StopRequest,
    build_fabric,
    detect_launch,
    ending_together,
    number_of_devices,
    run_processes,
)
from ..distributed.processes import Processes
from ..recipe.reading import check_recipe
from ..recipe.settings import Recipe
from .run_folder import RunFolder
from .training_run import TrainingRun


def doubtful_settings(recipe: Recipe, train_set: ImageDataset) -> Iterator[str]:
    """Describe what looks like a mistake: settings that are allowed, but rarely meant."""
    epochs, warmup = recipe.training.epochs, recipe.schedule.warmup_epochs
    if 0 < epochs <= warmup:
        reached = f"rises to {epochs / warmup:.0%} of optimizer.lr at most" if warmup > epochs else "only rises"
        yield f"schedule.warmup_epochs={warmup:g} with training.epochs={epochs}: the learning rate {reached}"
    if recipe.sampler.options().get("images_per_class") == 1:
        yield (
            "sampler.images_per_class=1: no batch holds two images of a class, so only coarser levels, a memory or "
            "proxies have positives"
        )
    tree = train_set.tree
    levels = range(-min(2, tree.num_levels), 0)
    whole_paths = [path for path in tree.paths(tree.leaves).tolist() if path[-1] >= 0]
    labels = [{tree.labels_of(path)[level] for path in whole_paths} for level in levels]
    if tree.num_levels > 1 and tree.level_sizes[-2] == tree.level_sizes[-1] and len(labels[0]) > len(labels[1]):
        coarser, finest = tree.level_names[-2:]
        yield (
            f"level {coarser} ({len(labels[0])} labels) stands before {finest} ({len(labels[1])}) and determines it: "
            "levels are given coarse → fine, these look reversed"
        )


@dataclass(frozen=True)
class TrainedRun:
    """A finished run."""

    folder: Path  # of its files
    metrics: dict[str, float]  # the mean of each metric over the queries of the test split, after the last epoch
    already_finished: bool  # nothing was trained, because the run had been finished before
    best_metrics: dict[str, float] | None = None  # of the network in best/, which a validation picked
    best: dict[str, float] | None = None  # epoch, step and value of the best evaluation, if there was one
    is_first: bool = True  # whether this process, of those that a launcher started, should report

    @classmethod
    def from_content(
        cls, folder: RunFolder, result: Mapping[str, Any], *, already_finished: bool = False, is_first: bool = True
    ) -> TrainedRun:
        """The run with this content of ``metrics.json``."""
        best_metrics, best = result.get("best_metrics"), result.get("best")
        return cls(folder.path, result["metrics"], already_finished, best_metrics, best, is_first)


def train(recipe: Recipe, out: str | os.PathLike[str], *, fresh: bool = False) -> TrainedRun:
    """Run an experiment, or what is left of it.

    An interrupted run resumes from its newest whole checkpoint. On a CPU the same recipe always gives the same weights,
    interrupted or not. A finished run is not repeated; it goes on if the recipe has more epochs now and its schedule
    does not depend on their number.

    With ``training.devices`` above 1, this starts that many processes and waits for them; a script that calls it then
    needs the usual ``if __name__ == "__main__":``. A process that torchrun, ``fabric run`` or SLURM started joins the
    others of its launch: the first one writes files and raises errors, the others exit with status 0.

    Args:
        recipe: the experiment, from :func:`hiertree.pipelines.training.recipe.reading.load_recipe`.
        out: folder of the run; see :class:`hiertree.pipelines.training.run.run_folder.RunFolder` for its files.
        fresh: remove an earlier run in that folder first.

    Raises:
        DeviceError: a GPU asked for is absent; nothing has been read or written by then.
        RecipeError: the folder holds a run of another recipe, or a setting turns out to be impossible.
        CheckpointError: all checkpoints are damaged.
        TrainingError: the loss or its gradient is no longer finite; ``failed_batch.npz`` holds the batch.
        HiertreeError: something is wrong with the images.
        SystemExit: the run obeyed SIGTERM or SIGHUP; status 143.

    >>> import tempfile
    >>> from hiertree.pipelines.training.recipe.reading import load_recipe
    >>> tiny = ["data.families=2", "data.kinds=2", "data.instances=2", "data.images=4", "training.epochs=1",
    ...         "sampler.batch_size=8", "sampler.images_per_class=2", "model.width=4"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train(load_recipe("synthetic-happier", tiny), folder)
    >>> 0 < run.metrics["H-AP"] <= 1
    True
    """
    folder, launch = RunFolder(Path(out)), detect_launch()
    devices = number_of_devices(recipe.training) if launch is None else 1
    if devices == 1:
        return _train_in_this_process(recipe, folder, fresh=fresh, launch=launch)
    if result := _finished(recipe, folder, fresh=fresh):
        return TrainedRun.from_content(folder, result, already_finished=True)
    run_processes(_train_as_one_of_several, recipe.as_dict(), os.fspath(out), fresh, count=devices)
    result = folder.finished(recipe)
    assert result is not None  # the first process has written it
    return TrainedRun.from_content(folder, result)


def _train_as_one_of_several(recipe: Mapping[str, Any], out: str, fresh: bool) -> None:
    """The entry point of each started process; settings arrive as plain values, since components do not pickle."""
    train(check_recipe(recipe, imports=None), out, fresh=fresh)


def _train_in_this_process(recipe: Recipe, folder: RunFolder, *, fresh: bool, launch: Launch | None) -> TrainedRun:
    """Read the images, check everything, claim the folder, and train; nothing if the run is finished."""
    fabric = build_fabric(recipe.training, launch)
    processes = Processes(None if launch is None else fabric)
    with ExitStack() as stack:
        stack.enter_context(ending_together(processes))
        result = processes.from_first(lambda: _finished(recipe, folder, fresh=fresh))
        if result is not None:
            return TrainedRun.from_content(folder, result, already_finished=True, is_first=processes.is_first)
        stop = StopRequest(processes)
        if processes.size == 1:  # else the others would wait for one that ends
            stack.enter_context(stop.listening(before_steps=True))
        processes.from_first(lambda: stack.enter_context(locked_folder(folder.path)))
        with processes.agreeing():
            train_set, validation_set = load_learning_splits(recipe)
            test_set = load_split(recipe, "test")
            check_apart(train_set, test_set)
        if fresh:
            processes.from_first(folder.clear)
        run = TrainingRun(recipe, folder, fabric, (train_set, validation_set, test_set), processes, stop)
        processes.from_first(lambda: folder.claim(recipe, train_set, test_set))
        if processes.is_first:
            if validation_set is not None:
                print(describe_validation(train_set, validation_set, select=run.selection.metric), file=sys.stderr)
            for warning in doubtful_settings(recipe, train_set):
                print(f"warning: {warning}", file=sys.stderr)
        return TrainedRun.from_content(folder, run.finish(), is_first=processes.is_first)


def _finished(recipe: Recipe, folder: RunFolder, *, fresh: bool) -> dict[str, Any] | None:
    """The content of ``metrics.json`` if the run is finished and whole."""
    folder.require_usable(recipe, fresh=fresh)
    result = None if fresh else folder.finished(recipe)
    if result is not None:
        folder.require_whole()
        remove_abandoned_lock(folder.path)
    return result
