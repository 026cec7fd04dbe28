"""A label tree as the page shows it: branches that unfold, with leaves at the ends."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx as nx

    from hiertree.tree import LabelTree


@dataclass(frozen=True)
class TreeBranch:
    """A node of the tree.

    Attributes:
        label: its text.
        branches: the nodes below it.
        leaves: texts of the leaves, where those are the nodes below it.
    """

    label: str
    branches: tuple[TreeBranch, ...]
    leaves: tuple[str, ...]

    def __len__(self) -> int:
        """Leaves below it, at any depth."""
        return len(self.leaves) + sum(map(len, self.branches))


def branches_of(tree: LabelTree, leaf_names: Mapping[Hashable, str] | None = None) -> TreeBranch:
    """The root of a tree, with all that is below it.

    Args:
        tree: the tree.
        leaf_names: what to call leaves whose ids say little; others are called by their labels.

    >>> from hiertree import LabelTree
    >>> root = branches_of(LabelTree.from_paths([("lake", 7), ("peak", 5)]), {7: "Lake Chelan"})
    >>> [(branch.label, branch.leaves) for branch in root.branches]
    [('lake', ('Lake Chelan',)), ('peak', ('5',))]
    """
    return _branch(tree.to_networkx(), (), leaf_names or {})


def _branch(graph: nx.DiGraph[Any], node: Hashable, leaf_names: Mapping[Hashable, str]) -> TreeBranch:
    below = list(graph.successors(node))
    ends = [child for child in below if graph.out_degree(child) == 0]
    leaves = [
        leaf_names.get(leaf, str(graph.nodes[child]["label"]))
        for child in ends
        for leaf in graph.nodes[child]["leaf_ids"]
    ]
    branches = [_branch(graph, child, leaf_names) for child in below if child not in ends]
    return TreeBranch(str(graph.nodes[node].get("label", "")), tuple(branches), tuple(leaves))


def own_label(labels: tuple[Hashable, ...]) -> str:
    """The last of a node's labels, less the labels above it where a data set wrote those before it.

    >>> own_label(("disc", "striped", "disc/striped/first")), own_label(("natural", "lake"))
    ('first', 'lake')
    """
    return str(labels[-1]).removeprefix("/".join(map(str, labels[:-1])) + "/")
