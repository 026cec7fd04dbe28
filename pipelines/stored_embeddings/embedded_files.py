"""The files of ``hiertree embed``: joined ``.npy`` arrays with tables, or a Parquet data set that is never joined."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from hiertree.datasets import ImageDataset
from hiertree.errors import CheckpointError, ImageError, require_package
from hiertree.io import files
from hiertree.io.array_files import read_array
from hiertree.io.parts import digest, part_file
from hiertree.io.provenance import MANIFEST
from hiertree.io.reading import Complaint, read_json_object, reading_file
from hiertree.io.tables import write_table

from .label_columns import IMAGE

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

FileFormat = Literal["npy", "parquet"]
Numbers = Literal["float32", "float16"]
SKIPPED = "skipped.csv"
SHARDS = "shards"  # the folder of unfinished work
_PART: Complaint = {"expected": "a whole part", "remedy": "remove it to have it computed", "kind": CheckpointError}
_MODEL, _FINGERPRINT, _SKIPPED = b"hiertree.model", b"hiertree.fingerprint", b"hiertree.skipped"


class Embedded(NamedTuple):
    """The written files."""

    folder: Path
    images: int
    embeddings: tuple[Path, ...]  # arrays or folders of parts: of all images, or of the queries and of their gallery
    labels: tuple[Path, ...]  # a table for each array: the image's id, and its label at every level, coarse → fine
    skipped: Path | None = None  # the table of images that did not decode, and why
    is_first: bool = True  # whether this process, of those that a launcher started, should report


class Shard(NamedTuple):
    """One file of embeddings."""

    file: Path
    rows: NDArray[np.int64]  # of its images in the data set


class EmbeddingFiles(ABC):
    """What a call writes: its shards, and at the end what belongs to all of them.

    ``fingerprint`` says what the embeddings, of ``width`` numbers each, are computed from.
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
        self.folder, self.dataset, self.has_labels, self.width = folder, dataset, has_labels, width
        self.fingerprint, self.dtype = dict(fingerprint), np.dtype(dtype)
        self.shards = self._planned(shard_size)

    @property
    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """The rows of all images, or of the queries and of their gallery."""
        queries, gallery = self.dataset.queries, self.dataset.gallery
        if queries is None or gallery is None:
            return {"embeddings": np.arange(len(self.dataset))}
        return {"queries": queries, "gallery": gallery}

    def missing(self) -> list[int]:
        """The shards still to be made."""
        return [number for number, shard in enumerate(self.shards) if not self.stands(shard)]

    def stands(self, shard: Shard) -> bool:
        """Whether a shard exists."""
        return shard.file.is_file()

    @abstractmethod
    def write(self, shard: Shard, embeddings: NDArray[np.float32], rows: Sequence[int], bad: Mapping[int, str]) -> None:
        """Write the embeddings of some of a shard's rows, and why the others have none."""

    @abstractmethod
    def finish(self) -> dict[str, Any]:
        """Write the common files; return their entries for the manifest."""

    @abstractmethod
    def _planned(self, size: int) -> list[Shard]: ...

    def names(self, rows: Sequence[int]) -> list[str]:
        """The names of some images."""
        ids, images = self.dataset.ids, self.dataset.images
        return [str(images.name(int(row)) if ids is None else ids[row]) for row in rows]

    def _labels(self, rows: Sequence[int]) -> pd.DataFrame:
        """The name and the labels, coarse → fine, of some images."""
        import pandas as pd

        tree, indices = self.dataset.tree, np.asarray(rows, np.int64)
        nodes, inverse = np.unique(self.dataset.paths[indices], axis=0, return_inverse=True)
        labels = pd.DataFrame([tree.labels_of(node) for node in nodes.tolist()], columns=tree.level_names)
        table: pd.DataFrame = (
            labels.iloc[inverse.reshape(-1)] if self.has_labels else pd.DataFrame(index=range(len(rows)))
        )
        table.insert(0, IMAGE, self.names(rows))
        return table


class ArrayFiles(EmbeddingFiles):
    """``embeddings.npy`` and ``labels.csv``, or those of queries and gallery, joined from shards one at a time."""

    @override
    def write(self, shard: Shard, embeddings: NDArray[np.float32], rows: Sequence[int], bad: Mapping[int, str]) -> None:
        with files.replacing(shard.file) as temporary:
            np.save(temporary, embeddings)

    @override
    def finish(self) -> dict[str, Any]:
        tables = list(self.arrays)
        if len(tables) == 1:
            tables = ["labels" if self.has_labels else "images"]
        file_names = [f"{name}.npy" for name in self.arrays], [f"{name}.csv" for name in tables]
        for array, table, rows in zip(*file_names, self.arrays.values(), strict=True):
            self._join(self.folder / array, rows)
            labels = self._labels(rows.tolist())
            write_table(self.folder / table, list(labels.columns), labels.itertuples(index=False))
        return {"rows": len(self.dataset), "embeddings": file_names[0], "labels": file_names[1]}

    @override
    def _planned(self, size: int) -> list[Shard]:
        ends = [(start, min(start + size, len(self.dataset))) for start in range(0, len(self.dataset), size)]
        return [Shard(part_file(self.folder / SHARDS, range(*bounds)), np.arange(*bounds)) for bounds in ends]

    def _join(self, path: Path, rows: NDArray[np.int64]) -> None:
        """Write in order, since a full disk is an error to ``write`` but ends a process that writes to a memory map."""
        size, kind = len(self.shards[0].rows), np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": kind, "fortran_order": False, "shape": (len(rows), self.width)}
        with files.replacing(path) as temporary, temporary.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(rows), size):
                shard, row = np.divmod(rows[start : start + size], size)
                part = np.empty((len(row), self.width), self.dtype)
                for number in np.unique(shard).tolist():
                    array = read_array(self.shards[number].file, mapped=True, **_PART)
                    part[shard == number] = array[row[shard == number]]
                file.write(part.data)


class ParquetFiles(EmbeddingFiles):
    """``part-00000-of-00008.parquet``, … in the folder, or in its folders ``queries`` and ``gallery``.

    A part has the columns ``embedding``, ``image`` and one a level, and knows what it was computed from.
    """

    @override
    def stands(self, shard: Shard) -> bool:
        """Whether a part exists; a CheckpointError names one that is damaged or belongs to other work."""
        if not shard.file.is_file():
            return False
        if self._about(shard)[1].get(_FINGERPRINT) != self._digest(shard):
            problem = f"{shard.file} was computed from another model, other images or options"
            raise CheckpointError(problem, expected="parts of one call", remedy="remove it to have it computed")
        return True

    @override
    def write(self, shard: Shard, embeddings: NDArray[np.float32], rows: Sequence[int], bad: Mapping[int, str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        numbers = pa.array(embeddings.astype(self.dtype, copy=False).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(numbers, self.width)
        texts = self._labels(rows)
        columns = [vectors, *(pa.array(list(map(str, texts[name])), pa.string()) for name in texts)]
        skipped = list(zip(self.names(list(bad)), bad.values(), strict=True))
        metadata = {
            _MODEL: self.fingerprint["weights"],
            _FINGERPRINT: self._digest(shard),
            _SKIPPED: json.dumps(skipped),
        }
        table = pa.Table.from_arrays(columns, ["embedding", *texts]).replace_schema_metadata(metadata)
        with files.replacing(shard.file) as temporary:
            pq.write_table(table, temporary, use_dictionary=list(texts.columns[1:]), write_page_checksum=True)

    @override
    def finish(self) -> dict[str, Any]:
        summaries = [(shard.file, *self._about(shard)) for shard in self.shards]
        skipped = [pair for *_, metadata in summaries for pair in json.loads(metadata[_SKIPPED])]
        if len(skipped) == sum(len(shard.rows) for shard in self.shards):
            raise ImageError(f"none of {len(skipped)} images decodes", expected="image files")
        description = {"model": self.fingerprint["weights"], "dimensions": self.width, "dtype": self.dtype.name}
        manifests: dict[Path, dict[str, Any]] = {}
        for folder in self._folders:
            parts = [{"name": file.name, "rows": rows} for file, rows, _ in summaries if file.parent == folder]
            manifests[folder] = {**description, "rows": sum(part["rows"] for part in parts), "parts": parts}
        if skipped:
            write_table(self.folder / SKIPPED, [IMAGE, "reason"], skipped)
        locations = {"embeddings": [os.path.relpath(folder, self.folder) for folder in manifests], "labels": []}
        if self.folder in manifests:
            return {**manifests[self.folder], **locations}
        for folder, content in manifests.items():
            files.write_json(folder / MANIFEST, content)
        return {**description, "rows": sum(content["rows"] for content in manifests.values()), **locations}

    @property
    def _folders(self) -> dict[Path, NDArray[np.int64]]:
        is_single = len(self.arrays) == 1
        return {self.folder if is_single else self.folder / name: rows for name, rows in self.arrays.items()}

    @override
    def _planned(self, size: int) -> list[Shard]:
        require_package("pyarrow", extra="arrow")
        shards = []
        for folder, rows in self._folders.items():
            count = -(-len(rows) // size)
            for part in range(count):
                file = folder / f"part-{part:05d}-of-{count:05d}.parquet"
                shards.append(Shard(file, rows[part * size : (part + 1) * size]))
        return shards

    def _digest(self, shard: Shard) -> bytes:
        name = os.path.relpath(shard.file, self.folder)  # a copy of another part is refused
        return digest([name, json.dumps(self.fingerprint, sort_keys=True)]).encode()

    @staticmethod
    def _about(shard: Shard) -> tuple[int, dict[bytes, bytes]]:
        """The number of rows of a part, and its metadata."""
        import pyarrow.parquet as pq

        if not shard.file.exists():
            remedy = "name a folder that all machines share by --out"
            raise CheckpointError(f"{shard.file} is not there", expected="every part", remedy=remedy)
        with reading_file(shard.file, **_PART):
            footer = pq.read_metadata(shard.file)
            return footer.num_rows, footer.metadata or {}


def written_in(folder: Path, *, is_first: bool = True) -> Embedded | None:
    """The files of a finished call in a folder; None if it is not finished."""
    if not (folder / MANIFEST).is_file():
        return None
    expected, skipped = "the manifest of `hiertree embed`", folder / SKIPPED
    remedy = f"remove {folder} to have it made again"
    complaint: Complaint = {"expected": expected, "remedy": remedy, "kind": CheckpointError}
    content = read_json_object(folder / MANIFEST, **complaint)
    with reading_file(folder / MANIFEST, **complaint):
        arrays, tables = (tuple(folder / name for name in content[key]) for key in ("embeddings", "labels"))
        return Embedded(folder, int(content["rows"]), arrays, tables, skipped if skipped.is_file() else None, is_first)


KINDS: Mapping[FileFormat, type[EmbeddingFiles]] = {"npy": ArrayFiles, "parquet": ParquetFiles}
