"""The contents of a label tree: labels and integer paths of its leaves, its parts, its drawing."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..arrays import to_numpy
from ..errors import DuplicateLeafError, HierarchyError, InputError, ShapeError, UnknownLeafError, some_of
from ..level_columns import UNKNOWN
from ..options import Uneven
from .label_rows import (
    Homonyms,
    Nested,
    Numbered,
    Row,
    even_depths,
    first_rows,
    nest,
    number_nodes,
    plain_label,
    refuse_homonyms,
    same_text,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Tree = TypeVar("Tree", bound="NumberedTree")


class NumberedTree:
    """An immutable label hierarchy of uniform depth L, whose attributes :class:`hiertree.LabelTree` describes."""

    def __init__(self, numbered: Numbered, level_names: Sequence[str] | None) -> None:
        self._numbered = numbered
        self._leaf_ids, self._paths, self._labels = numbered
        self._leaves = tuple(self._leaf_ids)
        self._paths.setflags(write=False)
        self._row_of_leaf = {leaf_id: row for row, leaf_id in enumerate(self._leaf_ids)}
        names = level_names if level_names is not None else [f"level_{i + 1}" for i in range(self.num_levels)]
        is_list = not isinstance(names, str) and isinstance(names, Sequence)
        if not is_list or len(names) != self.num_levels or len(set(names)) != len(names):
            raise ShapeError(f"level_names={names!r}", expected=f"{self.num_levels} different names, coarse → fine")
        self.level_names = tuple(names)

    @classmethod
    def _from_rows(
        cls: type[Tree],
        rows: list[Row],
        leaf_ids: list[Hashable],
        level_names: Sequence[str] | None,
        uneven: Uneven,
        homonyms: Homonyms,
    ) -> Tree:
        if not rows:
            raise HierarchyError("no labels at all", expected="at least one leaf")
        if len(set(leaf_ids)) != len(leaf_ids):
            raise DuplicateLeafError("two leaves share an id", expected="one id per leaf")
        even_rows = even_depths(rows, uneven)
        tree = cls(number_nodes(even_rows, leaf_ids), level_names)
        for name, labels in zip(tree.level_names, tree._labels, strict=True):
            if pair := same_text(labels):
                problem = f"level {name!r} has the labels {pair[0]!r} and {pair[1]!r}"
                raise HierarchyError(problem, expected="labels of one type", remedy="make all text, or all integers")
        if homonyms == "error":
            refuse_homonyms(even_rows)
        return tree

    @property
    def num_levels(self) -> int:
        """L, the depth of every leaf."""
        return int(self._paths.shape[1])

    @property
    def leaves(self) -> tuple[Hashable, ...]:
        """Leaf ids, in order of first appearance."""
        return self._leaves

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Number of nodes at each level, coarse → fine."""
        return tuple(len(labels) for labels in self._labels)

    def paths(self, leaf_ids: Any) -> NDArray[np.int32]:
        """The integer paths of the given leaves.

        Args:
            leaf_ids: n leaf ids as a sequence, numpy array or tensor; ids may repeat. A set has no order.

        Returns:
            (n, L) int32, coarse → fine; column l−1 numbers the nodes of level l from 0.

        Raises:
            UnknownLeafError: an id that is not a leaf of the tree.
            InputError: not a sequence of ids.
        """
        return self._paths[self._leaf_rows(leaf_ids)]

    def _leaf_rows(self, leaf_ids: Any) -> list[int]:
        try:
            if isinstance(leaf_ids, set | frozenset):
                raise TypeError("no order")
            ids = to_numpy(leaf_ids).tolist() if hasattr(leaf_ids, "dtype") else list(leaf_ids)
            return [self._row_of_leaf[leaf_id] for leaf_id in ids]
        except TypeError:
            raise InputError(f"leaf ids {leaf_ids!r:.80}", expected="a sequence of leaf ids") from None
        except KeyError:
            spelled = list(map(plain_label, ids))  # as the tree's labels are
            unknown_ids = [leaf_id for leaf_id in dict.fromkeys(spelled) if leaf_id not in self._row_of_leaf]
        if not unknown_ids:
            return [self._row_of_leaf[leaf_id] for leaf_id in spelled]
        inner = next((label for label in unknown_ids if any(label in labels for labels in self._labels[:-1])), None)
        remedy = None if inner is None else f"{inner!r} is an inner node; docs/hierarchy.md says how items carry one"
        problem = f"{len(unknown_ids)} unknown leaf ids: {some_of(unknown_ids)}"
        raise UnknownLeafError(problem, expected=f"ids such as {self._leaf_ids[0]!r}", remedy=remedy) from None

    def labels_of(self, path: Sequence[int]) -> Row:
        """The labels of an integer path, coarse → fine; a path that is shorter or ends in −1 names an inner node.

        Raises:
            UnknownLeafError: an id that no node of its level has, a node that lies below another one, or more ids than
                levels.
            InputError: not integers.

        >>> from hiertree import LabelTree
        >>> LabelTree.from_paths([("a", "x"), ("b", "y")]).labels_of([1, 1])
        ('b', 'y')
        """
        try:
            nodes = [operator.index(node) for node in path]
        except TypeError:
            raise InputError(f"path {path!r:.80}", expected="integer ids, coarse → fine") from None
        sizes = self.level_sizes
        while nodes[1:] and nodes[-1] == UNKNOWN and len(nodes) <= len(sizes):
            nodes.pop()
        if len(nodes) > len(sizes) or not all(0 <= node < size for node, size in zip(nodes, sizes, strict=False)):
            raise UnknownLeafError(f"path {tuple(nodes)}", expected=f"ids below {sizes}, level by level")
        for level in range(1, len(nodes)):
            parent = self._parents[level][nodes[level]]
            if nodes[level - 1] != parent:
                expected = f"node {parent} of level {level} above node {nodes[level]} of level {level + 1}"
                raise UnknownLeafError(f"path {tuple(nodes)}", expected=expected)
        return self._labels_along(nodes)

    def lca_level(self, a: Hashable, b: Hashable) -> int:
        """Depth of the lowest common ancestor of two leaves, as far as it is known: 0 (only the root) … L.

        Raises:
            UnknownLeafError: a or b is not a leaf.
        """
        first, second = self.paths([a, b])
        return int(np.cumprod((first == second) & (first >= 0)).sum())

    def subtree(self: Tree, *labels: Hashable) -> Tree:
        """The tree below a node, which becomes the root: its levels are those finer than the node's.

        Args:
            labels: the node's labels, coarse → fine.

        Raises:
            UnknownLeafError: there is no such node above the finest level.

        >>> from hiertree import LabelTree
        >>> tree = LabelTree.from_paths([("natural", "lake", 17), ("human-made", "church", 4)])
        >>> tree.subtree("natural").level_sizes
        (1, 1)
        """
        depth = len(labels)
        deeper_rows = np.flatnonzero(self._paths[:, min(depth, self.num_levels - 1)] >= 0).tolist()
        leaf_rows = [row for row in deeper_rows if self._labels_along(self._paths[row, :depth]) == labels]
        if not leaf_rows or depth >= self.num_levels:
            raise UnknownLeafError(f"node {labels!r}", expected="the labels of a node above the finest level")
        return self._part(leaf_rows, depth)

    def restrict(self: Tree, leaves: Iterable[Hashable]) -> Tree:
        """The tree of some leaves and what is above them, for instance the classes that a data set holds.

        Leaves keep the order of this tree, whatever the order of ``leaves``; the nodes are numbered anew.

        Args:
            leaves: ids of leaves, which may repeat, as those of a data set's images do.

        Raises:
            UnknownLeafError: an id that is not a leaf of the tree.
            HierarchyError: none at all.
            InputError: not several ids.

        >>> from hiertree import LabelTree
        >>> tree = LabelTree.from_paths([("natural", "lake", 17), ("human-made", "church", 4), ("natural", "peak", 5)])
        >>> tree.restrict([5, 17, 5]).leaves
        (17, 5)
        """
        if isinstance(leaves, str):
            raise InputError(f"leaf ids {leaves!r:.80}", expected="a sequence of leaf ids")
        leaf_ids = list(leaves) if isinstance(leaves, set | frozenset) else leaves
        return self._part(sorted(set(self._leaf_rows(leaf_ids))), 0)

    def _part(self: Tree, leaf_rows: Sequence[int], depth: int) -> Tree:
        """The tree of some leaves, without the levels down to ``depth``."""
        columns = self._numbered._replace(paths=self._paths[list(leaf_rows)]).columns()
        rows = [row[depth:] for row in zip(*columns, strict=True)]
        leaf_ids = [self._leaf_ids[row] for row in leaf_rows]
        return self._from_rows(rows, leaf_ids, self.level_names[depth:], "error", "separate")

    def summary(self) -> pd.DataFrame:
        """One row per level: its name, number of nodes, children per parent (least, median, most) and homonyms.

        ``homonyms`` counts the texts that name more than one node of the level.
        """
        import pandas as pd

        summaries, rows = [], self._rows()
        parents = np.zeros(len(self), dtype=np.int32)
        for level, (name, nodes) in enumerate(zip(self.level_names, self._paths.T, strict=True)):
            first = first_rows(nodes)
            children = np.unique(parents[first], return_counts=True)[1] if len(first) else np.zeros(1, np.int64)
            uses = np.unique([str(rows[leaf][level]) for leaf in first], return_counts=True)[1]
            spread = (int(children.min()), float(np.median(children)), int(children.max()))
            summaries.append((level + 1, name, len(first), *spread, int((uses > 1).sum())))
            parents = nodes
        columns = ["level", "name", "nodes", "least_children", "median_children", "most_children", "homonyms"]
        table: pd.DataFrame = pd.DataFrame(summaries, columns=columns).set_index("level")
        return table

    def to_text(self, *, most_children: int = 6) -> str:
        """A drawing of the tree in text, with at most ``most_children`` lines below each node.

        >>> from hiertree import LabelTree
        >>> print(LabelTree.from_paths([("natural", "lake"), ("natural", "peak"), ("human-made", "dam")]).to_text())
        ├── natural
        │   ├── lake
        │   └── peak
        └── human-made
            └── dam
        """
        return "\n".join(_draw_lines(nest(self._rows(), self._leaf_ids), most_children=most_children))

    def __len__(self) -> int:
        return len(self._leaf_ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberedTree) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.level_names, self.level_sizes, len(self)))

    def __repr__(self) -> str:
        sizes = " → ".join(f"{size} {name}" for size, name in zip(self.level_sizes, self.level_names, strict=True))
        return f"{type(self).__name__}({sizes}; {len(self)} leaves)"

    def _identity(self) -> tuple[object, ...]:
        return self.level_names, self._leaf_ids, self._labels, self._paths.tolist()

    @cached_property
    def _parents(self) -> list[list[int]]:
        """For each level the parent of each of its nodes, a node of the level above."""
        first = map(first_rows, self._paths.T)
        return [self._paths[rows, max(level - 1, 0)].tolist() for level, rows in enumerate(first)]

    def _labels_along(self, path: Iterable[int]) -> Row:
        return tuple(labels[node] for labels, node in zip(self._labels, path, strict=False))

    def _rows(self) -> list[Row]:
        """The labels of every leaf's path, in the order of the leaves."""
        return list(zip(*self._numbered.columns(), strict=True))


def _draw_lines(nested: Nested, *, most_children: int, indent: str = "") -> Iterator[str]:
    """The lines of a drawing; for a node with more than ``most_children`` children the last line counts the others."""
    labels = [label for label in nested if label is not None]
    drawn_labels = labels if len(labels) <= most_children else labels[: most_children - 1]
    for label in drawn_labels:
        last = label is labels[-1]
        yield f"{indent}{'└' if last else '├'}── {label}"
        children = nested[label]
        if isinstance(children, dict):
            yield from _draw_lines(children, most_children=most_children, indent=indent + ("    " if last else "│   "))
    if len(drawn_labels) < len(labels):
        yield f"{indent}└── … {len(labels) - len(drawn_labels)} more"
