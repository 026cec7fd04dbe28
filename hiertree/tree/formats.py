"""The files that hold trees: tables with a column for each level, nested JSON, and lists of edges."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import OptionError, TableError, raised_as
from ..io.files import AnyPath, open_replacing
from ..io.reading import read_json, read_text, reading_file
from ..io.tables import frame_columns, line_names, read_table, write_table
from ..level_columns import ADDED, SEPARATORS, split_path
from .label_rows import Numbered, Row, RowPolicies, Where, check_labels, suggest_separator, trimmed

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger(__name__)
H_GLDV2_LEVELS = ("natural_or_human_made", "hierarchical_label", "landmark_id")
JSON_FORMAT = "hiertree-label-tree-1"
_HEADER = re.compile(
    r"(?i)parent|child|source|target|hyp(er|o)nym|(super|sub)_?class|broader|narrower|^from to$|^to from$"
)
_SHORTEST_INTEGER = re.compile("0|[1-9][0-9]*")
_WHOLE = re.compile(r"[0-9]+(\.0)?")
_ATTRIBUTES = re.compile(r"\s*\{.*\}\s*$")  # behind an edge, as networkx writes them
_TAXONOMY_HEAD = re.compile("# (Google_Product_Taxonomy|Shopify Product Taxonomy)")
_TAXONOMY_ID = re.compile(r"(?:([0-9]+) - |(gid://\S+)\s+: )")
_PHYLO = "t = Bio.Phylo.read(path, {!r}); LabelTree.from_edges((p.name, c.name) for p in t.find_clades() for c in p)"
_OBO = "LabelTree.from_networkx(obonet.read_obo(path), direction='child-parent')"
_OTHER_FORMATS = {  # by their beginning
    r"format-version:": ("OBO", _OBO),
    r"<\?xml|<rdf|<Ontology|Prefix\(|@prefix": ("OWL", f"convert it to OBO, as ROBOT does, then {_OBO}"),
    r"#NEXUS": ("NEXUS", _PHYLO.format("nexus")),
    r"\(.*;\s*\Z": ("Newick", _PHYLO.format("newick")),
}
ROOT = "root"  # of paths, which belongs to no level


def read_label_table(path: AnyPath, levels: Sequence[str], *, trim: bool, is_path: bool) -> tuple[list[Row], Where]:
    """The named columns of a CSV or Parquet file as rows of labels, and a function that names row i in messages.

    The last column becomes integers when every cell is written as one; ``trim`` drops the empty cells at the end of a
    row.
    """
    check_level_columns(levels)
    table = read_table(path, required=levels, needs_rows=True)
    columns: list[Sequence[Hashable]] = [table[name].tolist() for name in levels[:-1]]
    columns.append(as_integers(table[levels[-1]].tolist()))
    if not is_path:
        suggest_separator(columns, f"{path}, {levels[-1]}")
    rows = [trimmed(row) if trim else row for row in zip(*columns, strict=True)]
    return rows, line_names(table, path)


def reading_options(policies: RowPolicies) -> dict[str, bool]:
    """What the policies say of cells: whether empty ones end a row, and whether the last holds a whole path."""
    return {"trim": policies.get("uneven", "error") != "error", "is_path": policies.get("separator") is not None}


def read_label_frame(
    frame: Any, levels: Sequence[str] | None, *, trim: bool, is_path: bool
) -> tuple[Sequence[str], list[Row], Where]:
    """As :func:`read_label_table`, for a frame in memory whose labels stay as they are; with its level names."""
    if levels is not None:
        check_level_columns(levels)
    columns = frame_columns(frame, levels)
    names = [name for name in columns if levels is not None or name not in ADDED]
    check_level_columns(names)
    if not is_path:
        suggest_separator([columns[name] for name in names], f"the frame, {names[-1]}")
    rows = zip(*(columns[name] for name in names), strict=True)
    return names, [trimmed(row) if trim else row for row in rows], lambda row: f"the frame, row {row}"


def check_level_columns(levels: Any) -> None:
    """Refuse what is not a list of one or more different column names."""
    holds_names = (
        isinstance(levels, Sequence) and bool(levels) and all(isinstance(name, str) and name for name in levels)
    )
    if isinstance(levels, str) or not holds_names or len(set(levels)) != len(levels):
        raise OptionError(f"levels={levels!r}", expected="a list of one or more different columns, coarse → fine")


def write_label_table(path: AnyPath, numbered: Numbered, level_names: Sequence[str]) -> None:
    """Write one line per leaf under the level names; a last column ``leaf_id`` where ids and finest labels differ."""
    names, columns = list(level_names), numbered.columns()
    if list(columns[-1]) != numbered.leaf_ids:
        names, columns = [*names, "leaf_id"], [*columns, numbered.leaf_ids]
    write_table(path, names, zip(*columns, strict=True))


def as_integers(column: Sequence[str]) -> Sequence[Hashable]:
    """The column as integers if every cell is one in its shortest form ("17", not "017")."""
    return list(map(int, column)) if all(map(_SHORTEST_INTEGER.fullmatch, column)) else column


def write_json_tree(path: AnyPath, numbered: Numbered, level_names: Sequence[str]) -> None:
    """Write a tree as :func:`read_json_tree` reads it; labels that JSON cannot hold are an OptionError."""
    order = np.lexsort(numbered.paths.T[::-1])  # descendants of a node are consecutive
    rows = zip(*numbered.paths[order].T.tolist(), map(numbered.leaf_ids.__getitem__, order.tolist()), strict=True)
    document: dict[str, Any] = {
        "format": JSON_FORMAT,
        "level_names": list(level_names),
        "children": _json_nodes(rows, numbered.labels, 0),
    }
    if (order[:-1] > order[1:]).any():  # else reading would number the nodes anew
        document["leaf_order"] = order.tolist()
    unwritable = raised_as(OptionError, "labels that JSON cannot hold", expected="text or integer labels", on=TypeError)
    with unwritable, open_replacing(path) as file:
        file.writelines(json.JSONEncoder(ensure_ascii=False, indent=1).iterencode(document))
        file.write("\n")


def _json_nodes(rows: Iterable[tuple[Any, ...]], labels: list[list[Hashable]], level: int) -> list[dict[str, Any]]:
    """The nodes of some rows from a level on, as JSON holds them."""
    nodes: list[dict[str, Any]] = []
    for node, node_rows in groupby(rows, key=itemgetter(level)):
        label = None if node < 0 else labels[level][node]
        if level + 1 < len(labels) and node >= 0:
            nodes.append({"label": label, "children": _json_nodes(node_rows, labels, level + 1)})
        else:
            leaves = [row[-1] for row in node_rows]
            nodes.append({"label": label} if leaves == [label] else {"label": label, "leaf_ids": leaves})
    return nodes


def read_json_tree(path: AnyPath) -> tuple[list[Row], list[Hashable], list[str]]:
    """The row of every leaf, the leaves' ids and the names of the levels that :func:`write_json_tree` wrote.

    A TableError names a file that is not such a tree.
    """
    expected = f"a tree written by LabelTree.to_json ({JSON_FORMAT})"
    document = read_json(path, expected=expected)
    with reading_file(path, expected=expected):
        if document["format"] != JSON_FORMAT:
            raise ValueError(f"format {document['format']!r}")
        leaves = list(_json_leaves(json_list(document, "children"), ()))
        if "leaf_order" in document:
            order = json_list(document, "leaf_order")
            if sorted(order) != list(range(len(leaves))):
                raise ValueError(f"leaf_order of {len(order)} numbers for {len(leaves)} leaves")
            leaves = [leaves[leaf] for leaf in np.argsort(order)]
        names = json_list(document, "level_names")
        rows = [row + (None,) * (len(names) - len(row)) if row[-1] is None else row for row, _ in leaves]
        return rows, [leaf for _, leaf in leaves], names


def json_list(node: dict[str, Any], key: str) -> list[Any]:
    """The list under a key, with one value at least; a ValueError shows what else is there."""
    values = node[key]
    if not isinstance(values, list) or not values:
        raise ValueError(f"{key} {values!r:.80} instead of a list")
    return values


def _json_leaves(nodes: Sequence[Any], parent_row: Row) -> Iterator[tuple[Row, Hashable]]:
    labels = set()
    for node in nodes:
        row = (*parent_row, as_tuple(node["label"]))
        if row[-1] is not None or not parent_row or "children" in node:  # else the rest of the path is unknown
            check_labels(row, f"the node {row[-1]!r:.80}")
        labels.add(row[-1])
        if "children" in node and "leaf_ids" in node:
            raise ValueError(f"children and leaf_ids of {row[-1]!r:.80}")
        if "children" in node:
            yield from _json_leaves(json_list(node, "children"), row)
            continue
        for leaf in map(as_tuple, json_list(node, "leaf_ids") if "leaf_ids" in node else [node["label"]]):
            check_labels((leaf,), f"a leaf of {row[-1]!r:.80}")
            yield row, leaf
    if len(labels) < len(nodes):
        raise ValueError(f"{len(nodes)} nodes below {parent_row!r:.80} with {len(labels)} labels")


def as_tuple(value: Any) -> Hashable:
    """A label or id that JSON holds as a list is a tuple."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def read_edges(path: AnyPath, *, child_first: bool = False) -> list[tuple[str, str]]:
    """Read (parent, child) pairs for :meth:`hiertree.LabelTree.from_edges`: one per line.

    White space separates the two, or one tab where names hold spaces. Empty lines, comments after ``#`` and the
    attributes that networkx writes behind an edge are left out.

    Args:
        path: a UTF-8 text file.
        child_first: whether lines read "child parent".

    Raises:
        TableError: the file cannot be read, or a line has not exactly two names; the message names the line.
    """
    text = read_text(path)
    _refuse_other_format(path, text)
    edges: list[tuple[str, str]] = []
    for line_index, line in enumerate(text.splitlines(), start=1):
        plain_line = "" if line.startswith("#") else _ATTRIBUTES.sub("", line)
        names = [
            name for name in map(str.strip, plain_line.split("\t" if "\t" in plain_line.strip() else None)) if name
        ]
        if names and len(names) != 2:
            problem = f"{Path(path).name}, line {line_index}: {line!r:.200}"
            sign = next((sign for sign in SEPARATORS if 2 * text.count(sign) > text.count("\n")), None)
            choose = None if sign is None else {"separator": [sign]}
            raise TableError(problem, expected="two words: parent and child", choose=choose)
        if names:
            edges.append((names[1], names[0]) if child_first else (names[0], names[1]))
    if len(edges) > 1 and set(edges[0]).isdisjoint(chain.from_iterable(edges[1:])):
        first, name = " ".join(edges[0]), Path(path).name
        if _HEADER.search(first):
            raise TableError(f"{name}, line 1: the header {first!r}", expected="nodes", remedy="remove that line")
        _log.warning("%s, line 1: no other line names %s; remove it if it is a header", name, " or ".join(edges[0]))
    return edges


def _refuse_other_format(path: AnyPath, text: str) -> None:
    """Refuse formats of ontologies and phylogenies, which other libraries read; the message has their line."""
    for beginning, (form, remedy) in _OTHER_FORMATS.items():
        if re.match(beginning, text.lstrip(), re.IGNORECASE):
            raise TableError(
                f"{path} in the {form} format", expected="a parent and its child on each line", remedy=remedy
            )


def read_taxonomy(
    path: AnyPath, *, separator: str | None = None
) -> tuple[list[tuple[str, str]], dict[Hashable, Hashable]]:
    """Read a file with the path of a node on each line: edges for :meth:`hiertree.LabelTree.from_edges`, and labels.

    Google's and Shopify's product taxonomies are read as they are published, with and without ids. A node is known by
    its id, or else by its path as the file writes it.

    Args:
        path: a UTF-8 text file.
        separator: what stands between the labels of a path; ``" > "`` unless given.

    Raises:
        TableError: the file cannot be read, holds no path, or one id twice.

    Example:
        ``edges, labels = read_taxonomy("taxonomy-with-ids.en-US.txt")``, then
        ``LabelTree.from_edges(edges, labels=labels, uneven="pad")``
    """
    sign = separator or SEPARATORS[0]
    lines = [line for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]
    matches = [_TAXONOMY_ID.match(line) for line in lines]
    has_ids = all(matches)
    node_of: dict[tuple[str, ...], str] = {}
    for line, match in zip(lines, matches, strict=True):
        text = line[match.end() :] if has_ids and match else line
        row = tuple(split_path(text, sign))
        node_of.setdefault(row, match[1] or match[2] if has_ids and match else sign.join(row))
    if len(set(node_of.values())) < len(node_of) or not node_of:
        raise TableError(f"{path} with {len(lines)} paths", expected="one path or more, and an id only once")
    for row in list(node_of):
        for depth in range(1, len(row)):
            node_of.setdefault(row[:depth], sign.join(row[:depth]))
    edges = [(node_of.get(row[:-1], ROOT), node) for row, node in node_of.items()]
    return edges, {node: row[-1] for row, node in node_of.items()}


def is_taxonomy(path: AnyPath) -> bool:
    """Whether a file says in its first line that it is Google's or Shopify's taxonomy of products."""
    return _TAXONOMY_HEAD.match(read_text(path)) is not None


def edge_columns(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Two columns of edges, whose numbers are written alike: pandas writes 1.0 where a parent is missing."""
    columns = table[list(names)]
    are_integers = columns.map(lambda cell: not cell or _WHOLE.fullmatch(cell) is not None).to_numpy().all()
    edges: pd.DataFrame = columns.map(lambda cell: cell.removesuffix(".0")) if are_integers else columns
    return edges
