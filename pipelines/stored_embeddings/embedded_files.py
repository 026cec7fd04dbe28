"""The parts that ``hiertree embed`` writes: a Parquet data set whose files are at once the steps of resumable work."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, ImageError, require_package
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, digest
from hiertree.io.reading import Complaint, reading_file, reading_json
from hiertree.io.tables import write_table
from hiertree.level_columns import ADDED, UNKNOWN

from .label_columns import GALLERY, IMAGE, QUERY, SPLIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

Numbers = Literal["float32", "float16"]
SKIPPED, VECTORS = "skipped.csv", "embedding"
SHARDS_FOLDER = "shards"  # the folder that marks unfinished work
_PART: Complaint = {"expected": "a whole part", "remedy": "remove it to have it computed", "kind": CheckpointError}
_MODEL, _FINGERPRINT, _SKIPPED = b"hiertree.model", b"hiertree.fingerprint", b"hiertree.skipped"


class Embedded(NamedTuple):
    """A finished data set of embeddings."""

    folder: Path
    images: int
    skipped: Path | None = None  # the table of images that did not decode, and why
    is_first: bool = True  # whether this process, of those that a launcher started, should report


class Shard(NamedTuple):
    """One file of embeddings."""

    file: Path
    rows: NDArray[np.int64]  # of its images in the data set
    split: str  # of these images: queries, gallery or the data set's split


class EmbeddingFiles:
    """``part-00000-of-00008.parquet``, … in a folder, and at the end what belongs to all of them.

    A part has the columns ``embedding``, ``image``, ``split`` and one a level, and knows what it was computed from, as
    ``fingerprint`` says. The parts of queries come before those of their gallery.
    """

    def __init__(
        self,
        folder: Path,
        dataset: ImageDataset,
        fingerprint: Mapping[str, str],
        *,
        shard_size: int,
        has_labels: bool,
        width: int,
        dtype: Numbers,
    ) -> None:
        require_package("pyarrow", extra="arrow")
        self.folder, self.dataset, self.has_labels, self.width = folder, dataset, has_labels, width
        self.fingerprint, self.dtype = dict(fingerprint), np.dtype(dtype)
        pieces = [
            (split, rows[start : start + shard_size])
            for split, rows in _splits(dataset).items()
            for start in range(0, len(rows), shard_size)
        ]
        self.shards = [
            Shard(folder / f"part-{part:05d}-of-{len(pieces):05d}.parquet", rows, split)
            for part, (split, rows) in enumerate(pieces)
        ]

    def missing(self) -> list[int]:
        """The shards still to be made."""
        return [number for number, shard in enumerate(self.shards) if not self.is_written(shard)]

    def is_written(self, shard: Shard) -> bool:
        """Whether a part exists; a CheckpointError names one that is damaged or belongs to other work."""
        if not shard.file.is_file():
            return False
        if self._footer(shard)[1].get(_FINGERPRINT) != self._digest(shard):
            problem = f"{shard.file} was computed from another model, other images or options"
            raise CheckpointError(problem, expected="parts of one call", remedy="remove it to have it computed")
        return True

    def write(self, shard: Shard, embeddings: NDArray[np.float32], rows: Sequence[int], bad: Mapping[int, str]) -> None:
        """Write the embeddings of some of a shard's rows, and why the others have none."""
        skipped = list(zip(image_names(self.dataset, list(bad)), bad.values(), strict=True))
        metadata = {
            _MODEL: self.fingerprint["weights"],
            _FINGERPRINT: self._digest(shard),
            _SKIPPED: json.dumps(skipped),
        }
        columns = {IMAGE: image_names(self.dataset, rows), SPLIT: [shard.split] * len(rows)}
        columns |= label_columns(self.dataset, rows) if self.has_labels else {}
        write_embeddings(shard.file, embeddings.astype(self.dtype, copy=False), columns, metadata)

    def finish(self) -> dict[str, Any]:
        """Write the common table; return the entries for the manifest."""
        summaries = [(shard.file.name, *self._footer(shard)) for shard in self.shards]
        skipped = [pair for *_, metadata in summaries for pair in json.loads(metadata[_SKIPPED])]
        if len(skipped) == sum(len(shard.rows) for shard in self.shards):
            raise ImageError(f"none of {len(skipped)} images decodes", expected="image files")
        if skipped:
            write_table(self.folder / SKIPPED, [IMAGE, "reason"], skipped)
        parts = [{"name": name, "rows": rows} for name, rows, _ in summaries]
        description = {"model": self.fingerprint["weights"], "dimensions": self.width, "dtype": self.dtype.name}
        return {**description, "rows": sum(rows for _, rows, _ in summaries), "parts": parts}

    def _digest(self, shard: Shard) -> bytes:
        name = os.path.relpath(shard.file, self.folder)  # a copy of another part is refused
        return digest([name, json.dumps(self.fingerprint, sort_keys=True)]).encode()

    @staticmethod
    def _footer(shard: Shard) -> tuple[int, dict[bytes, bytes]]:
        """The number of rows of a part, and its metadata."""
        import pyarrow.parquet as pq

        if not shard.file.exists():
            remedy = "name a folder that all machines share by --out"
            raise CheckpointError(f"{shard.file} is missing", expected="every part", remedy=remedy)
        with reading_file(shard.file, **_PART), shard.file.open("rb") as stream:
            footer = pq.read_metadata(stream)
            return footer.num_rows, footer.metadata or {}


def _splits(dataset: ImageDataset) -> dict[str, NDArray[np.int64]]:
    """The rows of all images, or of the queries and of their gallery, by the name that the column ``split`` has."""
    if dataset.queries is None or dataset.gallery is None:
        return {dataset.split: np.arange(len(dataset))}
    return {QUERY: dataset.queries, GALLERY: dataset.gallery}


def image_names(dataset: ImageDataset, rows: Sequence[int]) -> list[str]:
    """The ids of some images, or their names where there are no ids."""
    ids, images = dataset.ids, dataset.images
    return [str(images.name(int(row)) if ids is None else ids[row]) for row in rows]


def label_columns(dataset: ImageDataset, rows: Sequence[int]) -> dict[str, list[str]]:
    """The labels of some images at each level, coarse → fine, by names that differ from those of other columns."""
    tree = dataset.tree
    nodes, inverse = np.unique(dataset.paths[np.asarray(rows, np.int64)], axis=0, return_inverse=True)
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


def written_in(folder: Path, *, is_first: bool = True) -> Embedded | None:
    """The data set of a finished call in a folder; None if it is not finished."""
    if not (folder / MANIFEST).is_file():
        return None
    expected, skipped = "the manifest of `hiertree embed`", folder / SKIPPED
    remedy = f"remove {folder} to have it made again"
    with reading_json(folder / MANIFEST, expected=expected, remedy=remedy, kind=CheckpointError) as content:
        return Embedded(folder, int(content["rows"]), skipped if skipped.is_file() else None, is_first)
