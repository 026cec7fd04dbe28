"""What ``hiertree embed`` writes, whose files are at once the steps of resumable work, and where its images are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.datasets.huggingface import HUB
from hiertree.datasets.input_images import load_input_images
from hiertree.datasets.readers.images import FileImages, SelectedImages, inside, stamp_of
from hiertree.errors import CheckpointError, HiertreeError, ImageError, OptionError, require_package
from hiertree.io import files
from hiertree.io.files import AnyPath
from hiertree.io.provenance import MANIFEST, digest, sha256
from hiertree.io.reading import Complaint, read_json_object, reading_json
from hiertree.io.tables import write_table
from hiertree.level_columns import ADDED, UNKNOWN

from .label_columns import GALLERY, IMAGE, QUERY, SPLIT
from .shards import read_manifest, require_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.datasets import ImageSource
    from hiertree.tree import LabelTree


Numbers = Literal["float32", "float16"]
SKIPPED, VECTORS = "skipped.csv", "embedding"
SHARDS_FOLDER = "shards"  # the folder of records, which marks unfinished work
_RECORD: Complaint = {"expected": "a record of `hiertree embed`", "kind": CheckpointError}
_ANEW, _OTHER = "remove it to have it computed", "name another folder, or remove this one"
_MODEL = b"hiertree.model"


class Embedded(NamedTuple):
    """A finished data set of embeddings."""

    folder: Path
    images: int  # or texts
    skipped: Path | None = None  # the table of images that did not decode, and why


class Shard(NamedTuple):
    """One file of embeddings."""

    file: Path
    rows: NDArray[np.int64]  # of its images in the data set
    split: str  # of these images: queries, gallery or the data set's split
    fingerprint: dict[str, str]  # digests of everything that its embeddings depend on, by name


class EmbeddingFiles:
    """``part-00000-of-00008.parquet``, … in a folder, and at the end ``manifest.json``, with the SHA-256 of each.

    A shard has the columns ``embedding``, ``image``, ``split`` and one a level. Until all are there, a record beside
    each says what it was computed from. The shards of queries come before those of their gallery. Several processes
    may write, each its own shards: ``rank`` of ``size``.
    """

    def __init__(
        self,
        folder: Path,
        dataset: ImageDataset,
        weights: str,
        settings: str,
        *,
        shard_size: int,
        has_labels: bool,
        dtype: Numbers,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        require_package("pyarrow", extra="arrow")
        self.folder, self.dataset, self.has_labels, self.weights = folder, dataset, has_labels, weights
        self.dtype, self._work = np.dtype(dtype), {"weights": weights, "settings": digest([settings])}
        blocks = [
            (split, rows[start : start + shard_size])
            for split, rows in _splits(dataset).items()
            for start in range(0, len(rows), shard_size)
        ]
        names = [f"part-{index:05d}-of-{len(blocks):05d}.parquet" for index in range(len(blocks))]
        self._files = [folder / name for name in names]
        self._require_usable()
        has_all = (folder / MANIFEST).is_file()  # then all are compared, else this process's own
        self.shards = [
            Shard(folder / names[index], rows, split, self._fingerprint(names[index], rows))
            for index, (split, rows) in enumerate(blocks)
            if has_all or index % size == rank
        ]

    def _fingerprint(self, name: str, rows: NDArray[np.int64]) -> dict[str, str]:
        """Of the model, the options, and the names, stamps and labels of some images."""
        labels = label_columns(self.dataset.tree, self.dataset.paths[rows]) if self.has_labels else {}
        names = zip(image_names(self.dataset, rows.tolist()), rows.tolist(), strict=True)
        stamps = (f"{image}\0{stamp_of(self.dataset.images, row)}\0" for image, row in names)
        return {**self._work, "images": digest([name, *stamps]), "labels": digest([json.dumps(labels)])}

    def _require_usable(self) -> None:
        """Refuse a folder that holds other things than what such a call has written."""
        folder = self.folder
        is_begun = (folder / MANIFEST).is_file() or (folder / SHARDS_FOLDER).is_dir()
        if not (is_begun or files.is_unused(folder)):
            problem = f"out={folder} holds other files" if folder.is_dir() else f"out={folder} is a file"
            raise OptionError(problem, expected="a new or empty folder, or that of the same call", remedy=_OTHER)
        if foreign_parts := sorted(set(folder.glob("part-*.parquet")) - set(self._files)):
            problem = f"{foreign_parts[0]} is not of these {len(self._files)} parts"
            raise CheckpointError(problem, expected="the same images and options", remedy=_OTHER)

    def is_finished(self) -> bool:
        """Whether the same call has written all; a CheckpointError where another has."""
        record = read_manifest(self.folder)
        if record is None:
            return False
        entries = {entry["name"]: entry for entry in record.get("parts", [])}
        for shard in self.shards:
            self._require_same(shard, entries.get(shard.file.name, {}))
        shutil.rmtree(self.folder / SHARDS_FOLDER, ignore_errors=True)
        return True

    def _require_same(self, shard: Shard, record: Mapping[str, Any]) -> None:
        """Refuse what was computed from something else."""
        stated = record.get("fingerprint")
        known = stated if isinstance(stated, dict) else {}
        if differences := [name for name, value in shard.fingerprint.items() if known.get(name) != value]:
            problem = f"{shard.file} was computed from other {', '.join(differences)}"
            raise CheckpointError(problem, expected="the same model, images, labels and options", remedy=_OTHER)

    def is_written(self, shard: Shard) -> bool:
        """Whether a shard is there; a CheckpointError names one that is damaged or belongs to other work."""
        record = self._record(shard.file)
        if record is None:
            return False
        self._require_same(shard, record)
        require_digest(shard.file, record.get("sha256"), kind=CheckpointError)
        return True

    def write(self, shard: Shard, embeddings: NDArray[np.float32], rows: Sequence[int], bad: Mapping[int, str]) -> None:
        """Write the embeddings of some of a shard's rows, and why the others have none."""
        columns = {IMAGE: image_names(self.dataset, rows), SPLIT: [shard.split] * len(rows)}
        columns |= label_columns(self.dataset.tree, self.dataset.paths[list(rows)]) if self.has_labels else {}
        (self.folder / SHARDS_FOLDER).mkdir(parents=True, exist_ok=True)  # before a file that would be a stranger's
        write_embeddings(shard.file, embeddings.astype(self.dtype, copy=False), columns, {_MODEL: self.weights})
        skipped = list(zip(image_names(self.dataset, list(bad)), bad.values(), strict=True))
        entry = {"name": shard.file.name, "rows": len(rows), "sha256": sha256(shard.file)}
        record = {**entry, "fingerprint": shard.fingerprint, "skipped": skipped}
        files.write_json(self._record_file(shard.file), {**record, "dimensions": embeddings.shape[1]})

    def finish(self, provenance: Mapping[str, Any]) -> Embedded | None:
        """Write the manifest once every process has written its shards; None before that."""
        records = [record for file in self._files if (record := self._record(file)) is not None]
        if len(records) < len(self._files):
            return None
        works = [{name: record["fingerprint"].get(name) for name in self._work} for record in records]
        if others := [str(record["name"]) for record, work in zip(records, works, strict=True) if work != self._work]:
            problem = f"{self.folder / others[0]} is of another model or other options"
            raise CheckpointError(problem, expected="one call in all processes", remedy=_ANEW)
        skipped = [pair for record in records for pair in record["skipped"]]
        if len(skipped) == len(self.dataset):
            raise ImageError(f"none of {len(skipped)} images decodes", expected="image files")
        if skipped:
            write_table(self.folder / SKIPPED, [IMAGE, "reason"], skipped)
        entries = [{key: record[key] for key in ("name", "rows", "sha256", "fingerprint")} for record in records]
        rows = sum(record["rows"] for record in records)
        facts = {"model": self.weights, "dimensions": records[0]["dimensions"], "dtype": self.dtype.name, "rows": rows}
        files.write_json(self.folder / MANIFEST, {**provenance, **facts, "parts": entries})
        shutil.rmtree(self.folder / SHARDS_FOLDER, ignore_errors=True)
        return written_in(self.folder)

    def _record_file(self, file: Path) -> Path:
        return self.folder / SHARDS_FOLDER / f"{file.stem}.json"

    def _record(self, file: Path) -> dict[str, Any] | None:
        """What is noted of a shard that is there."""
        record, complaint = self._record_file(file), Complaint(**_RECORD)
        complaint["remedy"] = _ANEW
        return read_json_object(record, **complaint) if file.is_file() and record.is_file() else None


def _splits(dataset: ImageDataset) -> dict[str, NDArray[np.int64]]:
    """The rows of all images, or of the queries and of their gallery, by the name that the column ``split`` has."""
    if dataset.queries is None or dataset.gallery is None:
        return {dataset.split: np.arange(len(dataset))}
    return {QUERY: dataset.queries, GALLERY: dataset.gallery}


def image_names(dataset: ImageDataset, rows: Sequence[int]) -> list[str]:
    """The ids of some images, or their names where there are no ids."""
    ids, images = dataset.ids, dataset.images
    return [str(images.name(int(row)) if ids is None else ids[row]) for row in rows]


def label_columns(tree: LabelTree, paths: NDArray[np.integer]) -> dict[str, list[str]]:
    """The labels of (n, L) paths at each level, coarse → fine, by names that differ from those of other columns."""
    nodes, inverse = np.unique(paths, axis=0, return_inverse=True)
    labels = [[*map(str, tree.labels_of(node)), *[""] * node.count(UNKNOWN)] for node in nodes.tolist()]
    row_labels = [labels[node] for node in inverse.reshape(-1).tolist()]
    names = [f"level_{name}" if name in (VECTORS, *ADDED) else str(name) for name in tree.level_names]
    return {name: [row[level] for row in row_labels] for level, name in enumerate(names)}


def write_embeddings(
    file: Path, embeddings: NDArray[Any], columns: Mapping[str, Sequence[str]], metadata: Mapping[bytes, Any]
) -> None:
    """Write (n, d) embeddings, bit for bit, and columns of text as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.reshape(-1)), embeddings.shape[1])
    texts = [pa.array(column, pa.string()) for column in columns.values()]
    table = pa.Table.from_arrays([vectors, *texts], [VECTORS, *columns]).replace_schema_metadata(dict(metadata))
    coded = [name for name in columns if name != IMAGE]
    with files.replacing(file) as temporary, temporary.open("wb") as stream:  # pyarrow takes no names but UTF-8
        pq.write_table(table, stream, use_dictionary=coded, write_page_checksum=True)


def written_in(folder: Path) -> Embedded | None:
    """The data set of a finished call in a folder; None if it is not finished."""
    if not (folder / MANIFEST).is_file():
        return None
    expected, skipped = "the manifest of `hiertree embed`", folder / SKIPPED
    remedy = f"remove {folder} to have it made again"
    with reading_json(folder / MANIFEST, expected=expected, remedy=remedy, kind=CheckpointError) as content:
        return Embedded(folder, int(content["rows"]), skipped if skipped.is_file() else None)


def find_pictures(source: Path, names: Sequence[str], images: AnyPath | None) -> tuple[ImageSource | None, str]:
    """The images of these names, or None and the reason."""
    if images is not None:
        if not Path(images).is_dir():
            raise OptionError(f"no folder {images}", expected="the one below which the images lie")
        return _files(Path(images), names, source), ""
    if not source.is_dir():
        return None, "No folder of images was given (--images)."
    file, expected = source / MANIFEST, "the manifest of `hiertree embed` or of a run"
    if not file.is_file():
        return None, "No manifest says where the images are (--images)."
    with reading_json(file, expected=expected) as content:
        stated = content.get("parameters")
        parameters = dict(stated) if isinstance(stated, dict) else {}
    embedded = str(parameters.get("embedded") or "")
    if embedded.startswith(HUB):
        return None, f"The images are those of {embedded}, which is not fetched for a folder (--images)."
    try:
        if embedded:
            options: dict[str, Any] = {"labeled": False, "root": parameters.get("root")}
            pictures = load_input_images(embedded, parameters.get("split"), **options).dataset.images
            if isinstance(pictures, FileImages):
                return _files(pictures.root, names, source), ""
            name_lists = [list(map(pictures.name, range(len(pictures))))]
        else:
            pictures, name_lists = _load_pictures(parameters, source=file)
    except HiertreeError as error:
        return None, f"The images are not where they were embedded from (--images says where they are): {error}"
    if list(names) not in name_lists:
        return None, "There are other images now where these were embedded from."
    return pictures, ""


def _files(root: Path, names: Sequence[str], folder: Path) -> FileImages:
    return FileImages(root, inside(names, root, lambda row: f"{folder}, image {row + 1}"))


def _load_pictures(parameters: dict[str, Any], *, source: Path) -> tuple[ImageSource, list[list[str]]]:
    """The images of the split that a recipe names, and their names or ids, in the order of the tables."""
    from ..training.data.splits import load_split
    from ..training.recipe.reading import check_recipe

    split = parameters.pop("split", "test")  # which a run's manifest does not name
    dataset = load_split(check_recipe(parameters, source=str(source)), split)
    sides = [rows for rows in (dataset.queries, dataset.gallery) if rows is not None]
    rows = np.concatenate(sides) if sides else np.arange(len(dataset))
    images = SelectedImages(dataset.images, rows) if sides else dataset.images
    ids = [] if dataset.ids is None else [list(map(str, dataset.ids[rows]))]
    return images, [list(map(dataset.images.name, rows.tolist())), *ids]
