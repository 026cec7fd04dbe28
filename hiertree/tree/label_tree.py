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

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import ShapeError
from ..io.files import AnyPath
from ..io.reading import reading_file
from ..io.tables import is_empty
from ..level_columns import split_columns
from ..options import Uneven, check_choice, with_options_of
from . import formats, graphs
from .label_rows import (
    Gaps,
    Homonyms,
    LeafKey,
    Repeats,
    Row,
    Where,
    check_row_policies,
    check_rows,
    filled_gaps,
    plain_label,
    split_rows,
    trimmed,
)
from .numbered_tree import NumberedTree

if TYPE_CHECKING:
    import networkx as nx
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from .graphs import GraphPolicies
    from .label_rows import RowPolicies


class LabelTree(NumberedTree):
    """An immutable label hierarchy of uniform depth L, built by one of the ``from_…`` methods.

    Attributes:
        level_names: L names, coarse → fine.
        leaves: leaf ids, in order of first appearance.
        num_levels: L.
        level_sizes: number of nodes at each level, coarse → fine.
    """

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
        gaps: Gaps = "error",
        separator: str | None = None,
        where: Where | None = None,
    ) -> LabelTree:
        """Build a tree from one row of labels per leaf, coarse → fine.

        Args:
            rows: sequences of labels (text, integers, any hashable), or an (n, L) array or tensor. Sets have no order
                and are refused.
            level_names: L names; default ``level_1`` … ``level_L``.
            leaf: what identifies a leaf: ``"label"``, its last label, which must then be unique, or ``"path"``, the
                tuple of all its labels.
            uneven: what to do with rows of different lengths: ``"error"``; ``"pad"`` repeats the leaf's label;
                ``"truncate"`` cuts all rows to the shortest, so that several leaves may share their finest node; with
                ``"unknown"`` the rest of a shorter path is not known, −1.
            repeats: what to do with a row given twice: ``"error"``, or ``"merge"`` (for tables with one row per image).
            homonyms: what the same text under two parents means: two ``"separate"`` nodes, or an ``"error"``.
            gaps: what to do with an empty label above another: ``"error"``; ``"above"`` repeats the label above it, so
                that all rows with this gap share a node there; ``"below"`` repeats the label below it.
            separator: what stands between the labels of a path that is written as one text, the last of its row or the
                row itself: ``" > "`` of ``"Animals > Birds"``.
            where: names row i in error messages, for instance by file and line.

        Raises:
            HierarchyError: the rows form no tree of one depth; its subclasses say why.
            OptionError: an unknown policy.

        >>> LabelTree.from_paths([("a", "b", "x"), ("a", "y")], uneven="pad").paths(["x", "y"])
        array([[0, 0, 0],
               [0, 1, 1]], dtype=int32)
        >>> LabelTree.from_paths([("bird", "wren"), ("bird",)], uneven="unknown").paths(["wren", "bird"])
        array([[ 0,  0],
               [ 0, -1]], dtype=int32)
        >>> LabelTree.from_paths(["Animals > Birds", "Animals > Cats"], separator=" > ").leaves
        ('Birds', 'Cats')
        """
        check_row_policies(leaf=leaf, uneven=uneven, repeats=repeats, homonyms=homonyms, gaps=gaps, separator=separator)
        if separator is not None:
            rows, level_names = split_rows(rows, separator, level_names)
        rows_without_gaps = rows if gaps == "error" else filled_gaps(rows, gaps)
        leaf_rows, leaf_ids = check_rows(
            rows_without_gaps, repeats=repeats, leaf=leaf, row_name=where or (lambda i: f"row {i}")
        )
        return cls._from_rows(leaf_rows, leaf_ids, level_names, uneven, homonyms)

    @classmethod
    @with_options_of(check_row_policies)
    def from_csv(cls, path: AnyPath, *, levels: Sequence[str], **policies: Unpack[RowPolicies]) -> LabelTree:
        """Build a tree from the named columns of a CSV or Parquet file, coarse → fine.

        Policies are those of :meth:`from_paths`: ``leaf``, ``uneven``, ``repeats``, ``homonyms``, ``gaps`` and
        ``separator``.

        Leaf ids become integers when every one of them is written as one. With an ``uneven`` policy, empty cells at the
        end of a row mean that its path ends there.

        Raises:
            TableError: the file cannot be read, or lacks a column.
            HierarchyError: as :meth:`from_paths`; the message names file and row.
        """
        rows, row_name = formats.read_label_table(path, levels, **formats.reading_options(policies))
        return cls.from_paths(rows, level_names=levels, where=row_name, **policies)

    @classmethod
    @with_options_of(check_row_policies)
    def from_frame(
        cls, frame: Any, *, levels: Sequence[str] | None = None, **policies: Unpack[RowPolicies]
    ) -> LabelTree:
        """Build a tree from columns of a frame of pandas, polars, pyarrow or another library that narwhals reads.

        With an ``uneven`` policy, missing cells at the end of a row mean that its path ends there.

        Args:
            frame: one row per leaf, or per image with ``repeats="merge"``.
            levels: columns, coarse → fine; all of them unless given.
            **policies: ``leaf``, ``uneven``, ``repeats``, ``homonyms``, ``gaps`` and ``separator``, as for
                :meth:`from_paths`.

        Raises:
            InputError: not a frame.
            TableError: it lacks a column.
            HierarchyError: as :meth:`from_paths`; the message names the row, from 0.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"kind": ["natural", "natural"], "type": ["lake", "peak"], "id": [17, 5]})
        >>> LabelTree.from_frame(frame, levels=["kind", "id"]).paths([5, 17])
        array([[0, 1],
               [0, 0]], dtype=int32)
        """
        names, rows, row_name = formats.read_label_frame(frame, levels, **formats.reading_options(policies))
        return cls.from_paths(rows, level_names=names, where=row_name, **policies)

    @classmethod
    @with_options_of(graphs.leaves_of_graph)
    def from_edges(
        cls,
        edges: Any,
        *,
        labels: Mapping[Hashable, Hashable] | None = None,
        level_names: Sequence[str] | None = None,
        uneven: Uneven = "error",
        **policies: Unpack[GraphPolicies],
    ) -> LabelTree:
        """Build a tree from (parent, child) pairs with a single root; the root belongs to no level.

        Args:
            edges: pairs of node names, an (n, 2) array, or a frame of two columns in which a row without a parent names
                a root. So does a pair of a node and itself, if it has no other parent.
            labels: a text for some or all nodes; the other nodes are labeled by their names.
            level_names: as for :meth:`from_paths`.
            uneven: as for :meth:`from_paths`.
            **policies: ``direction``, ``multiple_parents``, ``forest``, ``inner_leaves`` and ``homonyms``, as
                :class:`hiertree.tree.GraphPolicies` describes them.

        Raises:
            HierarchyError: a cycle, several roots, a node with two parents, leaves of several depths, no edge at all;
                the message says which policy would accept it, or that the pairs seem to be reversed.
            InputError: not pairs, nodes that differ in type alone, such as 17 and "17", or labels of no node.

        >>> LabelTree.from_edges([("root", "a"), ("root", "b")]).leaves
        ('a', 'b')
        >>> is_a = [("cat", "pet"), ("cat", "feline"), ("pet", "animal"), ("feline", "mammal"), ("mammal", "animal")]
        >>> tree = LabelTree.from_edges(is_a, direction="child-parent", multiple_parents="shortest")
        >>> tree.labels_of(tree.paths(["cat"])[0])
        ('pet', 'cat')
        """
        graph = graphs.graph_of_edges(edges, policies.get("direction", "parent-child"))
        if "direction" in policies:
            policies["direction"] = "parent-child"
        return cls.from_networkx(graph, labels=labels, level_names=level_names, uneven=uneven, **policies)

    @classmethod
    @with_options_of(graphs.leaves_of_graph)
    def from_networkx(
        cls,
        graph: nx.DiGraph[Any],
        *,
        labels: Mapping[Hashable, Hashable] | None = None,
        level_names: Sequence[str] | None = None,
        uneven: Uneven = "error",
        **policies: Unpack[GraphPolicies],
    ) -> LabelTree:
        """Build a tree from a directed networkx graph, with edges from parent to child unless ``direction`` is given.

        A leaf's id is its node; a node's label is ``labels[node]``, its attribute ``label``, or the node itself. Level
        names are taken from ``graph.graph["level_names"]`` when not given. ``policies`` are as for :meth:`from_edges`.

        Raises:
            HierarchyError: as :meth:`from_edges`.
        """
        check_choice("uneven", uneven, Uneven)
        rows, leaf_ids = graphs.leaves_of_graph(graph, labels or {}, **policies)
        return cls._from_rows(rows, leaf_ids, level_names or graph.graph.get("level_names"), uneven, "separate")

    @classmethod
    def from_json(cls, path: AnyPath) -> LabelTree:
        """Read a tree that :meth:`to_json` wrote.

        Raises:
            TableError: the file is not such a tree.
        """
        tree_parts = formats.read_json_tree(path)
        with reading_file(path, expected="a tree written by LabelTree.to_json"):
            return cls._from_rows(*tree_parts, "error", "separate")

    def to_networkx(self) -> nx.DiGraph[Any]:
        """The tree as a networkx arborescence, parent → child.

        Nodes are tuples of labels and the root is ``()``. Attributes: ``label``, ``level``, ``id`` (the number in its
        level), and ``leaf_ids`` where leaves end. :meth:`from_networkx` reads it back.
        """
        return graphs.graph_of_rows(self._rows(), self._paths, self._leaf_ids, self.level_names)

    def to_csv(self, path: AnyPath) -> None:
        """Write one row per leaf with its labels, coarse → fine, under the level names.

        A last column ``leaf_id`` is added when ids and finest labels differ. Cells of unknown labels are empty.
        """
        formats.write_label_table(path, self._numbered, self.level_names)

    def to_json(self, path: AnyPath) -> None:
        """Write the tree as nested JSON, readable by :meth:`from_json` and by drawing libraries (``children``)."""
        formats.write_json_tree(path, self._numbered, self.level_names)


class Labeled(NamedTuple):
    """A tree and the (n, L) int32 paths of the images."""

    tree: LabelTree
    paths: NDArray[np.int32]


def label_paths(
    columns: Sequence[Any],
    level_names: Sequence[str] | None,
    where: Where,
    earlier_rows: int = 0,
    *,
    leaf: LeafKey = "label",
    uneven: Uneven = "error",
    gaps: Gaps = "error",
    ancestors: Mapping[Any, Row] | None = None,
    separator: str | None = None,
) -> Labeled:
    """The tree of the distinct rows of labels, in order of first appearance, and the images' paths in it.

    ``columns`` are L sequences of n labels, coarse → fine; with ``ancestors``, the labels above each leaf, the leaves
    alone. ``where`` names image i in messages. With a policy ``uneven``, a path ends where the rest of a row has no
    label; ``leaf``, ``gaps`` and ``separator`` are as in :meth:`LabelTree.from_paths`. The first ``earlier_rows``
    labels are those of other splits: they are numbered, too, where they are complete, but have no paths in the result.

    >>> tree, paths = label_paths(
    ...     [["cat", "dog", "cat"], [7, 4, 7]], ["kind", "pet"], lambda row: f"line {row + 2}")
    >>> tree.leaves, paths.tolist()
    ((7, 4), [[0, 0], [1, 1], [0, 0]])
    """
    check_choice("gaps", gaps, Gaps)
    columns, level_names = split_columns(columns, level_names, separator)
    group, first_images, rows = _distinct_rows(columns)
    group, is_needed = group[earlier_rows:], np.zeros(len(rows), dtype=np.bool_)
    is_needed[group] = True
    if not is_needed.all():
        holds_enough = all if uneven == gaps == "error" else any
        is_needed |= [holds_enough(not is_empty(label) for label in row) for row in rows]
        rows = list(compress(rows, is_needed))
        group, first_images = (np.cumsum(is_needed) - 1)[group], first_images[is_needed]
    if ancestors is not None:
        rows = [(*ancestors[leaf_id], leaf_id) for (leaf_id,) in rows]
    rows = [tuple(map(plain_label, row)) for row in rows]
    if gaps != "error":
        rows = list(filled_gaps(rows, gaps))
    if uneven != "error":
        rows = [trimmed(row) for row in rows]
        _check_finest(rows, level_names)
    tree = LabelTree.from_paths(
        rows,
        level_names=level_names,
        leaf=leaf,
        uneven=uneven,
        repeats="merge",
        where=lambda row: where(int(first_images[row])),
    )
    return Labeled(tree, tree.paths(rows if leaf == "path" else [row[-1] for row in rows])[group])


def _check_finest(rows: Sequence[Row], level_names: Sequence[str] | None) -> None:
    """Refuse levels at which no row has a label."""
    depth = max(map(len, rows), default=0)
    if level_names is not None and 0 < depth < len(level_names):
        problem = f"the level {level_names[depth]!r} without any label"
        raise ShapeError(problem, expected="a label in some row", remedy="leave it out of the levels")


def _distinct_rows(columns: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Row]]:
    """The number of each image's distinct row, by first appearance; the first image of each such row; these rows."""
    import pandas as pd

    arrays = [_array(column) if isinstance(column, list | tuple) else column for column in columns]
    group = np.zeros(len(arrays[0]), dtype=np.int64)
    for array in arrays:
        labels, distinct_labels = pd.factorize(array)
        group = pd.factorize(group * (len(distinct_labels) + 1) + labels)[0].astype(np.int64)
    first_images = np.flatnonzero(np.diff(np.maximum.accumulate(group), prepend=-1))
    return group, first_images, list(zip(*(array[first_images].tolist() for array in arrays), strict=True))


def _array(column: Sequence[Any]) -> NDArray[Any]:
    return np.array(column, dtype=object if column and isinstance(column[0], str) else None)
