"""The gallery that an index is made of: a folder of ``hiertree embed``, or the test split of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hiertree.errors import InputError, MissingResourceError, ShapeError
from hiertree.io.provenance import MANIFEST, sha256
from hiertree.io.tables import read_table
from hiertree.tree import LabelTree

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_PAIRS = (("gallery.npy", "gallery.csv"), ("embeddings.npy", "labels.csv"), ("embeddings.npy", "images.csv"))


class NamedGallery(NamedTuple):
    """Embeddings, and a table with the name and the labels of each image.

    Attributes:
        embeddings: (n, d) float32.
        table: n rows: ``image``, then labels, coarse → fine, where they are known.
        files: that were read.
    """

    embeddings: NDArray[np.float32]
    table: pd.DataFrame
    files: list[Path]


def read_gallery(folder: Path) -> NamedGallery:
    """Read the embeddings of a gallery, or of all images where there are no queries of their own.

    Args:
        folder: of ``hiertree embed``, or of a finished run.

    Raises:
        MissingResourceError: it holds no embeddings.
        ShapeError: not one row an embedding.
    """
    for array, table in _PAIRS:
        if (folder / array).is_file() and (folder / table).is_file():
            embeddings = np.load(folder / array, allow_pickle=False)
            found = NamedGallery(
                embeddings, read_table(folder / table, required=["image"]), [folder / array, folder / table]
            )
            break
    else:
        found = _test_split(folder)
    if len(found.embeddings) != len(found.table):
        raise ShapeError(f"{folder}: {len(found.table)} names", expected=f"{len(found.embeddings)}, one an embedding")
    return found


def require_weights(folder: Path, weights: Path) -> None:
    """Check that a gallery was embedded with these weights, where its manifest says with which.

    Raises:
        InputError: it was embedded with others.
    """
    made = folder / MANIFEST
    if not made.is_file():
        return
    content = json.loads(made.read_text(encoding="utf-8"))
    noted = {file["sha256"] for file in content["inputs"] + content["outputs"] if file["name"] == weights.name}
    if noted and sha256(weights) not in noted:
        raise InputError(
            f"{folder}, embedded with another model than {weights.parent}",
            expected="a gallery of the same weights",
            remedy=f"`hiertree embed {weights.parent} PHOTOS --no-labels --out embedded`, then --gallery embedded",
        )


def _test_split(run: Path) -> NamedGallery:
    """What a run has embedded itself."""
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
