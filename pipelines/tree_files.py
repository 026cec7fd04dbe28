"""``hiertree tree``: a hierarchy in any format that hiertree reads, written as a tree without defects."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from hiertree import LabelTree
from hiertree.errors import OptionError
from hiertree.io.tables import read_table
from hiertree.tree import read_edges

PathLike = str | os.PathLike[str]
OF_GRAPHS = ("direction", "multiple_parents", "forest", "inner_leaves", "uneven")
OF_ROWS = ("leaf", "uneven", "repeats", "homonyms", "gaps")
OF_NEWICK = ("leaf", "uneven", "forest", "inner_names")
_TABLES, _NEWICK, _GRAPHML, _JSON = (".csv", ".parquet"), (".nwk", ".newick"), ".graphml", ".json"
_WRITERS: dict[str, Callable[[LabelTree, Path], None]] = {
    ".csv": LabelTree.to_csv,
    _JSON: LabelTree.to_json,
    _GRAPHML: LabelTree.to_graphml,
    **dict.fromkeys(_NEWICK, LabelTree.to_newick),
}


def convert_tree(
    source: PathLike, out: PathLike, *, levels: Sequence[str] = (), edges: Sequence[str] = (), **policies: Any
) -> LabelTree:
    """Read a hierarchy, with a policy for each defect it may have, and write the tree.

    Args:
        source: a table (``.csv``, ``.parquet``), GraphML, Newick (``.nwk``, ``.newick``), a tree that hiertree wrote
            (``.json``), or a text file with the two nodes of an edge on each line (any other name).
        out: a table, GraphML, Newick or JSON, by the end of its name.
        levels: columns of a table, coarse → fine; names of the levels of other files.
        edges: instead, two columns of a table: parents and children. A row without a parent names a root.
        **policies: options of :meth:`hiertree.LabelTree.from_edges` for graphs, of
            :meth:`hiertree.LabelTree.from_paths` for tables of levels, or of :meth:`hiertree.LabelTree.from_newick`.

    Raises:
        OptionError: neither levels nor edges of a table, a policy that is not of such files, or an unknown format to
            write.
        TableError: the file cannot be read, or lacks a column.
        HierarchyError: a defect without a policy.
    """
    write = _WRITERS.get(Path(out).suffix.lower())
    if write is None:
        raise OptionError(f"out={str(out)!r}", expected=f"a name that ends in {', '.join(_WRITERS)}")
    tree = _read(Path(source), tuple(levels), tuple(edges), policies)
    write(tree, Path(out))
    return tree


def _read(source: Path, levels: tuple[str, ...], edges: tuple[str, ...], policies: dict[str, Any]) -> LabelTree:
    kind = source.suffix.lower()
    if edges and kind not in _TABLES:
        raise OptionError(f"edges={','.join(edges)!r} of {source.name}", expected="columns of a CSV or Parquet table")
    if kind in _TABLES:
        return _read_table(source, levels, edges, policies)
    if kind in _NEWICK:
        _check_policies(policies, OF_NEWICK, "Newick")
        return LabelTree.from_newick(source, level_names=levels or None, **policies)
    if kind == _JSON:
        if levels:
            raise OptionError(f"levels={','.join(levels)!r} of {source.name}", expected="none: a .json tree has names")
        _check_policies(policies, (), "a .json tree")
        return LabelTree.from_json(source)
    _check_policies(policies, OF_GRAPHS, "a graph")
    if kind == _GRAPHML:
        return LabelTree.from_graphml(source, level_names=levels or None, **policies)
    return LabelTree.from_edges(read_edges(source), level_names=levels or None, **policies)


def _read_table(source: Path, levels: tuple[str, ...], edges: tuple[str, ...], policies: dict[str, Any]) -> LabelTree:
    if bool(levels) == bool(edges) or len(edges) not in (0, 2):
        given = f"the table {source.name} with levels={','.join(levels)!r} and edges={','.join(edges)!r}"
        raise OptionError(given, expected="columns of levels, coarse → fine, or two of edges, parent and child")
    if levels:
        _check_policies(policies, OF_ROWS, "a table of levels")
        return LabelTree.from_csv(source, levels=levels, **policies)
    _check_policies(policies, OF_GRAPHS, "a table of edges")
    return LabelTree.from_edges(read_table(source, required=edges, needs_rows=True)[list(edges)], **policies)


def _check_policies(policies: dict[str, Any], known: Collection[str], files: str) -> None:
    """Refuse a policy that such files have no use for."""
    for name, value in policies.items():
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "none"
            raise OptionError(f"{name}={value!r} for {files}", expected=expected)
