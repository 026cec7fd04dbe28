"""Train one recipe: the whole experiment, from the images to the metrics, resumed where it was left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hiertree.pipelines.training.recipe import Recipe


@dataclass(frozen=True)
class Trained:
    """A finished run.

    Attributes:
        folder: where its files are.
        metrics: the mean of each metric over the queries of the test split, after the last epoch.
        already_finished: nothing was trained, because the run had been finished before.
    """

    folder: Path
    metrics: dict[str, float]
    already_finished: bool


def train(recipe: Recipe, out: str | os.PathLike[str], *, fresh: bool = False) -> Trained:
    """Run an experiment, or what is left of it.

    A run that was interrupted goes on from its newest checkpoint and ends, on a CPU, with the same weights to the bit.
    A finished one is not run again. On a CPU the same recipe gives the same curve.

    Args:
        recipe: the experiment, from :func:`hiertree.pipelines.training.reading.load_recipe`.
        out: folder of the run; see :class:`hiertree.pipelines.training.run_folder.RunFolder` for its files.
        fresh: remove an earlier run in that folder first.

    Raises:
        DeviceError: the GPU asked for is absent; nothing has been read or written by then.
        RecipeError: the folder holds a run of another recipe, or a setting turns out to be impossible.
        CheckpointError: the newest checkpoint is damaged.
        TrainingError: the loss or its gradient is no longer finite; the batch is kept in ``failed_batch.npz``.
        HiertreeError: whatever is wrong with the images.

    >>> import tempfile
    >>> from hiertree.pipelines.training.reading import load_recipe
    >>> tiny = ["data.families=2", "data.kinds=2", "data.instances=2", "data.images=4", "training.epochs=1",
    ...         "sampler.batch_size=8", "sampler.images_per_class=2", "model.width=4"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trained = train(load_recipe("synthetic-happier", tiny), folder)
    >>> 0 < trained.metrics["H-AP"] <= 1
    True
    """
    from hiertree.pipelines.training.data import load_split
    from hiertree.pipelines.training.learner import build_fabric
    from hiertree.pipelines.training.loop import Run
    from hiertree.pipelines.training.run_folder import RunFolder

    fabric = build_fabric(recipe.training)
    folder = RunFolder(Path(out))
    folder.require_usable(recipe, fresh=fresh)
    if not fresh and (content := folder.finished()):
        return Trained(folder.path, content["metrics"], already_finished=True)
    train_set, test_set = load_split(recipe, "train"), load_split(recipe, "test")
    if fresh:
        folder.clear()
    run = Run(recipe, folder, fabric, train_set=train_set, test_set=test_set)
    folder.claim(recipe)
    return Trained(folder.path, run.finish()["metrics"], already_finished=False)
