"""What ``hiertree report`` is given: folders of runs, comparisons of runs, or a file of embeddings with its labels."""

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

from hiertree.datasets.readers.images import FileImages, inside
from hiertree.errors import HiertreeError, OptionError
from hiertree.io.provenance import manifest
from hiertree.metrics import evaluate

from ..stored_embeddings.embeddings_files import naming_files, read_embeddings
from ..training.data.splits import load_split
from ..training.recipe.reading import load_recipe
from .measurements import FinishedRun, Measurement, read_runs
from .queries_and_gallery import QueriesAndGallery

if TYPE_CHECKING:
    from hiertree.datasets import ImageSource
    from hiertree.metrics import ProtocolName

    from ..stored_embeddings.embeddings_files import LabeledEmbeddings

MOST_RUNS = 8


@dataclass(frozen=True, kw_only=True)
class EmbeddingsOptions:
    """What belongs to a file of embeddings, as ``hiertree evaluate`` takes it.

    Attributes:
        labels: a table of labels.
        levels: its columns, coarse → fine.
        gallery: embeddings of a separate gallery.
        gallery_labels: the gallery's table of labels.
        ids: the column of the images' ids.
        images: the folder in which the ids name image files.
        protocol: the benchmark whose metrics are computed.
    """

    labels: Path | None = None
    levels: tuple[str, ...] = ()
    gallery: Path | None = None
    gallery_labels: Path | None = None
    ids: str | None = None
    images: Path | None = None
    protocol: ProtocolName | None = None


def read_sources(
    sources: Sequence[str | os.PathLike[str]],
    *,
    overrides: Sequence[str] = (),
    options: EmbeddingsOptions | None = None,
) -> tuple[dict[str, Measurement], QueriesAndGallery]:
    """Read the models' measurements, by name, and the queries and gallery that they were measured on."""
    paths = [Path(source) for source in sources]
    if any(path.is_file() for path in paths):
        if len(paths) > 1 or overrides:
            raise OptionError("a file with other sources or --set", expected="one file of embeddings alone")
        return _measured_file(paths[0], options or EmbeddingsOptions())
    if options is not None and options != EmbeddingsOptions():
        raise OptionError("labels, a gallery or images with folders", expected="these with a file of embeddings only")
    runs = _runs_in(paths)
    return dict(runs), _data_of_run(next(iter(runs.values())), overrides)


def _runs_in(paths: Sequence[Path]) -> dict[str, FinishedRun]:
    """The runs in the folders; of a comparison the first seed of each row, under the name of the row."""
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
        raise OptionError(f"{comparison} without a finished run", expected="a finished run of hiertree compare")
    first = {row: next(iter(seeds)) for row, seeds in groupby(found, key=lambda folder: folder.parent)}
    return {_compared(folder): row.relative_to(comparison).as_posix() for row, folder in first.items()}


def _compared(run: Path) -> Path:
    """The folder of the network that a comparison compares: the one that a validation picked, if there was one."""
    return run / "best" if (run / "best").is_dir() else run


def _by_seed(folder: Path) -> tuple[str, int]:
    number = re.search(r"\d+$", folder.name)
    return str(folder.parent), int(number[0]) if number else 0


def _data_of_run(run: FinishedRun, overrides: Sequence[str]) -> QueriesAndGallery:
    """The data set of the run's recipe; the paths alone where it is missing, or has other images now."""
    recipe = load_recipe(run.folder / "recipe.yaml", overrides)
    try:
        dataset = load_split(recipe, "test")
        data = QueriesAndGallery.from_dataset(dataset)
        require_measured_on(data, run, f"{dataset.name} ({dataset.split})")
    except (HiertreeError, OSError) as error:
        return QueriesAndGallery.from_labels(*_columns(run.labeled), without=str(error))
    return data


def require_measured_on(data: QueriesAndGallery, run: FinishedRun, what: str) -> None:
    """Refuse a data set that is not the run's."""
    if not run.has_paths(data.query_paths, data.gallery_paths if data.separate else None):
        raise OptionError(
            f"the {len(data.query_paths)} queries of {what}",
            expected=f"the {len(run.labeled.paths)} that {run.folder} was measured on, with the same paths",
        )


def _measured_file(file: Path, options: EmbeddingsOptions) -> tuple[dict[str, Measurement], QueriesAndGallery]:
    labeled = read_embeddings(
        file,
        labels=options.labels,
        levels=options.levels,
        gallery=options.gallery,
        gallery_labels=options.gallery_labels,
        ids=options.ids,
    )
    if labeled.distractors is not None:
        raise OptionError(f"distractors in {file.name}", expected="a gallery of labeled items")
    data = _data_of_file(labeled, options.images)
    with naming_files(file, options.gallery):
        result = evaluate(*labeled[:4], progress=True, protocol=options.protocol, **labeled.masks)
    content = result.as_dict()
    inputs = [file, *(path for path in (options.labels, options.gallery, options.gallery_labels) if path)]
    measurement = Measurement(
        results={**content, "metrics": content["summary"]},
        labeled=labeled,
        per_query=result.per_query().reset_index(drop=True),
        command=shlex.join(["hiertree", "evaluate", str(file), *_evaluate_options(options)]),
        manifest=manifest(command="hiertree report", parameters={"levels": list(options.levels)}, inputs=inputs),
    )
    return {file.stem: measurement}, data


def _evaluate_options(options: EmbeddingsOptions) -> list[str]:
    """The options of ``hiertree evaluate`` that give the same numbers."""
    given = {
        "--labels": options.labels,
        "--levels": ",".join(options.levels),
        "--gallery": options.gallery,
        "--gallery-labels": options.gallery_labels,
        "--ids": options.ids,
        "--protocol": options.protocol,
    }
    return [word for option, value in given.items() if value for word in (option, str(value))]


def _data_of_file(labeled: LabeledEmbeddings, folder: Path | None) -> QueriesAndGallery:
    """The labels of the tables or, without any, the numbers of the paths; pictures from a folder of image files."""
    images = None if folder is None else _images(labeled, folder)
    without = "" if images else "No folder of images was given."
    if labeled.tree is not None:
        return QueriesAndGallery.from_paths(
            labeled.tree, labeled.paths, labeled.gallery_paths, images=images, without=without
        )
    return QueriesAndGallery.from_labels(*_columns(labeled), images=images, without=without)


def _columns(labeled: LabeledEmbeddings) -> tuple[list[Any], list[Any] | None]:
    """The levels of queries and gallery."""

    def columns(paths: Any) -> list[Any]:
        return [column.tolist() for column in np.asarray(paths).reshape(len(paths), -1).T]

    gallery = labeled.gallery_paths
    return columns(labeled.paths), None if gallery is None else columns(gallery)


def _images(labeled: LabeledEmbeddings, folder: Path) -> ImageSource:
    """The files that the ids name."""
    if labeled.ids is None:
        raise OptionError(f"images in {folder} without ids", expected="the column of the files' names (--ids)")
    names = [*map(str, labeled.ids), *map(str, () if labeled.gallery_ids is None else labeled.gallery_ids)]
    return FileImages(folder, inside(names, lambda row: f"id {row + 1}"))


def values_of(runs: Mapping[str, Measurement], metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(Q, R) the metric of every query, a column a run; NaN where a query has none."""
    return np.stack([run.per_query[metric].to_numpy(dtype=np.float64) for run in runs.values()], axis=1)
