"""What ``hiertree report`` is given, read: runs, a comparison of runs, or embeddings with their labels."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import HiertreeError, OptionError

from .runs import FinishedRun, Measurement, read_runs
from .scene import Scene, scene_of, scene_of_labels

if TYPE_CHECKING:
    from hiertree.datasets import ImageSource
    from hiertree.metrics import ProtocolName

    from ..evaluation.retrieval_files import Retrieval

MOST_RUNS = 8


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What stands beside embeddings: see :func:`hiertree.pipelines.evaluation.evaluating.evaluate_file` for most of it.

    Attributes:
        labels: a table of labels.
        levels: its columns, coarse → fine.
        gallery: embeddings of a separate gallery.
        gallery_labels: their table.
        ids: the column of the images' ids.
        images: the folder in which the ids are the names of image files.
        protocol: whose metrics are computed.
    """

    labels: Path | None = None
    levels: tuple[str, ...] = ()
    gallery: Path | None = None
    gallery_labels: Path | None = None
    ids: str | None = None
    images: Path | None = None
    protocol: ProtocolName | None = None


def read_sources(
    sources: Sequence[str | os.PathLike[str]], *, overrides: Sequence[str] = (), beside: Beside | None = None
) -> tuple[dict[str, Measurement], Scene]:
    """Measurements by their names, and what they were made on.

    Args:
        sources: folders of runs or comparisons, or one file of embeddings.
        overrides: ``"data.root=PATH"``, where the images of a run are elsewhere now.
        beside: what belongs to the file.

    Raises:
        OptionError: a folder of neither kind, too many runs, files and folders together, options of the other kind.
        CheckpointError: the folder of a run is damaged.
        HiertreeError: whatever is wrong with the file.
    """
    paths = [Path(source) for source in sources]
    if any(path.is_file() for path in paths):
        if len(paths) > 1 or overrides:
            raise OptionError("a file beside other sources or --set", expected="one file of embeddings alone")
        return _evaluated(paths[0], beside or Beside())
    if beside is not None and beside != Beside():
        raise OptionError("labels, a gallery or images beside folders", expected="these beside embeddings only")
    runs = _found_runs(paths)
    return dict(runs), _scene_of_runs(next(iter(runs.values())), overrides)


def _found_runs(paths: Sequence[Path]) -> dict[str, FinishedRun]:
    """The runs in the folders; of a comparison the first seed of each row, under the row's name."""
    folders: dict[Path, str] = {}
    for path in paths:
        folders |= _rows(path) if is_comparison(path) else {path: ""}
    if len(folders) > MOST_RUNS:
        raise OptionError(
            f"{len(folders)} runs", expected=f"at most {MOST_RUNS} on a page", remedy="name their folders one by one"
        )
    return read_runs(list(folders), names=list(folders.values()) if all(folders.values()) else [])


def is_comparison(folder: Path) -> bool:
    """Whether ``hiertree compare`` made it."""
    return (folder / "comparison.csv").is_file()


def _rows(comparison: Path) -> dict[Path, str]:
    """The first finished seed of each row of a comparison, and the row's name."""
    found = sorted((path.parent for path in comparison.glob("**/seed-*/metrics.json")), key=_by_seed)
    if not found:
        raise OptionError(f"{comparison} without a finished run", expected="what hiertree compare has finished")
    first = {row: next(iter(seeds)) for row, seeds in groupby(found, key=lambda folder: folder.parent)}
    return {folder: row.relative_to(comparison).as_posix() for row, folder in first.items()}


def _by_seed(folder: Path) -> tuple[str, int]:
    number = re.search(r"\d+$", folder.name)
    return str(folder.parent), int(number[0]) if number else 0


def _scene_of_runs(run: FinishedRun, overrides: Sequence[str]) -> Scene:
    """The data of the run's recipe; its labels alone where they are not there, or are others now."""
    from ..training.data.loading import load_split
    from ..training.recipe.reading import load_recipe

    recipe = load_recipe(run.folder / "recipe.yaml", overrides)
    try:
        dataset = load_split(recipe, "test")
        scene = scene_of(dataset)
        require_measured_on(scene, run, f"{dataset.name} ({dataset.split})")
    except (HiertreeError, OSError) as error:
        names = [f"level {level}" for level in range(1, np.asarray(run.retrieval.paths).shape[-1] + 1)]
        return scene_of_labels(*_columns(run.retrieval), level_names=names, without=str(error))
    return scene


def require_measured_on(scene: Scene, run: FinishedRun, what: str) -> None:
    """Refuse another data set than the run's.

    Raises:
        OptionError: other paths.
    """
    found = run.retrieval
    same = np.array_equal(scene.query_paths, found.paths) and scene.separate == (found.gallery_paths is not None)
    if not same or (scene.separate and not np.array_equal(scene.gallery_paths, np.asarray(found.gallery_paths))):
        raise OptionError(
            f"the {len(scene.query_paths)} queries of {what}",
            expected=f"the {len(found.paths)} that {run.folder} was measured on, with the same paths",
        )


def _columns(retrieval: Retrieval) -> tuple[list[Any], list[Any] | None]:
    """The levels of queries and gallery."""

    def columns(paths: Any) -> list[Any]:
        return [column.tolist() for column in np.asarray(paths).reshape(len(paths), -1).T]

    gallery = retrieval.gallery_paths
    return columns(retrieval.paths), None if gallery is None else columns(gallery)


def _evaluated(file: Path, beside: Beside) -> tuple[dict[str, Measurement], Scene]:
    from hiertree.io.provenance import manifest
    from hiertree.metrics import evaluate

    from ..evaluation.retrieval_files import read_retrieval

    given: dict[str, Any] = {name: getattr(beside, name) for name in ("labels", "gallery", "gallery_labels", "ids")}
    retrieval = read_retrieval(file, levels=beside.levels, **given)
    if retrieval.distractors is not None:
        raise OptionError(f"distractors in {file.name}", expected="a gallery of labelled items")
    result = evaluate(
        *retrieval[:4],
        query_ids=retrieval.ids,
        gallery_ids=retrieval.gallery_ids,
        junk=retrieval.junk,
        protocol=beside.protocol,
        progress=True,
    )
    content = result.as_dict()
    inputs = [file, *(path for path in given.values() if isinstance(path, Path))]
    measurement = Measurement(
        results={**content, "metrics": content["summary"]},
        retrieval=retrieval,
        per_query=result.per_query().reset_index(drop=True),
        command=shlex.join(["hiertree", "evaluate", str(file), *_options(beside)]),
        manifest=manifest(command="hiertree report", parameters={"levels": list(beside.levels)}, inputs=inputs),
    )
    return {file.stem: measurement}, _scene_of_file(retrieval, beside)


def _options(beside: Beside) -> list[str]:
    """What ``hiertree evaluate`` is to be told."""
    given = {
        "--labels": beside.labels,
        "--levels": ",".join(beside.levels),
        "--gallery": beside.gallery,
        "--gallery-labels": beside.gallery_labels,
        "--ids": beside.ids,
        "--protocol": beside.protocol,
    }
    return [word for option, value in given.items() if value for word in (option, str(value))]


def _scene_of_file(retrieval: Retrieval, beside: Beside) -> Scene:
    """Labels from the tables, where there are, and pictures from the folder that the ids name files of."""
    names, columns = _labels(retrieval, beside)
    images = None if beside.images is None else _images(retrieval, beside.images)
    without = "" if images else "No folder of images was given."
    return scene_of_labels(*columns, level_names=names, images=images, without=without)


def _labels(retrieval: Retrieval, beside: Beside) -> tuple[list[str], tuple[list[Any], list[Any] | None]]:
    if beside.labels is None:
        columns = _columns(retrieval)
        return [f"level {level + 1}" for level in range(len(columns[0]))], columns
    from hiertree.io.tables import read_table

    table = read_table(beside.labels)
    names = list(beside.levels) or [name for name in table.columns if name != beside.ids]
    queries = [table[name].tolist() for name in names]
    if beside.gallery_labels is None:
        return names, (queries, None)
    other = read_table(beside.gallery_labels, required=names)
    return names, (queries, [other[name].tolist() for name in names])


def _images(retrieval: Retrieval, folder: Path) -> ImageSource:
    """The files that the ids name."""
    from hiertree.datasets.readers.image_names import inside
    from hiertree.datasets.readers.images import FileImages

    if retrieval.ids is None:
        raise OptionError(f"images in {folder} without ids", expected="the column of the files' names (--ids)")
    names = [*map(str, retrieval.ids), *map(str, () if retrieval.gallery_ids is None else retrieval.gallery_ids)]
    return FileImages(folder, inside(names, lambda row: f"id {row + 1}"))


def values_of(runs: Mapping[str, Measurement], metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(Q, R) the metric of every query, a column a run; NaN where it has none."""
    return np.stack([run.per_query[metric].to_numpy(dtype=np.float64) for run in runs.values()], axis=1)
