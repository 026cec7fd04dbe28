"""A label tree as JSON, CSV and GraphML, for other programs to read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hiertree.io.files import replacing

from .tables import TREE

if TYPE_CHECKING:
    from hiertree.tree import LabelTree

TREE_CSV, TREE_GRAPHML = "tree.csv", "tree.graphml"


def write_tree(folder: Path, tree: LabelTree) -> None:
    """Write ``tree.json``, ``tree.csv`` and ``tree.graphml`` into a folder.

    Args:
        folder: an existing folder.
        tree: the tree.
    """
    tree.to_json(folder / TREE)
    tree.to_csv(folder / TREE_CSV)
    write_graphml(folder / TREE_GRAPHML, tree)


def write_graphml(path: Path, tree: LabelTree) -> None:
    """Write a tree as GraphML, whole or not at all.

    Nodes are n0 (the root), n1, … in depth-first order, with ``label``, ``level`` (0 for the root), ``level_name`` and
    ``leaves``, the number of leaves below; edges lead from parent to child.
    """
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_node("n0", label="", level=0, level_name="root", leaves=len(tree.leaves))
    numbers: dict[tuple[int, ...], str] = {(): "n0"}
    for row in sorted(tree.paths(tree.leaves).tolist()):
        labels = tree.labels_of(row)
        for depth in range(1, len(row) + 1):
            node = tuple(row[:depth])
            if node not in numbers:
                numbers[node] = f"n{len(numbers)}"
                name = tree.level_names[depth - 1]
                graph.add_node(numbers[node], label=str(labels[depth - 1]), level=depth, level_name=name, leaves=0)
                graph.add_edge(numbers[node[:-1]], numbers[node])
            graph.nodes[numbers[node]]["leaves"] += 1
    with replacing(path) as temporary:
        nx.write_graphml(graph, temporary)
