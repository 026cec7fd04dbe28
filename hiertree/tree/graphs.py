"""Conversion between label trees and networkx graphs, with policies for graphs that are not trees.

Edges run from parent to child. The root, the one node without a parent, belongs to no level.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from ..arrays import to_numpy
from ..errors import HierarchyError, InputError, NotATreeError, UnknownLeafError, some_of
from ..io.tables import frame_columns, is_empty, is_frame, is_missing
from ..options import check_choice
from .label_rows import Row, check_depth, check_labels, plain_label, same_text, trimmed

if TYPE_CHECKING:
    import networkx as nx
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)
Direction = Literal["parent-child", "child-parent"]
MultipleParents = Literal["error", "first", "shortest"]
Forest = Literal["error", "join"]
SiblingHomonyms = Literal["error", "rename"]


class GraphPolicies(TypedDict, total=False):
    """Options of every tree that is made of a graph.

    Attributes:
        direction: what an edge is: ``"parent-child"``, the default, or ``"child-parent"``.
        multiple_parents: what to do with a node of several parents: ``"error"``; ``"first"`` keeps the edge that was
            given first; ``"shortest"`` keeps the parent nearest to a root, the first of several. An inner node that
            loses all its children goes, and is named in the log, unless it is one of ``inner_leaves``.
        forest: what to do with several roots: ``"error"``; ``"join"`` puts one root above them, so that they are the
            labels of level 1.
        inner_leaves: inner nodes that items carry too, or ``"all"`` but the root. Each is then also a leaf, shallower
            than those below it: choose ``uneven="pad"``, which repeats its label down to the finest level, or
            ``"unknown"``.
        homonyms: what to do with children of one node that have one label: ``"error"``; ``"rename"`` adds to each its
            node, ``food (n07555863)``.
    """

    direction: Direction
    multiple_parents: MultipleParents
    forest: Forest
    inner_leaves: Iterable[Hashable] | Literal["all"]
    homonyms: SiblingHomonyms


def _keep_one_parent(
    graph: nx.DiGraph[Any], policy: MultipleParents, inner_leaves: Collection[Hashable], *, least_leaves: int
) -> nx.DiGraph[Any]:
    multiparent_nodes = [node for node, degree in graph.in_degree() if degree > 1]
    if not multiparent_nodes:
        return graph
    roots, leaves = (sum(degree == 0 for _, degree in degrees) for degrees in (graph.in_degree(), graph.out_degree()))
    no_branch = max(degree for _, degree in graph.out_degree()) == 1
    if policy == "error" or no_branch or leaves < least_leaves:
        parents = some_of(sorted(graph.predecessors(multiparent_nodes[0]), key=str))
        problem = f"the graph: {multiparent_nodes[0]!r} has the parents {parents}"
        expected, choose = "one parent per node", {"multiple_parents": ["first", "shortest"]}
        if no_branch or leaves < max(roots, least_leaves):
            counts = "no node has two children" if no_branch else f"roots: {roots}, leaves: {leaves}"
            expected += f" ({counts}: the edges seem to lead from child to parent)"
            choose = {"direction": ["child-parent", "parent-child"]}
        raise NotATreeError(problem, expected=expected, choose=choose)
    return _kept_edges(graph, policy, inner_leaves)


def _kept_edges(graph: nx.DiGraph[Any], policy: MultipleParents, inner_leaves: Collection[Hashable]) -> nx.DiGraph[Any]:
    import networkx as nx

    parent: dict[Hashable, Hashable] = {}
    depth: dict[Hashable, int] = {}
    order = list(nx.topological_sort(graph))
    for node in order:
        parents = list(graph.predecessors(node))
        if parents:
            parent[node] = parents[0] if policy == "first" else min(parents, key=depth.__getitem__)
        depth[node] = depth[parent[node]] + 1 if parents else 0
    count = sum(degree > 1 for _, degree in graph.in_degree())
    _log.warning("nodes of several parents: %d; each keeps one, which separates siblings", count)
    reduced_graph: nx.DiGraph[Any] = nx.DiGraph(**graph.graph)
    reduced_graph.add_nodes_from(graph.nodes(data=True))
    reduced_graph.add_edges_from(
        (parent_node, node) for parent_node, node in graph.edges() if parent[node] == parent_node
    )
    childless_nodes = []
    for node in reversed(order):
        is_leaf = not graph.out_degree(node) or node in inner_leaves or "leaf_ids" in graph.nodes[node]
        if not is_leaf and not reduced_graph.out_degree(node):
            reduced_graph.remove_node(node)
            childless_nodes.append(node)
    if childless_nodes:
        count, names = len(childless_nodes), some_of(childless_nodes[::-1])
        _log.warning("inner nodes left without children: %d dropped (%s); inner_leaves keeps them", count, names)
    return reduced_graph


def _keep_one_root(graph: nx.DiGraph[Any], policy: Forest) -> tuple[nx.DiGraph[Any], Hashable]:
    roots: list[Hashable] = [node for node, degree in graph.in_degree() if degree == 0]
    if len(roots) == 1:
        return graph, roots[0]
    if policy == "error":
        problem = f"the graph has {len(roots)} roots: {some_of(roots)}"
        remedy, choose = "add an edge from one root to each", {"forest": ["join"]}
        raise NotATreeError(problem, expected="one node without a parent", remedy=remedy, choose=choose)
    joined_graph, new_root = graph.copy(), object()  # equal to no node of the graph
    joined_graph.add_edges_from((new_root, root) for root in roots)
    return joined_graph, new_root


MOST_CYCLES = 10  # named in a message


def _directed(graph: Any, direction: Direction | None) -> nx.DiGraph[Any]:
    """The graph with simple edges from parent to child; a root that is its own parent loses that edge."""
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise InputError(f"{type(graph).__name__} as a graph", expected="a networkx.DiGraph")
    if graph.number_of_edges() > 0 and not graph.is_directed():
        raise HierarchyError("the graph is undirected", expected="a networkx.DiGraph with edges from parent to child")
    simple: Any = nx.DiGraph(graph) if graph.is_multigraph() else graph
    turned: nx.DiGraph[Any] = simple.reverse(copy=True) if direction == "child-parent" else simple
    loops = [(node, node) for node in nx.nodes_with_selfloops(turned) if turned.in_degree(node) == 1]
    if loops:
        turned = turned.copy()
        turned.remove_edges_from(loops)
    if turned.number_of_edges() == 0:
        raise HierarchyError("the graph has no edge", expected="at least a root and a leaf")
    return turned


def _check_acyclic(graph: nx.DiGraph[Any]) -> None:
    import networkx as nx

    cycles = list(islice(nx.simple_cycles(graph), MOST_CYCLES + 1))
    if cycles:
        cycles_text = "; ".join(sorted(map(_shown_cycle, cycles[:MOST_CYCLES]))) + "; …" * (len(cycles) > MOST_CYCLES)
        raise NotATreeError(
            f"the graph: {cycles_text}", expected="no label above itself", remedy="remove an edge of each"
        )


def _shown_cycle(nodes: list[Hashable]) -> str:
    """``'a' → 'b' → 'a'``, from the first name on, whatever the order in which networkx walks."""
    names = list(map(repr, nodes))
    start = names.index(min(names))
    return " → ".join([*names[start:], *names[: start + 1]])


def leaves_of_graph(
    graph: nx.DiGraph[Any],
    labels: Mapping[Hashable, Hashable],
    *,
    direction: Direction | None = None,
    multiple_parents: MultipleParents = "error",
    forest: Forest = "error",
    inner_leaves: Iterable[Hashable] | Literal["all"] = (),
    homonyms: SiblingHomonyms = "error",
) -> tuple[list[Row], list[Hashable]]:
    """For every leaf of the tree that the policies make of a graph, its labels coarse → fine, and its id."""
    check_choice("direction", direction or "parent-child", Direction)
    check_choice("multiple_parents", multiple_parents, MultipleParents)
    check_choice("forest", forest, Forest)
    check_choice("homonyms", homonyms, SiblingHomonyms)
    if isinstance(inner_leaves, str) or not isinstance(inner_leaves, Iterable):
        check_choice("inner_leaves", inner_leaves, Literal["all"])
    directed = _directed(graph, direction)
    _check_nodes(directed, labels)
    _check_acyclic(directed)
    if inner_leaves == "all":
        below_root = (node for node in directed if forest == "join" or directed.in_degree(node))
        inner_leaf_nodes = frozenset(node for node in below_root if directed.out_degree(node))
    else:
        inner_leaf_nodes = frozenset(inner_leaves)
    single = _keep_one_parent(
        directed, multiple_parents, inner_leaf_nodes, least_leaves=1 if inner_leaves or direction else 2
    )
    rooted, root = _keep_one_root(single, forest)
    if inner_leaves == "all":
        inner_leaf_nodes -= {root}
    unknown_nodes = [node for node in inner_leaf_nodes if node not in rooted or node == root]
    if unknown_nodes:
        raise UnknownLeafError(f"inner_leaves: {some_of(unknown_nodes)}", expected="nodes of the tree below its root")
    label_of = _labels_of_nodes(rooted, labels, homonyms)
    return _rows_of_graph(rooted, root, label_of, inner_leaves=inner_leaf_nodes)


def _check_nodes(graph: nx.DiGraph[Any], labels: Mapping[Hashable, Hashable]) -> None:
    """Refuse nodes, or nodes and keys of ``labels``, that differ in type alone, and labels that name no node."""
    if pair := same_text(list(graph)):
        remedy = "make all of them text, or all of them integers"
        raise InputError(f"the graph has the nodes {pair[0]!r} and {pair[1]!r}", expected="one type", remedy=remedy)
    unknown_keys = [key for key in labels if key not in graph]
    if unknown_keys and (pair := same_text([*unknown_keys, *graph])):
        problem = f"labels has the key {pair[0]!r}, the graph the node {pair[1]!r}"
        raise InputError(problem, expected="nodes as keys", remedy="give the keys the type of the nodes")
    if unknown_keys and len(unknown_keys) == len(labels):
        raise InputError(f"labels of {some_of(unknown_keys)}", expected=f"nodes as keys, such as {next(iter(graph))!r}")


def _labels_of_nodes(
    graph: nx.DiGraph[Any], labels: Mapping[Hashable, Hashable], homonyms: SiblingHomonyms
) -> dict[Hashable, Hashable]:
    """The label of each node, different for the children of one node."""
    label_of = {node: plain_label(labels.get(node, _label_of(graph.nodes[node], node))) for node in graph}
    for parent_node in graph:
        children = list(graph.successors(parent_node))
        for node in children:
            check_labels((label_of[node],), f"the node {node!r}")
        uses = Counter(label_of[node] for node in children)
        twins = [node for node in children if uses[label_of[node]] > 1]
        if homonyms == "rename":
            label_of |= {node: f"{label_of[node]} ({node})" for node in twins}
        if len({label_of[node] for node in children}) < len(children):
            twin_labels = {label_of[node] for node in twins}
            problem = f"the nodes {some_of(twins)} below {parent_node!r} are called {some_of(twin_labels)}"
            raise NotATreeError(problem, expected="children of different labels", choose={"homonyms": ["rename"]})
    return label_of


def _label_of(attributes: Mapping[str, Any], node: Hashable) -> Hashable:
    """Its attribute ``label``, or ``name``, as igraph, Gephi and Cytoscape write them, or the node itself."""
    return next((attributes[name] for name in ("label", "name") if name in attributes), node)


def graph_of_edges(edges: Any, direction: Direction) -> nx.DiGraph[Any]:
    """The directed graph, parent → child, of pairs, of an (n, 2) array or of a frame of two columns.

    In a frame, a row without a parent names a root.
    """
    import networkx as nx

    check_choice("direction", direction, Direction)
    graph: nx.DiGraph[Any] = nx.DiGraph()
    child_first = direction == "child-parent"
    if is_frame(edges):
        pairs, edges = _pairs_of_frame(edges), []
        for pair in pairs:
            if is_empty(pair[child_first]) and not is_empty(pair[not child_first]):
                graph.add_node(pair[not child_first])
            else:
                edges.append(pair)
    if not isinstance(edges, Iterable) or isinstance(edges, set | frozenset):
        raise InputError(f"edges={edges!r:.80}", expected="(parent, child) pairs in their order")
    for edge in _rows_of_array(edges) if hasattr(edges, "dtype") else edges:
        pair = edge.tolist() if hasattr(edge, "dtype") else edge
        if not _is_pair(pair):
            raise InputError(f"the edge {edge!r:.80}", expected="a pair of nodes, parent and child")
        nodes = map(plain_label, reversed(pair) if child_first else pair)
        graph.add_edge(*nodes)
    return graph


def _rows_of_array(edges: Any) -> list[Any]:
    """The rows of an array, whole numbers as integers."""
    array = to_numpy(edges, name="edges")
    is_integral = array.dtype.kind == "f" and bool((array == np.floor(array)).all())
    rows: list[Any] = (array.astype(np.int64) if is_integral else array).tolist()
    return rows


def _pairs_of_frame(frame: Any) -> list[tuple[Hashable, Hashable]]:
    columns = frame_columns(frame, frame_name="the frame of edges")
    if len(columns) == 2:
        first, second = columns.values()
        return list(zip(first, second, strict=True))
    problem = f"a frame of edges with the columns {', '.join(columns)}"
    remedy = 'select them, as in frame[["parent", "child"]]'
    raise InputError(problem, expected="two columns, parent and child", remedy=remedy)


def _is_pair(edge: Any) -> bool:
    if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) != 2:
        return False
    return all(isinstance(node, Hashable) and not is_missing(node) for node in edge)


def _rows_of_graph(
    graph: nx.DiGraph[Any], root: Hashable, label_of: Mapping[Hashable, Hashable], *, inner_leaves: Collection[Hashable]
) -> tuple[list[Row], list[Hashable]]:
    """The leaves in the order of the graph's edges; those of ``inner_leaves`` stand before those below them."""
    import networkx as nx

    row_of: dict[Hashable, Row] = {root: ()}
    for parent_node, node in nx.dfs_edges(graph, root):
        row_of[node] = (*row_of[parent_node], label_of[node])
        check_depth(row_of[node])
    rows: list[Row] = []
    leaf_ids: list[Hashable] = []
    for node, row in row_of.items():
        if not graph.out_degree(node) or node in inner_leaves or "leaf_ids" in graph.nodes[node]:
            node_leaf_ids = graph.nodes[node].get("leaf_ids", (node,))
            leaf_ids += map(plain_label, node_leaf_ids)
            rows += [row] * len(node_leaf_ids)
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
        leaves_below.setdefault(trimmed(row), []).append(leaf_id)
        for level, node_id in enumerate((node for node in path if node >= 0), start=1):
            graph.add_node(row[:level], label=row[level - 1], level=level, id=node_id)
            graph.add_edge(row[: level - 1], row[:level])
    for row, leaves in leaves_below.items():
        graph.nodes[row]["leaf_ids"] = tuple(leaves)
    return graph
