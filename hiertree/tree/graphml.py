"""Label trees as GraphML, the XML of graph-drawing programs; networkx reads and writes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError, TableError
from ..io.files import replacing

if TYPE_CHECKING:
    import networkx as nx

_LISTS = ("level_names", "leaf_ids")  # held as JSON, because GraphML has no lists


def read_graphml(path: str | os.PathLike[str]) -> Any:
    """A graph whose nodes are known by the texts of their ids.

    Raises:
        TableError: no such file, or no GraphML.
    """
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    try:
        graph: Any = nx.read_graphml(Path(path))
        for attributes in (graph.graph, *(attributes for _, attributes in graph.nodes(data=True))):
            for name in set(_LISTS) & set(attributes):
                attributes[name] = tuple(
                    tuple(value) if isinstance(value, list) else value for value in json.loads(attributes[name])
                )
    except (OSError, ParseError, nx.NetworkXError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: {error}", expected="a readable GraphML file") from None
    return graph


def write_graphml(path: str | os.PathLike[str], graph: nx.DiGraph[Any]) -> None:
    """Write the graph of a tree; its nodes are numbered, for their names are tuples.

    Raises:
        OptionError: labels that GraphML cannot hold.
    """
    import networkx as nx

    numbered = nx.relabel_nodes(graph, {node: f"n{number}" for number, node in enumerate(graph)})
    try:
        for attributes in (numbered.graph, *(attributes for _, attributes in numbered.nodes(data=True))):
            for name in set(_LISTS) & set(attributes):
                attributes[name] = json.dumps(attributes[name], ensure_ascii=False)
        with replacing(path) as temporary:
            nx.write_graphml_xml(numbered, temporary)
    except (TypeError, ValueError, nx.NetworkXError) as error:
        raise OptionError(f"labels that GraphML cannot hold ({error})", expected="text, numbers or booleans") from None
