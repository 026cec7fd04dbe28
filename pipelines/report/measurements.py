"""What a report shows of a model: its metrics, queries and rankings, most often read from the folder of a run."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from hiertree.arrays import as_embeddings, as_paths
from hiertree.errors import CheckpointError, OptionError

from ..stored_embeddings.embeddings_files import read_embeddings
from ..training.recipe.built_in import PublishedRow, published_rows
from ..training.recipe.reading import load_recipe
from ..training.recipe.schema import Recipe
from ..training.run.history import read_history

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from ..stored_embeddings.embeddings_files import LabeledEmbeddings


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measurement of one model.

    Attributes:
        results: metrics, skipped and convention, as ``metrics.json`` has them.
        labeled: the embeddings and paths of the queries, and of their gallery if they have one.
        per_query: a row for each query, a column for each metric; NaN where a query has no positive.
        history: a row for each epoch of its training; empty where that is unknown.
        recipe_text: the experiment as YAML, every setting included; empty if there was none.
        command: that gives these numbers again.
        manifest: versions, time and hashes.
    """

    results: dict[str, Any]
    labeled: LabeledEmbeddings
    per_query: pd.DataFrame
    history: Sequence[Mapping[str, Any]] = ()
    recipe_text: str = ""
    command: str
    manifest: dict[str, Any]

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries that have it."""
        return dict(self.results["metrics"])

    def published(self) -> list[PublishedRow]:
        """What papers report for it; nothing unless it is a run of a built-in recipe."""
        return []

    @property
    def vectors(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Vectors of the queries and of the gallery, by whose cosines the gallery was ranked."""
        query, gallery = self.labeled.embeddings, self.labeled.gallery_embeddings
        gallery = query if gallery is None else gallery
        if "Hamming" not in self.results["convention"]["scores"]:
            return query, gallery
        return np.where(query > 0, 1.0, -1.0), np.where(gallery > 0, 1.0, -1.0)

    def left_out(self, query: int) -> NDArray[np.int64]:
        """Rows of the gallery that the list of a query leaves out: itself, whatever has its id, its junk."""
        found = self.labeled
        rows = [np.array([query])] if found.gallery_embeddings is None else []
        if found.ids is not None:
            others = found.ids if found.gallery_ids is None else found.gallery_ids
            rows.append(np.flatnonzero(np.asarray(others) == found.ids[query]))
        if found.junk is not None:
            rows.append(np.asarray(found.junk[query]))
        return np.unique(np.concatenate(rows)).astype(np.int64) if rows else np.array([], dtype=np.int64)

    def same_items(self, other: Measurement) -> bool:
        """Whether both were measured on the same queries and gallery, judged by their paths."""
        return self.has_paths(other.labeled.paths, other.labeled.gallery_paths)

    def has_paths(self, paths: NDArray[Any], gallery_paths: NDArray[Any] | None) -> bool:
        """Whether these are the paths of its queries, and of its separate gallery if it has one."""
        own = self.labeled
        if (own.gallery_paths is None) != (gallery_paths is None):
            return False
        same = np.array_equal(own.paths, paths)
        return same and (gallery_paths is None or np.array_equal(np.asarray(own.gallery_paths), gallery_paths))


@dataclass(frozen=True, kw_only=True)
class FinishedRun(Measurement):
    """A finished run of training: also its folder and its recipe."""

    folder: Path
    recipe: Recipe

    def published(self) -> list[PublishedRow]:
        """The rows of papers for its recipe, by the recipe's name."""
        return published_rows(self.recipe.name)


def read_run(path: str | os.PathLike[str]) -> FinishedRun:
    """Read the folder of a finished run; an OptionError if it is none, a CheckpointError if a file is damaged."""
    import pandas as pd

    from ..training.run.run_folder import RunFolder

    folder = RunFolder(Path(path))
    results = folder.finished()
    if results is None:
        inside = sorted(file.parent for file in folder.path.glob("*/metrics.json"))
        remedy = f"name a run in it, such as {inside[0]}" if inside else "hiertree train finishes it"
        raise OptionError(f"run={path}", expected="the folder of a finished run, with metrics.json", remedy=remedy)
    try:
        labeled = read_embeddings(folder.path / "embeddings.npz")
        as_embeddings(labeled.embeddings)
        as_paths(labeled.paths)
        return FinishedRun(
            folder=folder.path,
            recipe=load_recipe(folder.recipe),
            recipe_text=folder.recipe.read_text(encoding="utf-8"),
            results=results,
            history=read_history(folder.history),
            manifest=json.loads((folder.path / "manifest.json").read_text(encoding="utf-8")),
            labeled=labeled,
            command=shlex.join(["hiertree", "train", str(folder.recipe), "--out", f"{folder.path}-again"]),
            per_query=pd.read_parquet(folder.path / "per_query.parquet"),
        )
    except (OSError, KeyError, TypeError, ValueError, BadZipFile, RecursionError) as error:
        raise CheckpointError(f"{path} ({error})", expected="the whole folder of a finished run") from error


def read_runs(paths: Sequence[str | os.PathLike[str]], names: Sequence[str] = ()) -> dict[str, FinishedRun]:
    """Read runs that were measured on the same images, by the names that the page gives them.

    Unless names are given, a run is called by its loss where that tells the runs apart, or else by its recipe, or else
    by its folder.
    """
    runs = [read_run(path) for path in paths]
    if not runs:
        raise OptionError("no run", expected="the folders of one or more finished runs")
    for run in runs[1:]:
        if not run.same_items(runs[0]):
            raise OptionError(
                f"{run.folder} and {runs[0].folder} were measured on different images", expected="runs on the same data"
            )
    candidates = (
        *([list(names)] if names else []),
        [run.recipe.loss.name for run in runs],
        [run.recipe.name for run in runs],
        [str(run.folder) for run in runs],
    )
    chosen = next((found for found in candidates if max(Counter(found).values()) == 1), None)
    if chosen is None:
        raise OptionError("a run given twice", expected="each run once")
    return dict(zip(chosen, runs, strict=True))
