"""Conversion between label trees and networkx graphs, with policies for graphs that are not trees.

Edges run from parent to child. The root, the one node without a parent, belongs to no level.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..errors import HierarchyError, InputError, NotATreeError, UnknownLeafError, some_of
from ..io.tables import frame_columns, is_frame, is_missing
from ..options import check_choice
from .label_rows import Row, is_empty, plain_label

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)
Direction = Literal["parent-child", "child-parent"]
MultipleParents = Literal["error", "first", "shortest"]
Forest = Literal["error", "join"]


class GraphPolicies(TypedDict, total=False):
    """Options of every tree that is made of a graph.

    Attributes:
        direction: what an edge is: ``"parent-child"``, the default, or ``"child-parent"``.
        multiple_parents: what to do with a node of several parents: ``"error"``; ``"first"`` keeps the edge that was
            given first; ``"shortest"`` keeps the parent nearest to a root, the first of several. An inner node that
            loses all its children goes. A log line counts the pairs of siblings that this separates.
        forest: what to do with several roots: ``"error"``; ``"join"`` puts one root above them, so that they are the
            labels of level 1.
        inner_leaves: inner nodes that items carry too, or ``"all"`` but the root. Each is then also a leaf, shallower
            than those below it: choose ``uneven="pad"``, which repeats its label down to the finest level.
    """

    direction: Direction
    multiple_parents: MultipleParents
    forest: Forest
    inner_leaves: Iterable[Hashable] | Literal["all"]


def _with_one_parent(
    graph: nx.DiGraph[Any], policy: MultipleParents, inner_leaves: Collection[Hashable]
) -> nx.DiGraph[Any]:
    several = [node for node, degree in graph.in_degree() if degree > 1]
    if not several:
        return graph
    reverse = max(degree for _, degree in graph.out_degree()) == 1
    if policy == "error" or reverse:
        parents = ", ".join(map(repr, sorted(graph.predecessors(several[0]), key=str)))
        remedy = "pass multiple_parents='first' or 'shortest' to keep one of them"
        if reverse:
            remedy = "no node has two children: the edges seem to lead from child to parent; "
            remedy += "pass direction='child-parent', or 'parent-child' if that was given"
        given = f"the graph: {several[0]!r} has the parents {parents}"
        raise NotATreeError(given, expected="one parent per node", remedy=remedy)
    return _kept_edges(graph, policy, inner_leaves)


def _kept_edges(graph: nx.DiGraph[Any], policy: MultipleParents, inner_leaves: Collection[Hashable]) -> nx.DiGraph[Any]:
    import networkx as nx

    parent: dict[Hashable, Hashable] = {}
    depth: dict[Hashable, int] = {}
    order = list(nx.topological_sort(graph))
    for node in order:
        parents = list(graph.predecessors(node))
        if parents:
            parent[node] = parents[0] if policy == "first" else min(parents, key=lambda above: depth[above])
        depth[node] = depth[parent[node]] + 1 if parents else 0
    _log_separated(graph, parent)
    kept: nx.DiGraph[Any] = nx.DiGraph(**graph.graph)
    kept.add_nodes_from(graph.nodes(data=True))
    kept.add_edges_from((above, node) for above, node in graph.edges() if parent[node] == above)
    for node in reversed(order):
        if graph.out_degree(node) and not kept.out_degree(node) and node not in inner_leaves:
            kept.remove_node(node)
    return kept


def _log_separated(graph: nx.DiGraph[Any], parent: Mapping[Hashable, Hashable]) -> None:
    """Log how many pairs of siblings, children of one node of the graph, the kept parents separate."""
    moved = {node for node, degree in graph.in_degree() if degree > 1}
    separated = {
        frozenset((child, sibling))
        for child in moved
        for above in graph.predecessors(child)
        for sibling in graph.successors(above)
        if parent[sibling] != parent[child]
    }
    text = "nodes with several parents: %d; keeping one parent of each separates %d pairs of siblings"
    _log.warning(text, len(moved), len(separated))


def _with_one_root(graph: nx.DiGraph[Any], policy: Forest) -> tuple[nx.DiGraph[Any], Hashable]:
    roots: list[Hashable] = [node for node, degree in graph.in_degree() if degree == 0]
    if len(roots) == 1:
        return graph, roots[0]
    if policy == "error":
        given = f"the graph has {len(roots)} roots: {some_of(roots)}"
        remedy = "pass forest='join' to make them the labels of level 1, or add an edge from one root to each"
        raise NotATreeError(given, expected="one node without a parent", remedy=remedy)
    joined, above = graph.copy(), object()  # equal to no node of the graph
    joined.add_edges_from((above, root) for root in roots)
    return joined, above


MOST_CYCLES = 10  # named in a message


def _check_graph(graph: Any) -> None:
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


def leaves_of_graph(
    graph: nx.DiGraph[Any],
    labels: Mapping[Hashable, Hashable],
    *,
    direction: Direction = "parent-child",
    multiple_parents: MultipleParents = "error",
    forest: Forest = "error",
    inner_leaves: Iterable[Hashable] | Literal["all"] = (),
) -> tuple[list[Row], list[Hashable]]:
    """For every leaf of the tree that the policies make of a graph, its labels coarse → fine, and its id."""
    import networkx as nx

    check_choice("direction", direction, Direction)
    check_choice("multiple_parents", multiple_parents, MultipleParents)
    check_choice("forest", forest, Forest)
    if isinstance(inner_leaves, str) or not isinstance(inner_leaves, Iterable):
        check_choice("inner_leaves", inner_leaves, Literal["all"])
    _check_graph(graph)
    named = frozenset(() if inner_leaves == "all" else inner_leaves)
    simple = nx.DiGraph(graph) if graph.is_multigraph() else graph
    turned = simple if direction == "parent-child" else simple.reverse(copy=True)
    rooted, root = _with_one_root(_with_one_parent(turned, multiple_parents, named), forest)
    if inner_leaves == "all":
        named = frozenset(node for node in rooted if node != root and rooted.out_degree(node))
    unknown = [node for node in named if node not in rooted or node == root]
    if unknown:
        raise UnknownLeafError(f"inner_leaves: {some_of(unknown)}", expected="nodes of the tree below its root")
    return _rows_of_graph(rooted, root, labels, inner_leaves=named)


def graph_of_edges(edges: Any, direction: Direction) -> nx.DiGraph[Any]:
    """The directed graph, parent → child, of pairs or of a frame of two columns.

    In a frame, a row without a parent names a root.
    """
    import networkx as nx

    check_choice("direction", direction, Direction)
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


def _is_pair(edge: Any) -> bool:
    if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) != 2:
        return False
    return all(isinstance(node, Hashable) and not is_missing(node) for node in edge)


def _rows_of_graph(
    graph: nx.DiGraph[Any],
    root: Hashable,
    labels: Mapping[Hashable, Hashable],
    *,
    inner_leaves: Collection[Hashable],
) -> tuple[list[Row], list[Hashable]]:
    """The leaves in the order of the graph's edges; those of ``inner_leaves`` stand before those below them."""
    import networkx as nx

    row_of: dict[Hashable, Row] = {root: ()}
    for above, node in nx.dfs_edges(graph, root):
        label = labels.get(node, graph.nodes[node].get("label", node))
        row_of[node] = (*row_of[above], plain_label(label))
    rows: list[Row] = []
    leaf_ids: list[Hashable] = []
    for node, row in row_of.items():
        if not graph.out_degree(node) or node in inner_leaves:
            own = graph.nodes[node].get("leaf_ids", (node,))
            leaf_ids += map(plain_label, own)
            rows += [row] * len(own)
    return rows, leaf_ids


def graph_of_rows(
    rows: Sequence[Row], paths: NDArray[np.int32], leaf_ids: Sequence[Hashable], level_names: Sequence[str]
) -> nx.DiGraph[Any]:
    """The arborescence of rows and their integer paths; nodes are tuples of labels, the root is ``()``."""
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph(level_names=tuple(level_names))
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
