"""Reading embeddings and labels: ``.npz``, ``.npy``, ``.pt``, ``.parquet``, with the labels inside or in a table.

================  ==============================================================================================
``.npz``          arrays ``embeddings`` and ``paths``; perhaps ``gallery_embeddings`` and ``gallery_paths``, ``ids``
                  and ``gallery_ids``, ``junk``, and ``distractors``
``.pt``           a dictionary of tensors of these names, or one tensor (n, d) with a table of labels
``.npy``          an array (n, d) with a table of labels; more than half a GiB stays on disk as a memory map
``.parquet``      a column of lists, the embeddings, and columns of labels, coarse → fine, or a table of labels
``.safetensors``  one tensor (n, d) with a table of labels
================  ==============================================================================================

``ids`` name images: a query never retrieves an item of its own id. ``junk`` is (M, 2) pairs, a row of the queries and a
row of the gallery that its list leaves out. ``distractors`` are booleans that mark gallery rows without a label.
A pattern such as ``part-*.parquet`` names shards of Parquet, ``.npy`` or safetensors; a folder is a finished run, or
holds shards, as ``hiertree embed`` writes them. Where a column ``split`` says ``query`` or ``gallery`` of every row of
Parquet, the queries retrieve the gallery.
Nothing is unpickled: numpy reads without pickle, torch with ``weights_only=True``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from hiertree.arrays import to_numpy
from hiertree.errors import EmbeddingError, InputError, OptionError, PathError, ShapeError, require_package, some_of
from hiertree.io.array_files import read_array, reading_arrays
from hiertree.io.files import AnyPath
from hiertree.io.reading import reading_file
from hiertree.tree import LabelTree
from hiertree.tree.label_rows import Uneven

from .label_columns import (
    LabelColumns,
    LabeledRows,
    check_images,
    gallery_mask,
    junk_in_table,
    junk_lists,
    paths_in_one_tree,
    rows_in_shards,
    rows_with_table,
)
from .locations import locate
from .shards import Shards, shard_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAPPED_BYTES = 2**29  # of which an .npy is not read into memory
SUFFIXES = (".npz", ".npy", ".pt", ".parquet", ".safetensors")
_NEEDED = ("embeddings", "paths")


class LabeledEmbeddings(NamedTuple):
    """What :func:`hiertree.metrics.evaluate` needs, under the names that the arrays of an ``.npz`` file have."""

    embeddings: NDArray[Any]  # (Q, d) of the queries
    paths: NDArray[Any]  # (Q, L), coarse → fine
    gallery_embeddings: NDArray[Any] | None = None  # (N, d); None where the queries retrieve each other
    gallery_paths: NDArray[Any] | None = None
    ids: Sequence[Any] | None = None  # a query never retrieves an item of its own id
    gallery_ids: Sequence[Any] | None = None
    junk: Sequence[NDArray[Any]] | None = None  # for each query, the rows of the gallery that its list leaves out
    distractors: NDArray[Any] | None = None  # (N,) booleans, True for gallery items without a label
    tree: LabelTree | None = None  # of the labels that tables gave; None where a file holds paths
    names: Sequence[str] | None = None  # of the queries' images
    gallery_names: Sequence[str] | None = None

    @property
    def masked(self) -> bool:
        """Whether lists exclude more than the query itself, or hold distractors."""
        return any(value is not None for value in self[4:8])

    @property
    def masks(self) -> dict[str, Any]:
        """The excluded items, by the keywords of :func:`hiertree.metrics.evaluate`."""
        import pandas as pd

        names: dict[str, Any] = {"query_ids": self.ids, "gallery_ids": self.gallery_ids}
        texts = {name: ids for name, ids in names.items() if isinstance(ids, pd.api.extensions.ExtensionArray)}
        if texts:  # of tables: numbers take less time and memory
            numbers = pd.factorize(pd.concat(map(pd.Series, texts.values())))[0]
            names |= zip(texts, np.split(numbers, np.cumsum([len(ids) for ids in texts.values()])), strict=False)
        return {**names, "junk": self.junk, "distractors": self.distractors}

    def as_codes(self) -> LabeledEmbeddings:
        """A copy with binary codes: booleans, True where a number of an embedding is positive."""
        gallery = None if self.gallery_embeddings is None else _codes(self.gallery_embeddings)
        return self._replace(embeddings=_codes(self.embeddings), gallery_embeddings=gallery)


def _codes(embeddings: NDArray[Any]) -> NDArray[np.bool_]:
    from hiertree.losses import binary_codes

    return np.unpackbits(binary_codes(embeddings), axis=1, count=embeddings.shape[1]).astype(np.bool_)


_ARRAYS = (*_NEEDED, *(name for name in LabeledEmbeddings._fields if name not in (*_NEEDED, "tree")))


class LabelFiles(TypedDict, total=False):
    """The options of :func:`read_embeddings`."""

    labels: AnyPath | None
    levels: Sequence[str]
    gallery: AnyPath | None
    gallery_labels: AnyPath | None
    ids: str | None
    junk: AnyPath | None
    distractors: bool
    uneven: Uneven


def read_embeddings(
    source: AnyPath,
    *,
    labels: AnyPath | None = None,
    levels: Sequence[str] = (),
    gallery: AnyPath | None = None,
    gallery_labels: AnyPath | None = None,
    ids: str | None = None,
    junk: AnyPath | None = None,
    distractors: bool = False,
    uneven: Uneven = "error",
    in_parts: bool = False,
    needs_labels: bool = True,
) -> LabeledEmbeddings:
    """Read queries and perhaps a gallery.

    Args:
        source: a file of one of the kinds above; a finished run; or a folder or pattern of shards, whose rows follow
            each other.
        labels: CSV or Parquet table with one row for each embedding, in their order, for a file without labels.
        levels: columns of labels, coarse → fine; all but ``ids`` unless given.
        gallery: another source with the same kind of labels, for a separate gallery.
        gallery_labels: its table of labels.
        ids: the column of the images' ids in tables of labels; files of arrays have an array of them.
        junk: CSV or Parquet table of columns ``query`` and ``item``, rows of the queries and the gallery from 0.
        distractors: whether rows of the gallery's table whose labels are all empty are distractors.
        uneven: what rows of tables are whose last labels are empty, as for :meth:`hiertree.LabelTree.from_paths`.
        in_parts: whether embeddings in shards stay there as :class:`hiertree.arrays.StoredRows`.
        needs_labels: unless it does, images without labels have the tree None and paths of zeros.
    """
    place = locate(Path(source))
    gallery_place = None if gallery is None else locate(Path(gallery))
    columns = LabelColumns(tuple(levels), ids, distractors, needed=needs_labels)
    sides = _read(place.embeddings, labels, columns)
    if gallery_place is not None:
        sides = [*sides, *_read(gallery_place.embeddings, gallery_labels, columns)]
    queries, items = [*sides, None][:2]
    if items is None and (gallery_labels is not None or distractors):
        raise OptionError("gallery labels or distractors without a gallery", expected="both or neither")
    inside = (side for side in sides if isinstance(side, LabeledEmbeddings) and side.gallery_paths is not None)
    if len(sides) > 2 or (items is not None and any(inside)):
        raise OptionError(f"a gallery besides the one in {Path(source).name}", expected="only one")
    if isinstance(queries, LabeledRows) and not isinstance(items, LabeledEmbeddings):
        collection = _from_rows(queries, items, distractors=distractors, uneven=uneven)
    elif isinstance(queries, LabeledEmbeddings) and not isinstance(items, LabeledRows):
        collection = queries
        if items is not None:
            collection = _join_gallery(queries, items.embeddings, items.paths, items.ids, items.distractors)
    else:
        raise OptionError(
            "label ids in one file and columns of labels for the other", expected="the same kind of labels in both"
        )
    if place.tree is not None:
        tree = LabelTree.from_json(place.tree)
        if (
            gallery_place is not None
            and gallery_place.tree is not None
            and LabelTree.from_json(gallery_place.tree) != tree
        ):
            remedy = "`hiertree embed` both with their labels, which are then numbered together"
            raise OptionError(f"{source} and {gallery}, which number two trees", expected="one tree", remedy=remedy)
        collection = collection._replace(tree=tree)
    _require_fit(collection, Path(source), Path(gallery or source))
    vectors = {name: getattr(collection, name) for name in ("embeddings", "gallery_embeddings")}
    shards = {name: side for name, side in vectors.items() if isinstance(side, Shards)}
    if len({side.model for side in shards.values() if side.model}) > 1:
        raise InputError(f"{source} and {gallery} from two models", expected="embeddings of one model")
    if not in_parts:
        arrays: dict[str, Any] = {name: np.asarray(side) for name, side in shards.items()}
        collection = collection._replace(**arrays)
    if junk is None:
        return collection
    if collection.junk is not None:
        raise OptionError(f"a table of junk besides the junk in {Path(source).name}", expected="only one")
    return collection._replace(junk=junk_in_table(junk, len(collection.embeddings)))


@contextmanager
def naming_files(source: AnyPath, gallery: AnyPath | None) -> Iterator[None]:
    """Make errors about arrays name their file."""
    try:
        yield
    except InputError as error:
        if not isinstance(error, (EmbeddingError, PathError, ShapeError)):
            raise
        file = gallery if gallery is not None and "gallery" in error.given else source
        raise type(error)(f"{file}: {error.given}", expected=error.expected, remedy=error.remedy) from error


def _from_rows(
    queries: LabeledRows, gallery: LabeledRows | None, *, distractors: bool, uneven: Uneven
) -> LabeledEmbeddings:
    check_images(*filter(None, (queries, gallery)))
    paths = paths_in_one_tree(queries, gallery, distractors=distractors, uneven=uneven)
    collection = LabeledEmbeddings(queries.embeddings, paths.queries, ids=queries.ids, tree=paths.tree)
    if gallery is None:
        return collection
    return _join_gallery(collection, gallery.embeddings, paths.gallery, gallery.ids, paths.distractors)


def _join_gallery(queries: LabeledEmbeddings, *gallery: Any) -> LabeledEmbeddings:
    names = ("gallery_embeddings", "gallery_paths", "gallery_ids", "distractors")
    return queries._replace(**dict(zip(names, gallery, strict=False)))


def _read(file: Path, labels: AnyPath | None, columns: LabelColumns) -> Sequence[LabeledEmbeddings | LabeledRows]:
    """The embeddings of a file or of shards; those of queries and then of their gallery where these say so."""
    files, table = shard_files(file), None if labels is None else Path(labels)
    if files != [file] or file.suffix in (".parquet", ".safetensors"):
        shards = Shards(files)
        has_labels = table is None and shards.columns
        rows = rows_in_shards(shards, columns) if has_labels else _join_table(shards, file, table, columns)
        in_gallery = gallery_mask(shards, columns)
        sides = [np.flatnonzero(~in_gallery), np.flatnonzero(in_gallery)] if in_gallery.any() else []
        return [rows.select(side, shards.select(side)) for side in sides] or [rows]
    if file.suffix not in SUFFIXES:
        raise OptionError(f"embeddings in {file.name!r}", expected=f"a file that ends in {', '.join(SUFFIXES)}")
    content = _load_torch(file) if file.suffix == ".pt" else _load_numpy(file)
    if not isinstance(content, Mapping):
        return [_join_table(content, file, table, columns)]
    if table is not None or columns != LabelColumns(needed=columns.needed):
        remedy = "leave labels, columns and distractors out"
        raise OptionError(f"columns of labels for {file.name}", expected="the arrays inside", remedy=remedy)
    return [_named(file, content)]


def _join_table(embeddings: Any, file: Path, table: Path | None, columns: LabelColumns) -> LabeledRows:
    if table is not None:
        return rows_with_table(embeddings, table, columns)
    if columns.needed:
        remedy = "name a CSV or Parquet file by --labels"
        raise OptionError(f"{file.name} without labels", expected="a table of labels", remedy=remedy)
    return LabeledRows(embeddings, (), [], lambda row: f"{file.name}, row {row + 1}")


def _require_fit(collection: LabeledEmbeddings, source: Path, gallery: Path) -> None:
    """Refuse arrays whose shapes do not fit together; the message names the file."""
    if (collection.gallery_embeddings is None) != (collection.gallery_paths is None):
        raise ShapeError(f"{source} with only part of a gallery", expected="gallery_embeddings and gallery_paths")
    width, levels = np.shape(collection.embeddings)[1:], np.shape(collection.paths)[1:] or (1,)
    if len(width) != 1 or 0 in np.shape(collection.embeddings):
        raise ShapeError(
            f"{source}: embeddings of shape {np.shape(collection.embeddings)}", expected="(n, d), not empty"
        )
    of_queries = ("embeddings", "paths", "ids", "names")
    of_gallery = (*(f"gallery_{name}" for name in of_queries), "distractors")
    for file, names in ((source, of_queries), (gallery, of_gallery)):
        rows = np.shape(getattr(collection, names[0]))[:1]
        for name, columns in zip(names, (width, levels, (), (), ()), strict=False):
            values = getattr(collection, name)
            shape = np.shape(values) + (1,) * (name.endswith("paths") and np.ndim(values) == 1)
            if values is not None and (shape != (*rows, *columns) or 0 in shape):
                expected = f"{(*rows, *columns)}{', not empty' if 0 in shape else ''}"
                raise ShapeError(f"{file}: {name} of shape {np.shape(values)}", expected=expected)


def _load_numpy(file: Path) -> Any:
    """The array of an ``.npy``, the arrays of an ``.npz``."""
    expected = "plain numbers saved by numpy, nothing else"
    if file.suffix == ".npy":
        mapped = file.is_file() and file.stat().st_size > MAPPED_BYTES
        return read_array(file, expected=expected, kind=InputError, mapped=mapped)
    with reading_arrays(file, expected=expected, kind=InputError) as arrays:
        _check_arrays(file, list(arrays))
        shapes: Any = {name: header.empty() for name, header in arrays.headers.items()}
        if "gallery_embeddings" not in shapes:
            shapes.pop("distractors", None)  # those of this side
        _require_fit(LabeledEmbeddings(**shapes), file, file)
        return dict(arrays)


def _load_torch(file: Path) -> Any:
    """The tensor of a ``.pt``, or its dictionary of tensors, as numpy arrays."""
    require_package("torch", extra="train")
    import torch

    with reading_file(file, expected="dense tensors saved by torch, nothing else", kind=InputError):
        content = torch.load(file, map_location="cpu", weights_only=True)
        if isinstance(content, torch.Tensor):
            return to_numpy(content)
        if isinstance(content, Mapping) and all(isinstance(value, torch.Tensor) for value in content.values()):
            return {str(name): to_numpy(value) for name, value in content.items()}
        raise InputError(f"{file.name} with a {type(content).__name__}", expected="a tensor or a dictionary of tensors")


def _check_arrays(file: Path, names: Sequence[str]) -> None:
    """Refuse other arrays than those that are read, missing ones, and two of one name."""
    if not set(_NEEDED) <= set(names) <= set(_ARRAYS) or len(set(names)) < len(names):
        problem = f"{file.name} with arrays {some_of(names, len(_ARRAYS))}"
        expected = f"{' and '.join(_NEEDED)}, and perhaps {', '.join(_ARRAYS[2:])}, each once"
        raise InputError(problem, expected=expected)


def _named(file: Path, content: Mapping[str, Any]) -> LabeledEmbeddings:
    _check_arrays(file, list(content))
    collection = LabeledEmbeddings(**content)
    if collection.junk is None:
        return collection
    pairs, number = np.asarray(collection.junk), (*np.shape(collection.embeddings), 0)[0]
    of_queries = pairs[:, 0] if pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu" else np.array([-1])
    if of_queries.min(initial=0) < 0 or of_queries.max(initial=-1) >= number:
        problem = f"{file.name} with junk of shape {pairs.shape} and type {pairs.dtype}"
        raise InputError(problem, expected=f"pairs of a query, 0 to {number - 1}, and a gallery item")
    return collection._replace(junk=junk_lists(pairs[:, 0], pairs[:, 1], number))
