"""LabelTree: a label hierarchy whose leaves all lie at one depth.

The tree is a rooted arborescence. Its *levels* are numbered 1 (coarsest) … L (finest); the root is level 0 and carries
no label. A *node* of level l is a path of l labels from the root, so the same text under two parents is two nodes. A
*leaf* is what items carry (a landmark id, a species, a product) and is looked up by its id.

>>> tree = LabelTree.from_paths(
...     [("natural", "lake", 17), ("natural", "peak", 5), ("human-made", "church", 4)],
...     level_names=["kind", "supercategory", "landmark_id"],
... )
>>> tree.num_levels, tree.level_sizes
(3, (2, 3, 3))
>>> tree.paths([5, 17])
array([[0, 1, 1],
       [0, 0, 0]], dtype=int32)
>>> tree.lca_level(5, 17)
1
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import to_numpy
from ..errors import DuplicateLeafError, HierarchyError, InputError, ShapeError, TableError, UnknownLeafError
from ..options import check_choice
from .graphs import graph_of_edges, graph_of_rows, root_of, rows_of_graph
from .label_rows import (
    Homonyms,
    LeafKey,
    Numbered,
    Repeats,
    Row,
    Uneven,
    Where,
    check_labels,
    check_rows,
    even_depths,
    nest,
    number_nodes,
    refuse_homonyms,
)
from .nested_json import read_json_tree, write_json_tree
from .summaries import draw_lines, summarize_levels
from .tables import read_label_table, write_label_table

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from numpy.typing import NDArray


class LabelTree:
    """An immutable label hierarchy of uniform depth L, built by one of the ``from_…`` methods.

    Attributes:
        level_names: L names, coarse → fine.
        leaves: leaf ids, in order of first appearance.
        num_levels: L.
        level_sizes: number of nodes at each level, coarse → fine.
    """

    def __init__(self, numbered: Numbered, level_names: Sequence[str] | None) -> None:
        self._leaf_ids, self._paths, self._labels = numbered
        self._paths.setflags(write=False)
        self._row_of_leaf = {leaf_id: row for row, leaf_id in enumerate(self._leaf_ids)}
        names = level_names if level_names is not None else [f"level_{i + 1}" for i in range(self.num_levels)]
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ShapeError(f"level_names={names!r}", expected=f"{self.num_levels} different names, coarse → fine")
        if len(names) != self.num_levels or len(set(names)) != len(names):
            raise ShapeError(f"level_names={list(names)}", expected=f"{self.num_levels} different names, coarse → fine")
        self.level_names = tuple(names)

    @classmethod
    def from_paths(
        cls,
        rows: Iterable[Iterable[Hashable]],
        *,
        level_names: Sequence[str] | None = None,
        leaf: LeafKey = "label",
        uneven: Uneven = "error",
        repeats: Repeats = "error",
        homonyms: Homonyms = "separate",
        where: Where | None = None,
    ) -> LabelTree:
        """Build a tree from one row of labels per leaf, coarse → fine.

        Args:
            rows: sequences of labels (text, integers, any hashable), or an (n, L) array.
            level_names: L names; default ``level_1`` … ``level_L``.
            leaf: what identifies a leaf: ``"label"``, its last label, which must then be unique, or ``"path"``, the
                tuple of all its labels.
            uneven: what to do with rows of different lengths: ``"error"``; ``"pad"`` repeats the leaf's label;
                ``"truncate"`` cuts all rows to the shortest, so that several leaves may share their finest node.
            repeats: what to do with a row given twice: ``"error"``, or ``"merge"`` (for tables with one row per image).
            homonyms: what the same text under two parents means: two ``"separate"`` nodes, or an ``"error"``.
            where: names row i in error messages, for instance by file and line.

        Raises:
            HierarchyError: the rows form no tree of one depth; its subclasses say why.
            OptionError: an unknown policy.

        >>> LabelTree.from_paths([("a", "b", "x"), ("a", "y")], uneven="pad").paths(["x", "y"])
        array([[0, 0, 0],
               [0, 1, 1]], dtype=int32)
        """
        choices = {"leaf": (leaf, LeafKey), "uneven": (uneven, Uneven), "repeats": (repeats, Repeats)}
        for name, (value, literal) in {**choices, "homonyms": (homonyms, Homonyms)}.items():
            check_choice(name, value, literal)
        listed = rows.tolist() if isinstance(rows, np.ndarray) else rows
        checked, leaf_ids = check_rows(listed, repeats=repeats, leaf=leaf, where=where or (lambda i: f"row {i}"))
        return cls._from_rows(checked, leaf_ids, level_names, uneven, homonyms)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        *,
        levels: Sequence[str],
        leaf: LeafKey = "label",
        uneven: Uneven = "error",
        repeats: Repeats = "error",
        homonyms: Homonyms = "separate",
    ) -> LabelTree:
        """Build a tree from the named columns of a CSV or Parquet file, coarse → fine; see :meth:`from_paths`.

        Leaf ids become integers when every one of them is written as one. With an ``uneven`` policy, empty cells at the
        end of a row mean that its path ends there.

        Raises:
            TableError: the file cannot be read, or lacks a column.
            HierarchyError: as :meth:`from_paths`; the message names file and row.
        """
        rows, where = read_label_table(path, levels, trim=uneven != "error")
        return cls.from_paths(
            rows, level_names=levels, leaf=leaf, uneven=uneven, repeats=repeats, homonyms=homonyms, where=where
        )

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[Hashable, Hashable]],
        *,
        labels: Mapping[Hashable, Hashable] | None = None,
        level_names: Sequence[str] | None = None,
        uneven: Uneven = "error",
    ) -> LabelTree:
        """Build a tree from (parent, child) pairs with a single root; the root belongs to no level.

        Args:
            edges: pairs of node names.
            labels: a text for some or all nodes; the other nodes are labeled by their names.
            level_names: as for :meth:`from_paths`.
            uneven: as for :meth:`from_paths`.

        Raises:
            HierarchyError: a cycle, several roots, a node with two parents, leaves of several depths, no edge at all.
            InputError: not pairs.

        >>> LabelTree.from_edges([("root", "a"), ("root", "b")]).leaves
        ('a', 'b')
        """
        return cls.from_networkx(graph_of_edges(edges), labels=labels, level_names=level_names, uneven=uneven)

    @classmethod
    def from_networkx(
        cls,
        graph: nx.DiGraph[Any],
        *,
        labels: Mapping[Hashable, Hashable] | None = None,
        level_names: Sequence[str] | None = None,
        uneven: Uneven = "error",
    ) -> LabelTree:
        """Build a tree from a networkx arborescence with edges from parent to child.

        A leaf's id is its node; a node's label is ``labels[node]``, its attribute ``label``, or the node itself. Level
        names are taken from ``graph.graph["level_names"]`` when not given.

        Raises:
            HierarchyError: as :meth:`from_edges`.
        """
        check_choice("uneven", uneven, Uneven)
        rows, leaf_ids = rows_of_graph(graph, root_of(graph), labels or {})
        for row in rows:
            check_labels(row, f"the path {row!r}")
        return cls._from_rows(rows, leaf_ids, level_names or graph.graph.get("level_names"), uneven, "separate")

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> LabelTree:
        """Read a tree that :meth:`to_json` wrote.

        Raises:
            TableError: the file is not such a tree.
        """
        stored = read_json_tree(path)
        try:
            return cls._from_rows(stored.rows, stored.leaf_ids, stored.level_names, "error", "separate")
        except (ValueError, TypeError) as error:
            raise TableError(f"{path}: {error}", expected="a tree written by LabelTree.to_json") from error

    @classmethod
    def _from_rows(
        cls,
        rows: list[Row],
        leaf_ids: list[Hashable],
        level_names: Sequence[str] | None,
        uneven: Uneven,
        homonyms: Homonyms,
    ) -> LabelTree:
        if not rows:
            raise HierarchyError("no labels at all", expected="at least one leaf")
        if len(set(leaf_ids)) != len(leaf_ids):
            raise DuplicateLeafError("two leaves share an id", expected="one id per leaf")
        tree = cls(number_nodes(even_depths(rows, uneven), leaf_ids), level_names)
        if homonyms == "error":
            refuse_homonyms(tree._labels, tree._node_labels)
        return tree

    @property
    def num_levels(self) -> int:
        """L, the depth of every leaf."""
        return int(self._paths.shape[1])

    @property
    def leaves(self) -> tuple[Hashable, ...]:
        """Leaf ids, in order of first appearance."""
        return tuple(self._leaf_ids)

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Number of nodes at each level, coarse → fine."""
        return tuple(len(labels) for labels in self._labels)

    def paths(self, leaf_ids: Any) -> NDArray[np.int32]:
        """The integer paths of the given leaves.

        Args:
            leaf_ids: n leaf ids as a sequence, numpy array or tensor; ids may repeat.

        Returns:
            (n, L) int32, coarse → fine; column l−1 numbers the nodes of level l from 0.

        Raises:
            UnknownLeafError: an id that is not a leaf of the tree.
            InputError: not a sequence of ids.
        """
        try:
            listed = to_numpy(leaf_ids).tolist() if hasattr(leaf_ids, "dtype") else list(leaf_ids)
            return self._paths[[self._row_of_leaf[leaf_id] for leaf_id in listed]]
        except TypeError:
            raise InputError(f"leaf ids {leaf_ids!r:.80}", expected="a sequence of leaf ids") from None
        except KeyError:
            unknown = [leaf_id for leaf_id in dict.fromkeys(listed) if leaf_id not in self._row_of_leaf]
        shown = ", ".join(map(repr, unknown[:5])) + (", …" if len(unknown) > 5 else "")
        raise UnknownLeafError(
            f"{len(unknown)} unknown leaf ids: {shown}", expected=f"ids such as {self._leaf_ids[0]!r}"
        ) from None

    def labels_of(self, path: Sequence[int]) -> Row:
        """The labels of an integer path, coarse → fine; a shorter path names an inner node.

        Raises:
            UnknownLeafError: an id that no node of its level has.

        >>> LabelTree.from_paths([("a", "x"), ("b", "y")]).labels_of([1, 1])
        ('b', 'y')
        """
        if not all(0 <= node < size for node, size in zip(path, self.level_sizes, strict=False)):
            raise UnknownLeafError(f"path {tuple(path)}", expected=f"ids below {self.level_sizes}, level by level")
        return tuple(self._labels[level][node] for level, node in enumerate(path))

    def lca_level(self, a: Hashable, b: Hashable) -> int:
        """Depth of the lowest common ancestor of two leaves: 0 (only the root) … L (the same finest node).

        Raises:
            UnknownLeafError: a or b is not a leaf.
        """
        first, second = self.paths([a, b])
        return int(np.cumprod(first == second).sum())

    def subtree(self, *labels: Hashable) -> LabelTree:
        """The tree below a node, which becomes the root: its levels are those finer than the node's.

        Args:
            labels: the node's labels, coarse → fine.

        Raises:
            UnknownLeafError: there is no such node above the finest level.

        >>> tree = LabelTree.from_paths([("natural", "lake", 17), ("human-made", "church", 4)])
        >>> tree.subtree("natural").level_sizes
        (1, 1)
        """
        depth = len(labels)
        kept = [row for row, path in enumerate(self._paths) if self.labels_of(path[:depth]) == labels]
        if not kept or depth >= self.num_levels:
            raise UnknownLeafError(f"node {labels!r}", expected="the labels of a node above the finest level")
        rows = [self.labels_of(self._paths[row])[depth:] for row in kept]
        leaf_ids = [self._leaf_ids[row] for row in kept]
        return self._from_rows(rows, leaf_ids, self.level_names[depth:], "error", "separate")

    def summary(self) -> pd.DataFrame:
        """One row per level: its name, number of nodes, children per parent (least, median, most) and homonyms.

        ``homonyms`` counts the texts that name more than one node of the level.
        """
        return summarize_levels(self._paths, self._rows(), self.level_names)

    def to_networkx(self) -> nx.DiGraph[Any]:
        """The tree as a networkx arborescence, parent → child.

        Nodes are tuples of labels and the root is ``()``. Attributes: ``label``, ``level``, ``id`` (the number in its
        level), and on the finest nodes ``leaf_ids``. :meth:`from_networkx` reads it back.
        """
        return graph_of_rows(self._rows(), self._paths, self._leaf_ids, self.level_names)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write one row per leaf with its labels, coarse → fine, under the level names.

        A last column ``leaf_id`` is added when ids and finest labels differ.
        """
        write_label_table(path, self._rows(), self._leaf_ids, self.level_names)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the tree as nested JSON, readable by :meth:`from_json` and by drawing libraries (``children``)."""
        write_json_tree(path, self._rows(), self._leaf_ids, self.level_names)

    def to_text(self, *, most_children: int = 6) -> str:
        """A drawing of the tree in text, with at most ``most_children`` lines below each node.

        >>> print(LabelTree.from_paths([("natural", "lake"), ("natural", "peak"), ("human-made", "dam")]).to_text())
        ├── natural
        │   ├── lake
        │   └── peak
        └── human-made
            └── dam
        """
        return "\n".join(draw_lines(nest(self._rows(), self._leaf_ids), most_children=most_children))

    def __len__(self) -> int:
        return len(self._leaf_ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelTree) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.level_names, self.level_sizes, len(self)))

    def __repr__(self) -> str:
        sizes = " → ".join(f"{size} {name}" for size, name in zip(self.level_sizes, self.level_names, strict=True))
        return f"LabelTree({sizes}; {len(self)} leaves)"

    def _identity(self) -> tuple[object, ...]:
        return self.level_names, self._leaf_ids, self._labels, self._paths.tolist()

    def _rows(self) -> list[Row]:
        """The labels of every leaf's path, in the order of the leaves."""
        return [self.labels_of(path) for path in self._paths.tolist()]

    def _node_labels(self, level: int, node: int) -> Row:
        position = int(np.argmax(self._paths[:, level] == node))
        return self.labels_of(self._paths[position, : level + 1].tolist())
