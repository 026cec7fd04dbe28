"""Statistics of a split: nodes at every level, and the distribution of images and children over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .image_dataset import ImageDataset

QUANTILES = {"least": 0.0, "lower_quartile": 0.25, "median": 0.5, "upper_quartile": 0.75, "most": 1.0}


def statistics(dataset: ImageDataset) -> dict[str, Any]:
    """Sizes of a split, as JSON-able values.

    For every level, coarse → fine: its name, the number of nodes with images, and quantiles and mean of the images per
    node and of the children per node.

    >>> from hiertree.datasets import load_synthetic
    >>> found = statistics(load_synthetic("train", families=2, kinds=2, instances=3, images=4))
    >>> found["images"], found["levels"][0]["nodes"], found["levels"][-1]["images"]["median"]
    (24, 2, 4.0)
    """
    paths = dataset.paths
    levels = []
    for level, name in enumerate(dataset.tree.level_names):
        _, images = np.unique(paths[:, level], return_counts=True)
        entry = {"name": name, "nodes": len(images), "images": _spread(images)}
        if level + 1 < paths.shape[1]:
            pairs = np.unique(paths[:, level : level + 2], axis=0)
            entry["children"] = _spread(np.unique(pairs[:, 0], return_counts=True)[1])
        levels.append(entry)
    return {
        "name": dataset.name,
        "split": dataset.split,
        "images": len(dataset),
        "queries": len(dataset) if dataset.queries is None else len(dataset.queries),
        "gallery": len(dataset) if dataset.gallery is None else len(dataset.gallery),
        "protocol": dataset.protocol,
        "levels": levels,
    }


def _spread(counts: NDArray[np.int64]) -> dict[str, float]:
    found = {name: float(np.quantile(counts, share)) for name, share in QUANTILES.items()}
    return {**found, "mean": round(float(counts.mean()), 2)}
