"""Finished runs of training, read back from their folders."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from hiertree.arrays import as_embeddings, as_paths
from hiertree.errors import CheckpointError, OptionError
from hiertree.pipelines.training.history import read_history
from hiertree.pipelines.training.reading import load_recipe
from hiertree.pipelines.training.recipe import Recipe
from hiertree.pipelines.training.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """What a run left behind.

    Attributes:
        folder: where it lies.
        recipe: the experiment.
        recipe_text: the same as YAML, every setting included.
        results: the content of ``metrics.json``: metrics, queries, skipped, convention, and how long it was trained.
        history: one row an epoch.
        manifest: versions, time and hashes.
        embeddings: (n, d) of the test split.
        paths: (n, L) of the test split, coarse → fine.
        per_query: one row a query, one column a metric; NaN where a query has no positive.
    """

    folder: Path
    recipe: Recipe
    recipe_text: str
    results: dict[str, Any]
    history: list[dict[str, Any]]
    manifest: dict[str, Any]
    embeddings: NDArray[Any]
    paths: NDArray[np.int64]
    per_query: pd.DataFrame

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries that have it."""
        return dict(self.results["metrics"])


def read_run(path: str | os.PathLike[str]) -> FinishedRun:
    """Read the folder of a finished run.

    Raises:
        OptionError: it is no such folder, or the run is not finished.
        CheckpointError: a file of it is missing or damaged.
    """
    import pandas as pd

    folder = RunFolder(Path(path))
    results = folder.finished()
    if results is None:
        raise OptionError(
            f"run={path}",
            expected="the folder of a finished run, with metrics.json",
            remedy="hiertree train finishes it",
        )
    try:
        with (folder.path / "embeddings.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            embeddings, paths = as_embeddings(arrays["embeddings"]), as_paths(arrays["paths"])
        return FinishedRun(
            folder=folder.path,
            recipe=load_recipe(folder.recipe),
            recipe_text=folder.recipe.read_text(encoding="utf-8"),
            results=results,
            history=read_history(folder.history),
            manifest=json.loads((folder.path / "manifest.json").read_text(encoding="utf-8")),
            embeddings=embeddings,
            paths=paths,
            per_query=pd.read_parquet(folder.path / "per_query.parquet"),
        )
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise CheckpointError(f"{path} ({error})", expected="the whole folder of a finished run") from error


def read_runs(paths: Sequence[str | os.PathLike[str]]) -> dict[str, FinishedRun]:
    """Read runs that were measured on the same images, by the names that tables call them.

    A run is called by its loss where that tells the runs apart, or else by its recipe, or else by its folder.

    Raises:
        OptionError: no run at all, or runs measured on different images.
    """
    runs = [read_run(path) for path in paths]
    if not runs:
        raise OptionError("no run", expected="the folders of one or more finished runs")
    for run in runs[1:]:
        if not np.array_equal(run.paths, runs[0].paths):
            raise OptionError(
                f"{run.folder} and {runs[0].folder} were measured on different images", expected="runs on the same data"
            )
    candidates = (
        [run.recipe.loss.name for run in runs],
        [run.recipe.name for run in runs],
        [str(run.folder) for run in runs],
    )
    names = next((names for names in candidates if max(Counter(names).values()) == 1), None)
    if names is None:
        raise OptionError("a run given twice", expected="each run once")
    return dict(zip(names, runs, strict=True))
