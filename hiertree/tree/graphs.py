"""Label trees and networkx graphs.

The edges of a graph run from parent to child. Its root, the one node without a parent, belongs to no level.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..errors import HierarchyError, InputError, NotATreeError
from ..io.tables import frame_columns, is_frame
from .graph_policies import Direction
from .label_rows import Row, is_empty

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

MOST_CYCLES = 10  # that a message names


def check_graph(graph: Any) -> None:
    """Refuse what is no directed graph with an edge, and one in which a node is above itself.

    Raises:
        InputError: no graph of networkx.
        HierarchyError: undirected, without edges, or with cycles; the message names their nodes.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError(f"{type(graph).__name__} as a graph", expected="a networkx.DiGraph")
    if graph.number_of_edges() == 0:
        raise HierarchyError("the graph has no edge", expected="at least a root and a leaf")
    if not graph.is_directed():
        raise HierarchyError("the graph is undirected", expected="a networkx.DiGraph with edges from parent to child")
    cycles = list(islice(nx.simple_cycles(graph), MOST_CYCLES + 1))
    if cycles:
        shown = "; ".join(sorted(map(_shown_cycle, cycles[:MOST_CYCLES]))) + "; …" * (len(cycles) > MOST_CYCLES)
        raise NotATreeError(f"the graph: {shown}", expected="no label above itself", remedy="remove an edge of each")


def _shown_cycle(nodes: list[Hashable]) -> str:
    """``'a' → 'b' → 'a'``, from the first name on, whatever the order in which networkx walks."""
    names = list(map(repr, nodes))
    start = names.index(min(names))
    return " → ".join([*names[start:], *names[: start + 1]])


def graph_of_edges(edges: Any, direction: Direction) -> nx.DiGraph[Any]:
    """The directed graph, parent → child, of pairs or of a frame of two columns.

    In a frame, a row without a parent names a root.

    Raises:
        InputError: not pairs of hashable nodes, or a frame of other than two columns.
    """
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    child_first = direction == "child-parent"
    if is_frame(edges):
        pairs = _pairs_of_frame(edges)
        roots = [pair for pair in pairs if is_empty(pair[child_first]) and not is_empty(pair[not child_first])]
        graph.add_nodes_from(pair[not child_first] for pair in roots)
        edges = [pair for pair in pairs if pair not in roots]
    if not isinstance(edges, Iterable) or isinstance(edges, set | frozenset):
        raise InputError(f"edges={edges!r:.80}", expected="(parent, child) pairs in their order")
    for edge in edges:
        if not _is_pair(edge):
            raise InputError(f"the edge {edge!r}", expected="a pair of nodes, parent and child")
        graph.add_edge(*(reversed(edge) if child_first else edge))
    return graph


def _pairs_of_frame(frame: Any) -> list[tuple[Hashable, Hashable]]:
    columns = frame_columns(frame, what="the frame of edges")
    if len(columns) == 2:
        first, second = columns.values()
        return list(zip(first, second, strict=True))
    given = f"a frame of edges with the columns {', '.join(columns)}"
    remedy = 'select them, as in frame[["parent", "child"]]'
    raise InputError(given, expected="two columns, parent and child", remedy=remedy)


def turned(graph: nx.DiGraph[Any], direction: Direction) -> nx.DiGraph[Any]:
    """The graph with its edges from parent to child, and without parallel ones."""
    import networkx as nx

    single = nx.DiGraph(graph) if graph.is_multigraph() else graph
    return single if direction == "parent-child" else single.reverse(copy=True)


def _is_pair(edge: Any) -> bool:
    if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) != 2:
        return False
    return all(isinstance(node, Hashable) and node is not None and not _is_nan(node) for node in edge)


def _is_nan(node: Hashable) -> bool:
    return isinstance(node, float) and node != node


def rows_of_graph(
    graph: nx.DiGraph[Any],
    root: Hashable,
    labels: Mapping[Hashable, Hashable],
    *,
    inner_leaves: Collection[Hashable],
) -> tuple[list[Row], list[Hashable]]:
    """For every leaf below the root, its labels coarse → fine, and its id; in the order of the graph's edges.

    The nodes in ``inner_leaves`` are leaves too, each before those below it.
    """
    rows: list[Row] = []
    leaf_ids: list[Hashable] = []
    stack: list[tuple[Hashable, Row]] = [(root, ())]
    while stack:
        node, row = stack.pop()
        children = list(graph.successors(node))
        if not children or node in inner_leaves:
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
