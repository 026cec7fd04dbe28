"""A gallery to search in: embeddings with the names and labels of their images, as a faiss index."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.errors import ExportError, InputError, MissingResourceError, OptionError, ShapeError, require_package
from hiertree.io import files
from hiertree.io.provenance import MANIFEST, sha256
from hiertree.io.tables import read_table
from hiertree.tree import LabelTree

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

INDEX, TABLE = "index.faiss", "index.csv"
_TOLERANCE = 1e-5
_PAIRS = (("gallery.npy", "gallery.csv"), ("embeddings.npy", "labels.csv"), ("embeddings.npy", "images.csv"))


class NamedGallery(NamedTuple):
    """Embeddings, and a table with the name and the labels of each image."""

    embeddings: NDArray[np.float32]  # (n, d) float32
    table: pd.DataFrame  # n rows: ``image``, then labels, coarse → fine, where they are known
    files: list[Path]  # that were read


def read_gallery(folder: Path) -> NamedGallery:
    """Read the embeddings of a gallery, or of all images where there are no queries of their own."""
    pairs = ([folder / array, folder / table] for array, table in _PAIRS)
    read = next((pair for pair in pairs if all(map(Path.is_file, pair))), None)
    if read is None:
        found = _test_split(folder)
    else:
        found = NamedGallery(np.load(read[0], allow_pickle=False), read_table(read[1], required=["image"]), read)
    if len(found.embeddings) != len(found.table):
        raise ShapeError(f"{folder}: {len(found.table)} names", expected=f"{len(found.embeddings)}, one an embedding")
    return found


def require_weights(folder: Path, weights: Path) -> None:
    """Check that a gallery was embedded with these weights, where its manifest says with which."""
    if not (folder / MANIFEST).is_file():
        return
    content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    noted = {file["sha256"] for file in content["inputs"] + content["outputs"] if file["name"] == weights.name}
    if noted and sha256(weights) not in noted:
        raise InputError(
            f"{folder}, embedded with another model than {weights.parent}",
            expected="a gallery of the same weights",
            remedy=f"`hiertree embed {weights.parent} PHOTOS --no-labels --out embedded`, then --gallery embedded",
        )


def _test_split(run: Path) -> NamedGallery:
    import pandas as pd

    file, tree_file = run / "embeddings.npz", run / "tree.json"
    if not (file.is_file() and tree_file.is_file()):
        raise MissingResourceError(
            f"{run} holds no embeddings of a gallery",
            expected="a folder of hiertree embed, or of a finished run",
            remedy=f"`hiertree embed {run} photos/ --no-labels --out embedded`, then --gallery embedded",
        )
    tree = LabelTree.from_json(tree_file)
    with np.load(file, allow_pickle=False) as arrays:
        prefix = "gallery_" if "gallery_embeddings" in arrays else ""
        embeddings, paths = arrays[f"{prefix}embeddings"], arrays[f"{prefix}paths"]
        names = arrays[f"{prefix}names"] if f"{prefix}names" in arrays else np.arange(len(paths)).astype(str)
    table = pd.DataFrame([tree.labels_of(path) for path in paths.tolist()], columns=list(tree.level_names))
    table.insert(0, "image", names)
    return NamedGallery(embeddings, table, [file, tree_file])


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
    """Write an index of embeddings by inner product, and the table of their images."""
    require_package("faiss", extra="search")
    import faiss

    try:
        index = faiss.index_factory(embeddings.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        index.train(embeddings)
        index.add(embeddings)
    except RuntimeError as error:
        given = f"index={kind!r} ({str(error).strip().splitlines()[-1]})"
        raise OptionError(given, expected="an index of faiss, Flat or HNSW32 for instance") from error
    found = _compare(GalleryIndex(index, table), embeddings, exact=kind == "Flat")
    with files.replacing(folder / INDEX) as temporary:
        faiss.write_index(index, str(temporary))
    with files.open_replacing(folder / TABLE) as file:
        table.to_csv(file, index=False, lineterminator="\n")
    return found


def _compare(made: GalleryIndex, embeddings: NDArray[np.float32], *, exact: bool) -> float:
    """The largest difference of scores; of an approximate index the share of neighbors that it finds."""
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
