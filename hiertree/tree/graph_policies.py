"""What to make of a graph that is no plain tree: reversed edges, several parents or roots, items on inner nodes.

Each defect is an error unless the caller chooses a policy for it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..errors import NotATreeError, UnknownLeafError
from ..options import check_choice

if TYPE_CHECKING:
    import networkx as nx

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


def check_policies(
    *,
    direction: Direction = "parent-child",
    multiple_parents: MultipleParents = "error",
    forest: Forest = "error",
    inner_leaves: Iterable[Hashable] | Literal["all"] = (),
) -> GraphPolicies:
    """All of them, with their defaults.

    Raises:
        OptionError: a value that is no choice.
        TypeError: an unknown option.
    """
    check_choice("direction", direction, Direction)
    check_choice("multiple_parents", multiple_parents, MultipleParents)
    check_choice("forest", forest, Forest)
    if isinstance(inner_leaves, str) or not isinstance(inner_leaves, Iterable):
        check_choice("inner_leaves", inner_leaves, Literal["all"])
    else:
        inner_leaves = frozenset(inner_leaves)
    return GraphPolicies(
        direction=direction, multiple_parents=multiple_parents, forest=forest, inner_leaves=inner_leaves
    )


def with_one_parent(
    graph: nx.DiGraph[Any], policy: MultipleParents, inner_leaves: Collection[Hashable]
) -> nx.DiGraph[Any]:
    """An acyclic graph in which every node has at most one parent.

    Raises:
        NotATreeError: a node has several, and the policy is ``"error"``, or the edges seem to be reversed.
    """
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


def with_one_root(graph: nx.DiGraph[Any], policy: Forest) -> tuple[nx.DiGraph[Any], Hashable]:
    """A tree and its root; several roots are joined under a new one where the policy says so.

    Raises:
        NotATreeError: there are several, and the policy is ``"error"``.
    """
    roots: list[Hashable] = [node for node, degree in graph.in_degree() if degree == 0]
    if len(roots) == 1:
        return graph, roots[0]
    if policy == "error":
        shown = ", ".join(map(repr, roots[:5])) + (", …" if len(roots) > 5 else "")
        raise NotATreeError(
            f"the graph has {len(roots)} roots: {shown}",
            expected="one node without a parent",
            remedy="pass forest='join' to make them the labels of level 1, or add an edge from one root to each",
        )
    joined, above = graph.copy(), object()  # equal to no node of the graph
    joined.add_edges_from((above, root) for root in roots)
    return joined, above


def chosen_inner_leaves(
    graph: nx.DiGraph[Any], root: Hashable, asked: Collection[Hashable] | Literal["all"]
) -> Collection[Hashable]:
    """The inner nodes that are leaves too.

    Raises:
        UnknownLeafError: a node that the tree does not have, or its root, which carries no label.
    """
    if asked == "all":
        return {node for node in graph if node != root and graph.out_degree(node)}
    unknown = [node for node in asked if node not in graph or node == root]
    if unknown:
        shown = ", ".join(map(repr, unknown[:5])) + (", …" if len(unknown) > 5 else "")
        raise UnknownLeafError(f"inner_leaves: {shown}", expected="nodes of the tree below its root")
    return frozenset(asked)
