"""Label trees and networkx graphs.

The edges of a graph run from parent to child. Its root, the one node without a parent, belongs to no level.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import HierarchyError, InputError, NotATreeError
from .label_rows import Row

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray


def root_of(graph: nx.DiGraph[Any]) -> Hashable:
    """The root of a directed tree.

    Raises:
        InputError: no graph of networkx.
        HierarchyError: the graph is no such tree; the message names the nodes that show it.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError(f"{type(graph).__name__} as a graph", expected="a networkx.DiGraph")
    if graph.number_of_edges() == 0:
        raise HierarchyError("the graph has no edge", expected="at least a root and a leaf")
    if not graph.is_directed():
        raise HierarchyError("the graph is undirected", expected="a networkx.DiGraph with edges from parent to child")
    roots = [node for node, degree in graph.in_degree() if degree == 0]
    try:
        cycle = [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        cycle = []
    if cycle:
        raise NotATreeError(f"the graph: {' → '.join(map(repr, [*cycle, cycle[0]]))}", expected="no label above itself")
    for node, degree in graph.in_degree():
        if degree > 1:
            parents = ", ".join(map(repr, sorted(graph.predecessors(node), key=str)))
            raise NotATreeError(f"the graph: {node!r} has the parents {parents}", expected="one parent per node")
    if len(roots) > 1:
        shown = ", ".join(map(repr, roots[:5])) + (", …" if len(roots) > 5 else "")
        raise NotATreeError(
            f"the graph has {len(roots)} roots: {shown}",
            expected="one node without a parent",
            remedy="add an edge from one common root to each of them",
        )
    root: Hashable = roots[0]
    return root


def graph_of_edges(edges: Iterable[tuple[Hashable, Hashable]]) -> nx.DiGraph[Any]:
    """The directed graph of (parent, child) pairs.

    Raises:
        InputError: not pairs of hashable nodes.
    """
    import networkx as nx

    if not isinstance(edges, Iterable):
        raise InputError(f"edges={edges!r}", expected="(parent, child) pairs")
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for edge in edges:
        if not _is_pair(edge):
            raise InputError(f"the edge {edge!r}", expected="a pair of nodes, parent and child")
        graph.add_edge(*edge)
    return graph


def _is_pair(edge: Any) -> bool:
    if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) != 2:
        return False
    return all(isinstance(node, Hashable) and node is not None for node in edge)


def rows_of_graph(
    graph: nx.DiGraph[Any], root: Hashable, labels: Mapping[Hashable, Hashable]
) -> tuple[list[Row], list[Hashable]]:
    """For every leaf below the root, its labels coarse → fine, and its id; in the order of the graph's edges."""
    rows: list[Row] = []
    leaf_ids: list[Hashable] = []
    stack: list[tuple[Hashable, Row]] = [(root, ())]
    while stack:
        node, row = stack.pop()
        children = list(graph.successors(node))
        if not children:
            for leaf_id in graph.nodes[node].get("leaf_ids", (node,)):
                rows.append(row)
                leaf_ids.append(leaf_id)
        stack.extend(
            (child, (*row, labels.get(child, graph.nodes[child].get("label", child)))) for child in reversed(children)
        )
    return rows, leaf_ids


def graph_of_rows(
    rows: Sequence[Row], paths: NDArray[np.int32], leaf_ids: Sequence[Hashable], level_names: Sequence[str]
) -> nx.DiGraph[Any]:
    """The arborescence of rows and their integer paths; nodes are tuples of labels, the root is ``()``."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.graph["level_names"] = tuple(level_names)
    graph.add_node((), label="", level=0)
    leaves_below: dict[Row, list[Hashable]] = {}
    for leaf_id, row, path in zip(leaf_ids, rows, paths.tolist(), strict=True):
        leaves_below.setdefault(row, []).append(leaf_id)
        for level, node_id in enumerate(path, start=1):
            graph.add_node(row[:level], label=row[level - 1], level=level, id=node_id)
            graph.add_edge(row[: level - 1], row[:level])
    for row, leaves in leaves_below.items():
        graph.nodes[row]["leaf_ids"] = tuple(leaves)
    return graph
