"""GraphML: trees as graphs, read and written a node at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np

from ..errors import OptionError, raised_as
from ..io.files import AnyPath, open_replacing
from ..io.reading import reading_file
from .formats import as_tuple, json_list
from .label_rows import Numbered, first_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOT_IN_XML = re.compile("[\0-\b\v\f\x0e-\x1f\ufffe\uffff]")
_CARRIAGE_RETURN = {"\r": "&#13;"}  # which XML would read as a line feed
_LISTS = ("level_names", "leaf_ids")  # held as JSON, because GraphML has no lists


def read_graphml(path: AnyPath) -> Any:
    """A graph whose nodes are known by the texts of their ids; a TableError names a file that is not GraphML.

    Nodes are read one at a time, since networkx would hold the whole document, in five times the memory.
    """
    from xml.etree.ElementTree import iterparse

    import networkx as nx

    reader: Any = nx.GraphMLReader()
    graph: Any = None
    open_graphs: list[Any] = []  # the graphs that are being read, one inside the other
    keys: Any = {}
    with reading_file(path, expected="a GraphML file"):
        elements = iterparse(Path(path), ("start", "end"))  # noqa: S314 - Expat bounds what entities grow to
        _, root = next(elements)
        for event, element in elements:
            kind = element.tag.removeprefix(f"{{{reader.NS_GRAPHML}}}")
            if kind == "graph" and event == "start":
                open_graphs.append(element)
                if graph is None:
                    graph = (nx.DiGraph if element.get("edgedefault") == "directed" else nx.Graph)()
                    keys, _ = reader.find_graphml_keys(root)
            elif kind == "graph":
                graph.graph.update(_attributes(reader.decode_data_elements(keys, open_graphs.pop())))
                if not open_graphs:
                    return graph
            elif kind in ("node", "edge", "hyperedge") and event == "end":
                _add_element(graph, element, kind, _attributes(reader.decode_data_elements(keys, element)))
                open_graphs[-1].remove(element)
        raise ValueError("no graph")


def _add_element(graph: Any, element: Any, kind: str, attributes: dict[str, Any]) -> None:
    """Add a node or an edge of GraphML to the graph."""
    if kind == "node":
        graph.add_node(element.attrib["id"], **attributes)
        return
    if kind == "hyperedge" or element.get("directed") == ("false" if graph.is_directed() else "true"):
        raise ValueError(f"a {kind} that is not {'' if graph.is_directed() else 'un'}directed")
    graph.add_edge(element.attrib["source"], element.attrib["target"])


def _attributes(values: dict[str, Any]) -> dict[str, Any]:
    """Those attributes of a graph or node that say what a tree is."""
    attributes = {"label": values["label"]} if "label" in values else {}
    return attributes | {
        name: as_tuple(json_list({name: json.loads(values[name])}, name)) for name in _LISTS if name in values
    }


def write_graphml(path: AnyPath, numbered: Numbered, names: Sequence[str]) -> None:
    """Write a tree in networkx's form of GraphML, which itself would take ten times the memory; nodes are numbered."""
    from networkx import GraphMLWriter, NetworkXError

    writer: Any = GraphMLWriter()
    keys = {("level_names", "string"): "d0"}

    def data(attributes: Iterable[tuple[str, Hashable]]) -> Iterator[str]:
        """The elements of a node's attributes."""
        for name, value in attributes:
            kind, text = (name, writer.get_xml_type(type(value))), str(value)
            if _NOT_IN_XML.search(text):
                raise ValueError(repr(value))
            key = keys.setdefault(kind, f"d{len(keys)}")
            yield f'<data key="{key}">{escape(text, _CARRIAGE_RETURN)}</data>' if text else f'<data key="{key}" />'

    unwritable, expected = (TypeError, ValueError, LookupError, NetworkXError), "text, numbers or booleans"
    with raised_as(OptionError, "labels that GraphML cannot hold", expected=expected, on=unwritable):
        for attributes in _graph_nodes(numbered):
            list(data(attributes))  # keys precede nodes
    with open_replacing(path) as file:
        schema = f'xsi:schemaLocation="{writer.SCHEMALOCATION}"'
        file.write(f"<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"{writer.NS_GRAPHML}\" ")
        file.write(f'xmlns:xsi="{writer.NS_XSI}" {schema}>\n')
        for (name, kind), key in reversed(keys.items()):
            scope = "graph" if key == "d0" else "node"
            file.write(f'  <key id="{key}" for="{scope}" attr.name="{name}" attr.type="{kind}" />\n')
        file.write('  <graph edgedefault="directed">\n')
        for number, attributes in enumerate(_graph_nodes(numbered)):
            file.write("\n      ".join([f'    <node id="n{number}">', *data(attributes)]) + "\n    </node>\n")
        for parent, number in _graph_edges(numbered):
            file.write(f'    <edge source="n{parent}" target="n{number}" />\n')
        levels = escape(json.dumps(names, ensure_ascii=False))
        file.write(f'    <data key="d0">{levels}</data>\n  </graph>\n</graphml>\n')


def _graph_nodes(numbered: Numbered) -> Iterator[list[tuple[str, Hashable]]]:
    """The names and values of the attributes of every node: of the root, then level by level, as they are numbered."""
    yield [("label", ""), ("level", 0)]
    starts, paths = _level_starts(numbered), numbered.paths
    depth = (paths >= 0).sum(axis=1) - 1
    ends = starts[depth] + paths[np.arange(len(paths)), depth]  # the node of each leaf
    leaves = np.argsort(ends, kind="stable")
    first_leaf = np.searchsorted(ends[leaves], np.arange(starts[-1] + 1)).tolist()
    for level, labels in enumerate(numbered.labels):
        for node, label in enumerate(labels, start=int(starts[level])):
            attributes = [("label", label), ("level", level + 1), ("id", node - int(starts[level]))]
            leaf_ids = [numbered.leaf_ids[leaf] for leaf in leaves[first_leaf[node] : first_leaf[node + 1]].tolist()]
            if leaf_ids:
                attributes.append(("leaf_ids", json.dumps(leaf_ids, ensure_ascii=False)))
            yield attributes


def _graph_edges(numbered: Numbered) -> Iterator[tuple[int, int]]:
    """Each node's parent and the node, where the root is 0."""
    starts = [0, *(_level_starts(numbered) + 1).tolist()]
    for level, column in enumerate(numbered.paths.T):
        rows = first_rows(column)
        parents = starts[level] + (numbered.paths[rows, level - 1] if level else np.zeros_like(rows))
        yield from zip(parents.tolist(), range(starts[level + 1], starts[level + 2]), strict=True)


def _level_starts(numbered: Numbered) -> NDArray[np.int64]:
    """The number of nodes above each level, and at the end of all, without the root."""
    return np.cumsum([0, *map(len, numbered.labels)])
