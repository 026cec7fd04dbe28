"""A gallery to search in: embeddings with the names and labels of their images, as a faiss index."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import as_paths
from hiertree.errors import ExportError, InputError, MissingResourceError, OptionError, ShapeError, require_package
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, sha256
from hiertree.io.reading import reading_file, reading_json
from hiertree.io.tables import read_table, write_table
from hiertree.level_columns import UNKNOWN
from hiertree.options import check_integer

from ..stored_embeddings.embeddings_files import read_embeddings
from ..stored_embeddings.locations import files_read

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

INDEX, TABLE = "index.faiss", "index.csv"
_TOLERANCE = 1e-5


class NamedGallery(NamedTuple):
    """Embeddings, and a table with the name and the labels of each image."""

    embeddings: NDArray[np.float32]  # (n, d) float32
    table: pd.DataFrame  # n rows: ``image``, then labels, coarse → fine, where they are known
    files: list[Path]  # that were read


def read_gallery(source: Path) -> NamedGallery:
    """Read the embeddings of a gallery, or of all images where there are no queries of their own."""
    import pandas as pd

    collection = read_embeddings(source, needs_labels=False, uneven="unknown")
    items = collection.items
    labels: dict[str, Any] = {"image": items.image_names or np.arange(len(items.paths)).astype(str)}
    if collection.tree is not None:
        known = ((path, collection.tree.labels_of(path)) for path in as_paths(items.paths).tolist())
        rows = ([*row, *[None] * path.count(UNKNOWN)] for path, row in known)
        labels |= zip(collection.tree.level_names, zip(*rows, strict=True), strict=True)
    table = pd.DataFrame(labels)
    return NamedGallery(np.asarray(items.embeddings, np.float32), table, files_read(source))


def require_weights(folder: Path, weights: Path) -> None:
    """Check that a gallery was embedded with these weights, where its manifest says with which."""
    if not (folder / MANIFEST).is_file():
        return
    with reading_json(folder / MANIFEST, expected="a manifest of hiertree") as content:
        noted = {file["sha256"] for file in content["inputs"] + content["outputs"] if file["name"] == weights.name}
    if noted and sha256(weights) not in noted:
        raise InputError(
            f"{folder}, embedded with another model than {weights.parent}",
            expected="a gallery of the same weights",
            remedy=f"`hiertree embed {weights.parent} PHOTOS --out embedded`, then --gallery embedded",
        )


class GalleryIndex:
    """Embeddings to search in, and a row of a table for each.

    Args:
        index: of faiss, by inner product.
        table: one row per image, in the order of the index: its name in the column ``image``, then its labels, coarse →
            fine, where they are known.

    Raises:
        ShapeError: not one row per embedding.
    """

    def __init__(self, index: Any, table: pd.DataFrame) -> None:
        if index.ntotal != len(table):
            raise ShapeError(f"{len(table)} rows of names", expected=f"{index.ntotal}, one for each embedding")
        self.index, self.table = index, table

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> GalleryIndex:
        """Read ``index.faiss`` and ``index.csv``, as ``hiertree export --faiss`` writes them.

        Raises:
            MissingResourceError: the folder holds no index.
            MissingPackageError: faiss is not installed.
        """
        require_package("faiss", extra="search")
        import faiss

        path = Path(folder) / INDEX
        if not path.is_file():
            raise MissingResourceError(f"{folder} holds no {INDEX}", expected="a folder of hiertree export --faiss")
        with reading_file(path, expected="an index of faiss", kind=InputError):
            index = faiss.read_index(str(path))
        return cls(index, read_table(Path(folder) / TABLE, required=["image"]).reset_index(drop=True))

    def search(self, embeddings: NDArray[np.float32], *, k: int = 10) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The (n, k) scores and rows of the nearest images, best first; −1 where an approximate index found fewer.

        Raises:
            OptionError: k is below 1.
            ShapeError: embeddings of another network.
        """
        check_integer("k", k)
        if embeddings.shape[1] != self.index.d:
            problem = f"embeddings of {embeddings.shape[1]} dimensions in an index of {self.index.d}"
            raise ShapeError(problem, expected="an index made with this model")
        scores, rows = self.index.search(np.ascontiguousarray(embeddings), min(k, self.index.ntotal))
        return scores, rows


def write_index(embeddings: NDArray[np.float32], table: pd.DataFrame, folder: Path, *, kind: str = "Flat") -> float:
    """Write an index of embeddings by inner product, and the table of their images."""
    require_package("faiss", extra="search")
    import faiss

    try:
        index = faiss.index_factory(embeddings.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        index.train(embeddings)
        index.add(embeddings)
    except RuntimeError as error:
        problem = f"index={kind!r} ({str(error).strip().splitlines()[-1]})"
        raise OptionError(problem, expected="an index of faiss, such as Flat or HNSW32") from error
    check = _compare(GalleryIndex(index, table), embeddings, exact=kind == "Flat")
    with files.replacing(folder / INDEX) as temporary:
        faiss.write_index(index, str(temporary))
    write_table(folder / TABLE, list(table.columns), table.itertuples(index=False))
    return check


def _compare(index: GalleryIndex, embeddings: NDArray[np.float32], *, exact: bool) -> float:
    """The largest difference of scores; of an approximate index the share of neighbors that it finds."""
    queries = embeddings[:: max(1, len(embeddings) // 100)][:100]
    products = queries @ embeddings.T
    scores, rows = index.search(queries, k=10)
    best = -np.sort(-products, axis=1)[:, : scores.shape[1]]
    if not exact:
        return float(np.mean(scores >= best[:, -1:] - _TOLERANCE))
    difference = float(np.abs(scores - best).max())
    returned = np.take_along_axis(products, rows, axis=1)
    if not max(difference, float(np.abs(scores - returned).max())) <= _TOLERANCE:
        raise ExportError(f"scores of the index that differ by {difference:.2g}", expected=f"at most {_TOLERANCE:g}")
    return difference
