"""Zero-shot classification by level: at each level of a tree the node whose text is nearest to an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from hiertree import LabelTree
from hiertree.arrays import as_paths
from hiertree.errors import OptionError, ShapeError
from hiertree.level_columns import UNKNOWN
from hiertree.metrics import hierarchical_scores

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

Parents = Literal["text", "leaves"]


class Classification(NamedTuple):
    """The nodes that images were given."""

    tree: LabelTree
    nodes: NDArray[np.int32]  # (n, L) the best node of each level by itself, coarse → fine
    paths: NDArray[np.int32]  # (n, L) the path of the best leaf

    @property
    def labels(self) -> pd.DataFrame:
        """The labels of the best nodes, a row an image and a column a level."""
        import pandas as pd

        paths = self.tree.paths(self.tree.leaves)
        columns = {}
        for level, name in enumerate(self.tree.level_names):
            nodes, rows = np.unique(paths[:, level], return_index=True)
            texts = {node: self.tree.labels_of(paths[row].tolist())[level] for node, row in _known(nodes, rows)}
            columns[name] = [texts[node] for node in self.nodes[:, level].tolist()]
        table: pd.DataFrame = pd.DataFrame(columns)
        return table

    def measure(self, true_paths: ArrayLike) -> dict[str, float]:
        """Accuracy at each level, and of the best leaves hP, hR, hF and mistake severity.

        hP, hR and hF are those of :func:`hiertree.metrics.hierarchical_scores`. ``mistake-severity`` is the mean
        height, in levels, of the lowest common ancestor of the predicted and the true path where they differ; NaN
        without a mistake.

        Args:
            true_paths: (n, L) in the numbering of the tree; −1 from where a path ends. An image counts at the levels
                that its path has.

        Raises:
            ShapeError: not one path for each image.
        """
        truth = as_paths(true_paths)
        if truth.shape != self.paths.shape:
            raise ShapeError(f"true paths of shape {truth.shape}", expected=f"{self.paths.shape}, one for each image")
        has_node = truth != UNKNOWN
        accuracies = {
            f"accuracy[{level + 1}]": float(np.mean(self.nodes[rows, level] == truth[rows, level]))
            for level, rows in enumerate(has_node.T)
            if rows.any()
        }
        scores = hierarchical_scores(self.paths, truth)
        common = np.cumprod((self.paths == truth) & has_node, axis=1).sum(axis=1)
        depths = np.maximum((self.paths != UNKNOWN).sum(axis=1), has_node.sum(axis=1))
        heights = (depths - common)[(self.paths != truth).any(axis=1)]
        severity = float(heights.mean()) if len(heights) else float("nan")
        return accuracies | {**dict(zip(("hP", "hR", "hF"), scores, strict=True)), "mistake-severity": severity}


def _known(nodes: NDArray[np.int32], rows: NDArray[np.intp]) -> list[tuple[int, int]]:
    return [(node, row) for node, row in zip(nodes.tolist(), rows.tolist(), strict=True) if node != UNKNOWN]


def labels_of_nodes(tree: LabelTree) -> list[str]:
    """The labels of all nodes, each once."""
    rows = [map(str, tree.labels_of(path)) for path in as_paths(tree.paths(tree.leaves)).tolist()]
    return list(dict.fromkeys(label for row in rows for label in row))


def classify_by_text(
    embeddings: NDArray[np.float32], texts: NDArray[np.float32], tree: LabelTree, *, parents: Parents = "text"
) -> Classification:
    """Give (n, d) embeddings of images the nearest node of each level.

    Args:
        embeddings: rows of unit norm.
        texts: rows of unit norm, of :func:`labels_of_nodes`.
        tree: of the labels.
        parents: the score of an inner node: of its own ``"text"``, or the best of its ``"leaves"``.
    """
    if parents not in get_args(Parents):
        raise OptionError(f"parents={parents!r}", expected=f"one of {', '.join(get_args(Parents))}")
    paths = as_paths(tree.paths(tree.leaves))
    depths = (paths != UNKNOWN).sum(axis=1)
    labels = [list(map(str, tree.labels_of(path))) for path in paths.tolist()]
    column = {label: index for index, label in enumerate(labels_of_nodes(tree))}
    scores = embeddings @ texts.T
    leaf_scores = scores[:, [column[row[-1]] for row in labels]]
    nodes = np.empty((len(embeddings), tree.num_levels), np.int32)
    for level in range(tree.num_levels):
        rows = np.flatnonzero(depths > level)
        level_scores = leaf_scores[:, rows]
        if parents == "text":
            level_scores = scores[:, [column[labels[row][level]] for row in rows]]
        nodes[:, level] = paths[rows[level_scores.argmax(axis=1)], level]
    return Classification(tree, nodes, paths[leaf_scores.argmax(axis=1)].astype(np.int32))
