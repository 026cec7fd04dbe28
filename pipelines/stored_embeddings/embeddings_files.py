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
from hiertree.io.reading import PARQUET_SUFFIXES, reading_file
from hiertree.level_columns import UNKNOWN
from hiertree.options import Uneven
from hiertree.tree import LabelTree

from .label_columns import (
    EmbeddedImages,
    LabelColumns,
    gallery_mask,
    junk_in_table,
    junk_lists,
    number_labels,
    rows_in_shards,
    rows_with_table,
)
from .locations import Location, locate
from .shards import Shards, shard_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAPPED_BYTES = 2**29  # of which an .npy is not read into memory
SUFFIXES = (".npz", ".npy", ".pt", *PARQUET_SUFFIXES, ".safetensors")
_OF_IMAGES = ("embeddings", "paths", "ids", "names")
_ARRAYS = (*_OF_IMAGES, *(f"gallery_{name}" for name in _OF_IMAGES), "junk", "distractors")


class LabeledEmbeddings(NamedTuple):
    """What :func:`hiertree.metrics.evaluate` needs."""

    image_sets: Sequence[EmbeddedImages]  # the queries, and a separate gallery if there is one
    tree: LabelTree | None = None  # of the labels that tables gave; None where a file holds paths

    @property
    def queries(self) -> EmbeddedImages:
        """The queries."""
        return self.image_sets[0]

    @property
    def items(self) -> EmbeddedImages:
        """What the queries retrieve."""
        return self.image_sets[-1]

    @property
    def separate(self) -> bool:
        """Whether the gallery is not the queries themselves."""
        return len(self.image_sets) > 1

    @property
    def arguments(self) -> list[Any]:
        """Embeddings and paths of the queries and of a gallery, in the order of :func:`hiertree.metrics.evaluate`."""
        arrays = [array for images in self.image_sets for array in images[:2]]
        if self.items.distractors is not None:
            is_distractor = to_numpy(self.items.distractors, name="distractors")
            if is_distractor.dtype != np.bool_ or is_distractor.shape != (len(arrays[3]),):
                problem = f"distractors of shape {is_distractor.shape} and type {is_distractor.dtype}"
                raise ShapeError(problem, expected=f"booleans of shape ({len(arrays[3])},)")
            paths = to_numpy(arrays[3])
            arrays[3] = np.where(is_distractor.reshape(-1, *(1,) * (paths.ndim - 1)), UNKNOWN, paths)
        return arrays

    @property
    def masks(self) -> dict[str, Any]:
        """The excluded items, by the keywords of :func:`hiertree.metrics.evaluate`."""
        names = {name: images.ids for name, images in zip(("query_ids", "gallery_ids"), self.image_sets, strict=False)}
        columns = {name: ids for name, ids in names.items() if not isinstance(ids, np.ndarray | None)}
        if columns:  # of tables, in pandas' arrays: numbers take less time and memory
            import pandas as pd

            codes = pd.factorize(pd.concat(map(pd.Series, columns.values())))[0]
            names |= zip(columns, np.split(codes, np.cumsum([len(ids) for ids in columns.values()])), strict=False)
        return {**names, "junk": self.queries.junk}

    def named_paths(self) -> LabeledEmbeddings:
        """A copy without vectors: names and paths, by which other measurements of the images are known."""
        return LabeledEmbeddings(
            [EmbeddedImages(paths=images.paths, names=images.row_names) for images in self.image_sets]
        )

    def as_codes(self) -> LabeledEmbeddings:
        """A copy with binary codes: booleans, True where a number of an embedding is positive."""
        from hiertree.losses import binary_codes

        def codes(images: EmbeddedImages) -> EmbeddedImages:
            packed, width = binary_codes(images.embeddings), images.embeddings.shape[1]
            return images._replace(embeddings=np.unpackbits(packed, axis=1, count=width).astype(np.bool_))

        return self._replace(image_sets=list(map(codes, self.image_sets)))


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
    separator: str | None


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
    separator: str | None = None,
    in_parts: bool = False,
    needs_labels: bool = True,
) -> LabeledEmbeddings:
    """Read queries and perhaps a gallery.

    Args:
        source: a file of one of the kinds above; a finished run; or a folder or pattern of shards, whose rows follow
            each other.
        labels: table of labels for a file without: joined by name, or in its order where embeddings have no names.
        levels: columns of labels, coarse → fine; all but those of names unless given.
        gallery: another source with the same kind of labels, for a separate gallery.
        gallery_labels: its table of labels.
        ids: the column of the images' ids in tables of labels; ``image``, or the first column whose values are all
            different and look like files or ids, unless given. Files of arrays have an array of them.
        junk: CSV or Parquet table of columns ``query`` and ``item``, rows of the queries and the gallery from 0.
        distractors: whether rows of the gallery's table whose labels are all empty are distractors.
        uneven: what rows of tables are whose last labels are empty, as for :meth:`hiertree.LabelTree.from_paths`.
        separator: what divides the last column of labels into levels, such as ``" > "``.
        in_parts: whether embeddings in shards stay there as :class:`hiertree.arrays.StoredRows`.
        needs_labels: unless it does, images without labels have the tree None and paths of zeros.
    """
    location = locate(Path(source))
    gallery_location = None if gallery is None else locate(Path(gallery))
    columns = LabelColumns(tuple(levels), ids, needed=needs_labels)
    image_sets = _read(location.embeddings, labels, columns)
    if gallery_location is not None:
        image_sets = [*image_sets, *_read(gallery_location.embeddings, gallery_labels, columns)]
    if len(image_sets) == 1 and (gallery_labels is not None or distractors):
        raise OptionError("gallery labels or distractors without a gallery", expected="both or neither")
    if len(image_sets) > 2:
        raise OptionError(f"a gallery besides the one in {Path(source).name}", expected="only one")
    if len({images.paths is None for images in image_sets}) > 1:
        problem = "label ids in one file and columns of labels for the other"
        raise OptionError(problem, expected="the same kind of labels in both")
    if image_sets[0].paths is None:
        tree, image_sets = number_labels(image_sets, distractors=distractors, uneven=uneven, separator=separator)
    else:
        tree = _tree_of(location, gallery_location)
    _require_fit(image_sets, [Path(source), Path(gallery or source)])
    if len(image_sets) == 1 and image_sets[0].distractors is not None:
        raise ShapeError(f"{source} with distractors", expected="a gallery that holds them")
    shards = [images.embeddings for images in image_sets if isinstance(images.embeddings, Shards)]
    if len({shard.model for shard in shards if shard.model}) > 1:
        raise InputError(f"{source} and {gallery} from two models", expected="embeddings of one model")
    if shards and not in_parts:
        image_sets = [images._replace(embeddings=np.asarray(images.embeddings)) for images in image_sets]
    if junk is not None and image_sets[0].junk is not None:
        raise OptionError(f"a table of junk besides the junk in {Path(source).name}", expected="only one")
    if junk is not None:
        image_sets[0] = image_sets[0]._replace(junk=junk_in_table(junk, len(image_sets[0].embeddings)))
    return LabeledEmbeddings(image_sets, tree)


def _tree_of(location: Location, gallery: Location | None) -> LabelTree | None:
    """The tree whose nodes a run has numbered; refuses a gallery of another."""
    tree = None if location.tree is None else LabelTree.from_json(location.tree)
    if tree and gallery is not None and gallery.tree is not None and LabelTree.from_json(gallery.tree) != tree:
        problem = f"{location.embeddings} and {gallery.embeddings}, which number two trees"
        remedy = "`hiertree embed` both with their labels, which are then numbered together"
        raise OptionError(problem, expected="one tree", remedy=remedy)
    return tree


@contextmanager
def naming_files(source: AnyPath, gallery: AnyPath | None) -> Iterator[None]:
    """Make errors about arrays name their file."""
    try:
        yield
    except InputError as error:
        if not isinstance(error, (EmbeddingError, PathError, ShapeError)):
            raise
        file = gallery if gallery is not None and "gallery" in error.given else source
        raise error.naming(file) from error


def _read(file: Path, labels: AnyPath | None, columns: LabelColumns) -> list[EmbeddedImages]:
    """The embeddings of a file or of shards; those of queries and then of their gallery where these say so."""
    files = shard_files(file)
    suffix = file.suffix.lower()
    if files == [file] and suffix not in SUFFIXES:
        raise OptionError(f"embeddings in {file.name!r}", expected=f"a file that ends in {', '.join(SUFFIXES)}")
    if files == [file] and suffix in (".npz", ".npy", ".pt"):
        arrays = _load_torch(file) if suffix == ".pt" else _load_numpy(file)
    else:
        arrays = Shards(files)
    if isinstance(arrays, np.ndarray) and arrays.ndim != 2:
        raise ShapeError(f"{file}: an array of shape {arrays.shape}", expected="embeddings of shape (n, d)")
    if isinstance(arrays, Mapping):
        if labels is not None or columns != LabelColumns(needed=columns.needed):
            remedy = "leave labels, columns and distractors out"
            raise OptionError(f"columns of labels for {file.name}", expected="the arrays inside", remedy=remedy)
        _check_arrays(file, list(arrays))
        image_sets = sides_of(arrays)
        _require_fit(image_sets, [file, file])
        if image_sets[0].junk is not None:
            image_sets[0] = image_sets[0]._replace(
                junk=_list_junk(file, image_sets[0].junk, len(image_sets[0].embeddings))
            )
        return image_sets
    if labels is not None:
        rows = rows_with_table(arrays, Path(labels), columns)
    elif isinstance(arrays, Shards) and arrays.columns:
        rows = rows_in_shards(arrays, columns)
    elif columns.needed:
        remedy = "name a CSV or Parquet file by --labels"
        raise OptionError(f"{file.name} without labels", expected="a table of labels", remedy=remedy)
    else:
        rows = EmbeddedImages(arrays, where=lambda row: f"{file.name}, row {row + 1}")
    if not isinstance(arrays, Shards):
        return [rows]
    in_gallery = gallery_mask(arrays, columns)
    row_sets = [np.flatnonzero(~in_gallery), np.flatnonzero(in_gallery)] if in_gallery.any() else []
    return [rows.select(indices, arrays.select(indices)) for indices in row_sets] or [rows]


def _require_fit(image_sets: Sequence[EmbeddedImages], files: Sequence[Path]) -> None:
    """Refuse arrays whose shapes do not fit together; the message names the file."""
    shape = np.shape(image_sets[0].embeddings)
    if len(shape) != 2 or 0 in shape:
        raise ShapeError(f"{files[0]}: embeddings of shape {shape}", expected="(n, d), not empty")
    per_row = {"embeddings": shape[1:], "paths": np.shape(image_sets[0].paths)[1:] or (1,)}
    for images, file, prefix in zip(image_sets, files, ("", "gallery_"), strict=False):
        if images.embeddings is None or images.paths is None:
            raise ShapeError(f"{file} with only part of a gallery", expected="gallery_embeddings and gallery_paths")
        for name in ("embeddings", "paths", "ids", "names", "distractors"):
            values, expected = getattr(images, name), (*np.shape(images.embeddings)[:1], *per_row.get(name, ()))
            shape = np.shape(values) + (1,) * (name == "paths" and np.ndim(values) == 1)
            if values is not None and (shape != expected or 0 in shape):
                label = name if name == "distractors" else prefix + name
                problem = f"{file}: {label} of shape {np.shape(values)}"
                raise ShapeError(problem, expected=f"{expected}{', not empty' if 0 in shape else ''}")


def _load_numpy(file: Path) -> Any:
    """The array of an ``.npy``, the arrays of an ``.npz``."""
    expected = "plain numbers saved by numpy, nothing else"
    if file.suffix.lower() == ".npy":
        mapped = file.is_file() and file.stat().st_size > MAPPED_BYTES
        return read_array(file, expected=expected, kind=InputError, mapped=mapped)
    with reading_arrays(file, expected=expected, kind=InputError) as arrays:
        _check_arrays(file, list(arrays))
        _require_fit(sides_of({name: header.empty() for name, header in arrays.headers.items()}), [file, file])
        return dict(arrays)


def _load_torch(file: Path) -> Any:
    """The tensor of a ``.pt``, or its dictionary of tensors, as numpy arrays."""
    require_package("torch", extra="train")
    import torch

    with reading_file(file, expected="dense tensors saved by torch, nothing else", kind=InputError):
        arrays = torch.load(file, map_location="cpu", weights_only=True)
        if isinstance(arrays, torch.Tensor):
            return to_numpy(arrays)
        if isinstance(arrays, Mapping) and all(isinstance(value, torch.Tensor) for value in arrays.values()):
            return {str(name): to_numpy(value) for name, value in arrays.items()}
        raise InputError(f"{file.name} with a {type(arrays).__name__}", expected="a tensor or a dictionary of tensors")


def _check_arrays(file: Path, names: Sequence[str]) -> None:
    """Refuse other arrays than those that are read, missing ones, and two of one name."""
    if not {"embeddings", "paths"} <= set(names) <= set(_ARRAYS) or len(set(names)) < len(names):
        problem = f"{file.name} with arrays {some_of(names, len(_ARRAYS))}"
        expected = f"embeddings and paths, and perhaps {', '.join(_ARRAYS[2:])}, each once"
        raise InputError(problem, expected=expected)


def sides_of(arrays: Mapping[str, Any]) -> list[EmbeddedImages]:
    """The queries, and the gallery if there are arrays of one."""
    fields = {name: array for name, array in arrays.items() if not name.startswith("gallery_")}
    gallery = {name.removeprefix("gallery_"): array for name, array in arrays.items() if name not in fields}
    if not gallery:
        return [EmbeddedImages(**fields)]
    distractors = fields.pop("distractors", None)  # of the gallery
    return [EmbeddedImages(**fields), EmbeddedImages(**gallery, distractors=distractors)]


def _list_junk(file: Path, junk: Any, num_queries: int) -> list[NDArray[np.int64]]:
    """The junk of each query in an array of pairs."""
    pairs = np.asarray(junk)
    is_pairs = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
    if not is_pairs or pairs[:, 0].min(initial=0) < 0 or pairs[:, 0].max(initial=-1) >= num_queries:
        problem = f"{file.name} with junk of shape {pairs.shape} and type {pairs.dtype}"
        raise InputError(problem, expected=f"pairs of a query, 0 to {num_queries - 1}, and a gallery item")
    return junk_lists(pairs[:, 0], pairs[:, 1], num_queries)
