"""Sources of a report: folders of runs, comparisons of runs, or embeddings in folders or files."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hiertree.arrays import as_embeddings, as_paths
from hiertree.errors import CheckpointError, HiertreeError, OptionError, raised_as
from hiertree.io.files import NOT_UTF8, AnyPath
from hiertree.io.provenance import MANIFEST, describe_file, manifest
from hiertree.io.reading import Complaint, read_json_object, read_parquet_frame, read_text, reading_json
from hiertree.metrics import evaluate

from ..stored_embeddings.embedded_files import find_pictures
from ..stored_embeddings.embeddings_files import LabeledEmbeddings, LabelFiles, naming_files, read_embeddings
from ..stored_embeddings.locations import files_read, kind_of
from ..training.data.splits import load_split
from ..training.recipe.published import PublishedRow, published_rows
from ..training.recipe.reading import load_recipe
from ..training.recipe.settings import Recipe
from ..training.run.history import read_history
from .queries_and_gallery import QueriesAndGallery, have_same_classes, rows_of, sample_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from hiertree.metrics import ProtocolName

MOST_RUNS = 8
MOST_QUERIES = 30_000  # of a file, which is measured for the page
Model = TypeVar("Model", bound="Measurement")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One model in a report: its metrics, queries and rankings."""

    source: Path  # the folder or file that was read
    results: dict[str, Any]  # metrics, skipped and convention, as ``metrics.json`` has them
    labeled: LabeledEmbeddings  # the embeddings and paths of the queries, and of their gallery if they have one
    per_query: pd.DataFrame  # a row for each query, a column for each metric; NaN where a query has no positive
    history: Sequence[Mapping[str, Any]] = ()  # a row for each epoch of its training; empty where that is unknown
    recipe_text: str = ""  # the experiment as YAML, every setting included; empty if there was none
    command: str  # that gives these numbers again
    manifest: dict[str, Any]  # versions, time and hashes
    drawn_from: int = 0  # queries of which those were drawn; 0 where all are measured
    published: Sequence[PublishedRow] = ()  # what papers report for its recipe, by the recipe's name

    @property
    def metrics(self) -> dict[str, float]:
        """The mean of each metric over the queries that have it."""
        return dict(self.results["metrics"])

    @property
    def vectors(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Vectors of the queries and of the gallery, by whose cosines the gallery was ranked."""
        query, gallery = self.labeled.queries.embeddings, self.labeled.items.embeddings
        if self.results["convention"]["bits"] is None:
            return query, gallery
        return np.where(query > 0, 1.0, -1.0), np.where(gallery > 0, 1.0, -1.0)

    def left_out(self, query: int) -> NDArray[np.int64]:
        """Rows of the gallery that the list of a query leaves out: itself, whatever has its id, its junk."""
        queries, items = self.labeled.queries, self.labeled.items
        rows = [np.array([query])] if not self.labeled.separate else []
        if queries.ids is not None:
            rows.append(np.flatnonzero(np.asarray(items.ids) == queries.ids[query]))
        if queries.junk is not None:
            rows.append(np.asarray(queries.junk[query]))
        return np.unique(np.concatenate(rows)).astype(np.int64) if rows else np.array([], dtype=np.int64)

    @property
    def paths(self) -> list[NDArray[Any]]:
        """Those of its queries, and of its separate gallery if it has one."""
        return [images.paths for images in self.labeled.image_sets]

    def has_paths(self, paths: Sequence[NDArray[Any]]) -> bool:
        """Whether its queries and its gallery have these paths."""
        return len(self.paths) == len(paths) and all(map(np.array_equal, self.paths, paths))


@dataclass(frozen=True, kw_only=True)
class FinishedRun(Measurement):
    """A finished run of training: also its recipe."""

    recipe: Recipe


def read_run(path: str | os.PathLike[str]) -> FinishedRun:
    """Read the folder of a finished run; an OptionError if it is none, a CheckpointError if a file is damaged."""
    from ..training.run.run_folder import RunFolder

    folder = RunFolder(Path(path))
    results = folder.finished()
    if results is None:
        remedy = "hiertree train finishes it"
        raise OptionError(f"run={path}", expected="the folder of a finished run, with metrics.json", remedy=remedy)
    complaint: Complaint = {"expected": "a file of a finished run", "kind": CheckpointError}
    with raised_as(CheckpointError, path, expected="the folder of a finished run", on=(HiertreeError, ValueError)):
        embeddings = read_embeddings(folder.path)
        as_embeddings(embeddings.queries.embeddings)
        as_paths(embeddings.queries.paths)
        recipe = load_recipe(folder.recipe, trusted=False)
        return FinishedRun(
            source=folder.path,
            recipe=recipe,
            published=published_rows(recipe.name),
            recipe_text=read_text(folder.recipe),
            results=results,
            history=read_history(folder.history),
            manifest=read_json_object(folder.path / MANIFEST, **complaint),
            labeled=embeddings,
            command=shlex.join(["hiertree", "train", str(folder.recipe), "--out", f"{folder.path}-again"]),
            per_query=read_per_query(folder.path / "per_query.parquet"),
        )


def read_per_query(file: Path) -> pd.DataFrame:
    """The values of the queries that a run wrote; a CheckpointError if the file is not as the run's manifest has it."""
    complaint: Complaint = {"expected": "a file of a finished run", "kind": CheckpointError}
    values: pd.DataFrame = read_parquet_frame(file, **complaint).reset_index(drop=True)
    if (record := file.with_name(MANIFEST)).is_file():
        with reading_json(record, **complaint) as written:
            digests = {output["name"]: output["sha256"] for output in written["outputs"]}
        if digests.get(file.name, digest := describe_file(file)["sha256"]) != digest:
            raise CheckpointError(f"{file} has changed", expected="the file that the run wrote, as its manifest says")
    return values


def _named(measurements: Sequence[Model], names: Sequence[str] = ()) -> dict[str, Model]:
    """Measurements of the same images by name, each in the order of the first's.

    The images are known by their files, in whatever order and below whatever folder. Unless names are given, a run is
    called by its loss where that tells all apart, else by its folder, or by its recipe; embeddings by their file; or
    all by their paths.
    """
    aligned = [measurements[0], *(_reorder_as(measurements[0], measurement) for measurement in measurements[1:])]
    runs = [measurement.recipe if isinstance(measurement, FinishedRun) else None for measurement in measurements]
    stems = [measurement.source.stem for measurement in measurements]
    candidates = (
        *([list(names)] if names else []),
        [stem if run is None else run.loss.name for run, stem in zip(runs, stems, strict=True)],
        stems,
        [stem if run is None else run.name for run, stem in zip(runs, stems, strict=True)],
        [str(measurement.source) for measurement in measurements],
    )
    readable = ([NOT_UTF8.sub("\ufffd", name) for name in candidate] for candidate in candidates)
    labels = next((candidate for candidate in readable if max(Counter(candidate).values()) == 1), None)
    if labels is None:
        raise OptionError("a source listed twice", expected="each source once")
    return dict(zip(labels, aligned, strict=True))


def _reorder_as(first: Measurement, run: Model) -> Model:
    """A measurement with its images in the order of the first's, found by their names, and with the first's paths."""
    rows = rows_of(run.labeled, first.labeled)
    if rows is None:
        if run.has_paths(first.paths):
            return run
        problem = f"{run.source} and {first.source} were measured on different images"
        raise OptionError(problem, expected="sources on the same data")
    if not have_same_classes(run.labeled, first.labeled, rows):
        problem = f"{run.source} and {first.source} were measured on the same images with different labels"
        raise OptionError(problem, expected="sources with the same classes at each level")
    ordered = [
        images._replace(
            embeddings=images.embeddings[order],
            ids=None if images.ids is None else np.asarray(images.ids)[order],
            names=target.names,
            paths=target.paths,
        )
        for images, target, order in zip(run.labeled.image_sets, first.labeled.image_sets, rows, strict=True)
    ]
    if run.labeled.queries.junk is not None:
        new_rows = np.argsort(rows[-1])  # of each item
        junk = [new_rows[np.asarray(run.labeled.queries.junk[query])] for query in rows[0]]
        ordered[0] = ordered[0]._replace(junk=junk)
    return replace(run, labeled=LabeledEmbeddings(ordered), per_query=run.per_query.iloc[rows[0]])


class EmbeddingsOptions(LabelFiles, total=False):
    """Options of a file of embeddings, as for ``hiertree evaluate``, and its images."""

    images: AnyPath | None  # the folder in which the ids name image files
    protocol: ProtocolName | None  # the benchmark whose metrics are computed


def read_sources(
    sources: Sequence[str | os.PathLike[str]],
    *,
    overrides: Sequence[str] = (),
    options: EmbeddingsOptions | None = None,
) -> tuple[dict[str, Measurement], QueriesAndGallery]:
    """Read the models' measurements, by name, and the queries and gallery that they were measured on."""
    folders = _sources_in([Path(source) for source in sources])
    file_options: dict[str, Any] = {
        name: value for name, value in (options or {}).items() if value and (name, value) != ("uneven", "error")
    }
    is_run = [kind_of(path) == "run" for path in folders]
    if file_options.keys() - {"images"} and (any(is_run) or len(folders) > 1):
        raise OptionError("labels or a gallery with runs or several sources", expected="them only with a single file")
    if is_run[0] and "images" in file_options:
        raise OptionError("images with a run", expected="its data set", remedy="name the place by --set data.root=PATH")
    if overrides and not is_run[0]:
        raise OptionError("--set with embeddings", expected="a run", remedy="name the images' folder by --images")
    images: Any = file_options.pop("images", None)
    alone = len(folders) == 1
    measurements = [
        read_run(path) if kind_of(path) == "run" else _measured_file(path, alone=alone, **file_options)
        for path in folders
    ]
    by_name = _named(measurements, list(folders.values()) if all(folders.values()) else [])
    first = measurements[0]
    if isinstance(first, FinishedRun):
        return by_name, _data_of_run(first, overrides)
    return by_name, _data_of_file(first, images)


def _sources_in(paths: Sequence[Path]) -> dict[Path, str]:
    """The runs and embeddings; of a comparison those of its rows, the first seed each, with the row's name."""
    sources: dict[Path, str] = {}
    for path in paths:
        sources |= _rows(path) if kind_of(path) == "comparison" else {path: ""}
    if len(sources) > MOST_RUNS:
        raise OptionError(
            f"{len(sources)} runs", expected=f"at most {MOST_RUNS} on a page", remedy="name their folders one by one"
        )
    return sources


def _rows(comparison: Path) -> dict[Path, str]:
    """The first finished seed of each row of a comparison, and the row's name."""
    run_folders = sorted((path.parent for path in comparison.glob("**/seed-*/metrics.json")), key=_seed_key)
    with reading_json(comparison / MANIFEST, expected="the manifest of hiertree compare") as record:
        sources = record["parameters"].get("measured", {})
        networks = {comparison / source: name for name, source in sources.items()}
    if not run_folders and not networks:
        raise OptionError(f"{comparison} without a finished run", expected="a finished run of hiertree compare")
    first: dict[Path, Path] = {}
    for folder in run_folders:
        picked = folder / "best"  # the network that a validation picked, if there was one
        first.setdefault(folder.parent, picked if picked.is_dir() else folder)
    return {folder: row.relative_to(comparison).as_posix() for row, folder in first.items()} | networks


def _seed_key(folder: Path) -> tuple[str, int]:
    seed = re.search(r"\d+$", folder.name)
    return str(folder.parent), int(seed[0]) if seed else 0


def _data_of_run(run: FinishedRun, overrides: Sequence[str]) -> QueriesAndGallery:
    """The data set of the run's recipe; only paths if it is missing, or its images have changed."""
    recipe = load_recipe(run.source / "recipe.yaml", overrides, trusted=False)
    try:
        dataset = load_split(recipe, "test")
        data = QueriesAndGallery.from_dataset(dataset)
        if not run.has_paths(data.paths):
            raise OptionError(
                f"the {len(data.query_paths)} queries of {dataset.name} ({dataset.split})",
                expected=f"the {len(run.labeled.queries.paths)} that {run.source} was measured on, with the same paths",
            )
    except (HiertreeError, OSError) as error:
        return QueriesAndGallery.from_label_ids(run.paths, without=str(error))
    return data


def _drawn(embeddings: LabeledEmbeddings) -> LabeledEmbeddings:
    """A sample of the queries before the whole gallery; a query that is in it still leaves itself out."""
    queries = embeddings.queries
    rows = sample_of(np.arange(len(queries.paths)), MOST_QUERIES)
    left_out = [[] for _ in rows] if queries.junk is None else [list(queries.junk[row]) for row in rows.tolist()]
    if not embeddings.separate:
        left_out = [[*items, row] for items, row in zip(left_out, rows.tolist(), strict=True)]
    columns: Any = {name: getattr(queries, name) for name in ("embeddings", "paths", "ids", "names")}
    columns = {name: None if column is None else np.asarray(column)[rows] for name, column in columns.items()}
    junk = [np.array(items, dtype=np.int64) for items in left_out]
    items = embeddings.items if embeddings.separate else queries._replace(junk=None)
    return embeddings._replace(image_sets=[queries._replace(**columns, junk=junk), items])


def _measured_file(file: Path, *, alone: bool, protocol: Any = None, **files: Any) -> Measurement:
    embeddings = read_embeddings(file, **files)
    num_queries = len(embeddings.queries.paths)
    is_drawn = alone and protocol is None and num_queries > MOST_QUERIES
    if is_drawn:
        embeddings = _drawn(embeddings)
    if embeddings.items.distractors is not None:
        raise OptionError(f"distractors in {file.name}", expected="a gallery of labeled items")
    with naming_files(file, files.get("gallery")):
        result = evaluate(*embeddings.arguments, progress=True, protocol=protocol, **embeddings.masks)
    paths = [file, *(path for name, path in files.items() if name in ("labels", "gallery", "gallery_labels"))]
    inputs = [input_file for path in paths for input_file in files_read(Path(path))]
    levels = files.get("levels", ())
    options = {**files, "levels": ",".join(levels), "protocol": protocol}
    typed = [text for name, value in options.items() if value for text in (f"--{name.replace('_', '-')}", str(value))]
    return Measurement(
        source=file,
        results={**result.as_dict(), "metrics": result.as_dict()["summary"]},
        drawn_from=num_queries if is_drawn else 0,
        labeled=embeddings,
        per_query=result.per_query().reset_index(drop=True),
        command=shlex.join(["hiertree", "evaluate", str(file), *typed]),
        manifest=manifest(command="hiertree report", parameters={"levels": list(levels)}, inputs=inputs),
    )


def _data_of_file(measurement: Measurement, folder: AnyPath | None) -> QueriesAndGallery:
    """The labels of the tables or, without any, the numbers of the paths; pictures from where they were embedded."""
    embeddings = measurement.labeled
    names = [images.image_names for images in embeddings.image_sets]
    if folder is not None and names[0] is None:
        raise OptionError(f"images in {folder} without ids", expected="the column of the files' names (--ids)")
    every_name = [name for image_names in names for name in image_names or ()]
    images, explanation = find_pictures(measurement.source, every_name, folder)
    if embeddings.tree is None:
        return QueriesAndGallery.from_label_ids(measurement.paths, images=images, without=explanation)
    return QueriesAndGallery(tree=embeddings.tree, paths=measurement.paths, images=images, without=explanation)


def values_of(runs: Mapping[str, Measurement], metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(Q, R) the metric of every query, one column per run; NaN where a query has none."""
    return np.stack([run.per_query[metric].to_numpy(dtype=np.float64) for run in runs.values()], axis=1)
