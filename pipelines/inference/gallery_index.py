"""A faiss index of a gallery's embeddings, with the names and labels of its images, for search by photo."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import ExportError, InputError, MissingResourceError, OptionError, ShapeError, require_package
from hiertree.io import files
from hiertree.io.tables import read_table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

INDEX, TABLE = "index.faiss", "index.csv"
_TOLERANCE = 1e-5


class GalleryIndex:
    """Embeddings to search in, and a row of a table for each.

    Args:
        index: of faiss, by inner product.
        table: a row an image, in the order of the index: its name in the column ``image``, then its labels, coarse →
            fine, where they are known.

    Raises:
        ShapeError: not one row an embedding.
    """

    def __init__(self, index: Any, table: pd.DataFrame) -> None:
        if index.ntotal != len(table):
            raise ShapeError(f"{len(table)} rows of names", expected=f"{index.ntotal}, one an embedding of the index")
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
        try:
            index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise InputError(f"{path} ({str(error).splitlines()[0]})", expected="an index of faiss") from error
        return cls(index, read_table(Path(folder) / TABLE, required=["image"]).reset_index(drop=True))

    def search(self, embeddings: NDArray[np.float32], *, k: int = 10) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The (n, k) scores and rows of the nearest images, best first; −1 where an approximate index found fewer.

        Raises:
            OptionError: k is below 1.
            ShapeError: embeddings of another network.
        """
        if k < 1:
            raise OptionError(f"k={k}", expected="an integer ≥ 1")
        if embeddings.shape[1] != self.index.d:
            given = f"embeddings of {embeddings.shape[1]} dimensions in an index of {self.index.d}"
            raise ShapeError(given, expected="an index made with this model")
        scores, rows = self.index.search(np.ascontiguousarray(embeddings), min(k, self.index.ntotal))
        return scores, rows


def write_index(embeddings: NDArray[np.float32], table: pd.DataFrame, folder: Path, *, kind: str = "Flat") -> float:
    """Write an index of embeddings by inner product, and the table of their images.

    Args:
        embeddings: (n, d) of unit norm.
        table: n rows with a column ``image``.
        folder: of both files.
        kind: as :func:`faiss.index_factory` names it; ``"Flat"`` is exact, ``"HNSW32"`` for instance approximate.

    Returns:
        Of an exact index the largest difference of a score from the product of the embeddings; of another the share of
        the ten nearest images that it finds.

    Raises:
        ExportError: a score of an exact index differs by more than 1e-5.
        OptionError: faiss knows no such index, or it needs more embeddings.
    """
    require_package("faiss", extra="search")
    import faiss

    try:
        index = faiss.index_factory(embeddings.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        index.train(embeddings)
        index.add(embeddings)
    except RuntimeError as error:
        problem = str(error).strip().splitlines()[-1]
        raise OptionError(
            f"index={kind!r} ({problem})", expected="an index of faiss, Flat or HNSW32 for instance"
        ) from error
    made = GalleryIndex(index, table)
    found = _compare(made, embeddings, exact=kind == "Flat")
    with files.replacing(folder / INDEX) as temporary:
        faiss.write_index(index, str(temporary))
    with files.open_replacing(folder / TABLE) as file:
        table.to_csv(file, index=False, lineterminator="\n")
    return found


def _compare(made: GalleryIndex, embeddings: NDArray[np.float32], *, exact: bool) -> float:
    queries = embeddings[:: max(1, len(embeddings) // 100)][:100]
    products = queries @ embeddings.T
    scores, rows = made.search(queries, k=10)
    best = -np.sort(-products, axis=1)[:, : scores.shape[1]]
    if not exact:
        return float(np.mean(scores >= best[:, -1:] - _TOLERANCE))
    difference = float(np.abs(scores - best).max())
    returned = np.take_along_axis(products, rows, axis=1)
    if not max(difference, float(np.abs(scores - returned).max())) <= _TOLERANCE:
        raise ExportError(f"scores of the index that differ by {difference:.2g}", expected=f"at most {_TOLERANCE:g}")
    return difference
