"""Train one recipe: the whole experiment, from the images to the metrics, resumed where it was left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..recipe.schema import Recipe

if TYPE_CHECKING:
    from ..distributed.launching import Started
    from .run_folder import RunFolder


@dataclass(frozen=True)
class Trained:
    """A finished run.

    Attributes:
        folder: where its files are.
        metrics: the mean of each metric over the queries of the test split, after the last epoch.
        already_finished: nothing was trained, because the run had been finished before.
        is_first: whether this process, of those that a launcher started, is the one that should speak of it.
    """

    folder: Path
    metrics: dict[str, float]
    already_finished: bool
    is_first: bool = True


def train(recipe: Recipe, out: str | os.PathLike[str], *, fresh: bool = False) -> Trained:
    """Run an experiment, or what is left of it.

    A run that was interrupted goes on from its newest checkpoint and ends, on a CPU, with the same weights to the bit.
    A finished one is not run again. On a CPU the same recipe gives the same curve.

    With ``training.devices`` above 1, processes are started and waited for; a script that calls this then needs the
    usual ``if __name__ == "__main__":``. A process that torchrun, ``fabric run`` or SLURM started takes its part in
    theirs: the first one writes, and raises what any of them met, while the others leave with status 0.

    Args:
        recipe: the experiment, from :func:`hiertree.pipelines.training.recipe.reading.load_recipe`.
        out: folder of the run; see :class:`hiertree.pipelines.training.run.run_folder.RunFolder` for its files.
        fresh: remove an earlier run in that folder first.

    Raises:
        DeviceError: a GPU asked for is absent; nothing has been read or written by then.
        RecipeError: the folder holds a run of another recipe, or a setting turns out to be impossible.
        CheckpointError: the newest checkpoint is damaged.
        TrainingError: the loss or its gradient is no longer finite; the batch is kept in ``failed_batch.npz``.
        HiertreeError: whatever is wrong with the images.
        SystemExit: SIGTERM has been obeyed, with status 0.

    >>> import tempfile
    >>> from hiertree.pipelines.training.recipe.reading import load_recipe
    >>> tiny = ["data.families=2", "data.kinds=2", "data.instances=2", "data.images=4", "training.epochs=1",
    ...         "sampler.batch_size=8", "sampler.images_per_class=2", "model.width=4"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trained = train(load_recipe("synthetic-happier", tiny), folder)
    >>> 0 < trained.metrics["H-AP"] <= 1
    True
    """
    from ..distributed.launching import number_of_devices, started
    from ..distributed.supervising import run_processes
    from .run_folder import RunFolder

    folder, group = RunFolder(Path(out)), started()
    devices = number_of_devices(recipe.training) if group is None else 1
    if devices == 1:
        return _take_part(recipe, folder, fresh=fresh, group=group)
    if content := _finished(recipe, folder, fresh=fresh):
        return Trained(folder.path, content["metrics"], already_finished=True)
    run_processes(recipe, folder.path, fresh=fresh, devices=devices)
    if content := folder.finished():
        return Trained(folder.path, content["metrics"], already_finished=False)
    raise SystemExit(0)  # its processes obeyed SIGTERM


def _take_part(recipe: Recipe, folder: RunFolder, *, fresh: bool, group: Started | None) -> Trained:
    """The run, in a process alone or in one of several."""
    from ..data.loading import load_split
    from ..distributed.processes import Processes
    from .learner import build_fabric
    from .loop import Run

    fabric = build_fabric(recipe.training, group)
    processes = Processes(None if group is None else fabric)
    content = processes.first_makes(lambda: _finished(recipe, folder, fresh=fresh))
    if content is not None:
        return Trained(folder.path, content["metrics"], already_finished=True, is_first=processes.is_first)
    with processes.agreeing():
        train_set, test_set = load_split(recipe, "train"), load_split(recipe, "test")
    if fresh:
        processes.first_makes(folder.clear)
    run = Run(recipe, folder, fabric, train_set=train_set, test_set=test_set, processes=processes)
    processes.first_makes(lambda: folder.claim(recipe))
    metrics = run.finish()["metrics"]
    return Trained(folder.path, metrics, already_finished=False, is_first=processes.is_first)


def _finished(recipe: Recipe, folder: RunFolder, *, fresh: bool) -> dict[str, Any] | None:
    """What a finished run of this recipe has found, if this is its folder; None if there is something to do."""
    folder.require_usable(recipe, fresh=fresh)
    return None if fresh else folder.finished()
