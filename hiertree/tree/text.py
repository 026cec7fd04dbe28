"""Label trees on disk: CSV and Parquet tables, edge lists, nested JSON, and lines of text for the eye.

H-GLDv2's published tables (``*_label_to_hierarchical.csv``) are read by
``LabelTree.from_csv(path, levels=hiertree.tree.text.H_GLDV2_LEVELS)``.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import OptionError, TableError
from ..io.files import open_replacing, write_text
from ..io.tables import read_table
from .label_tree import LabelTree

if TYPE_CHECKING:
    import pandas as pd

    from .paths import Row, Where

H_GLDV2_LEVELS = ("natural_or_human_made", "hierarchical_label", "landmark_id")
_JSON_FORMAT = "hiertree-label-tree-1"
_Nested: TypeAlias = "dict[Hashable, _Nested | list[Hashable]]"


def read_label_rows(
    path: str | os.PathLike[str], levels: Sequence[str], *, trim: bool = False
) -> tuple[list[tuple[Hashable, ...]], Where]:
    """The named columns of a CSV or Parquet file as rows of labels, with a function that names row i in messages.

    Args:
        path: the file.
        levels: column names, coarse → fine. The last becomes integers when every cell is written as one.
        trim: whether empty cells at the end of a row are cut off.

    Raises:
        TableError: the file cannot be read, or lacks a column.
    """
    if not levels or len(set(levels)) != len(levels):
        raise OptionError(f"levels={list(levels)}", expected="one or more different column names, coarse → fine")
    table = read_table(path, required=levels)
    columns: list[Sequence[Hashable]] = [table[name].tolist() for name in levels]
    columns[-1] = _integers(columns[-1])
    rows = [_trimmed(row) if trim else row for row in zip(*columns, strict=True)]
    name, lines = Path(path).name, table.index.tolist()
    return rows, lambda row: f"{name}, line {lines[row]}"


def read_edges(path: str | os.PathLike[str], *, child_first: bool = False) -> list[tuple[str, str]]:
    """Read (parent, child) pairs, one a line, separated by white space; empty lines are passed over.

    Args:
        path: a UTF-8 text file.
        child_first: whether lines read "child parent".

    Raises:
        TableError: a line without exactly two words; the message names it.
    """
    edges = []
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: {error}", expected="a readable UTF-8 text file") from error
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if words and len(words) != 2:
            raise TableError(f"{Path(path).name}, line {number}: {line!r}", expected="two words: parent and child")
        if words:
            edges.append((words[1], words[0]) if child_first else (words[0], words[1]))
    return edges


def write_tree_csv(tree: LabelTree, path: str | os.PathLike[str]) -> None:
    """See :meth:`LabelTree.to_csv`."""
    rows = _rows(tree)
    own_ids = any(row[-1] != leaf for row, leaf in zip(rows, tree.leaves, strict=True))
    with open_replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*tree.level_names, "leaf_id"] if own_ids else tree.level_names)
        for row, leaf in zip(rows, tree.leaves, strict=True):
            writer.writerow([*row, leaf] if own_ids else row)


def write_tree_json(tree: LabelTree, path: str | os.PathLike[str]) -> None:
    """See :meth:`LabelTree.to_json`."""
    content = {
        "format": _JSON_FORMAT,
        "level_names": list(tree.level_names),
        "children": list(_json_nodes(_nested(tree))),
    }
    try:
        write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    except TypeError as error:
        raise OptionError(f"labels that JSON cannot hold ({error})", expected="text or integer labels") from error


def read_tree_json(path: str | os.PathLike[str]) -> LabelTree:
    """See :meth:`LabelTree.from_json`."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != _JSON_FORMAT:
            raise ValueError(f"format {content['format']!r}")
        leaves = list(_json_leaves(content["children"], ()))
        return LabelTree._from_rows(
            [row for row, _ in leaves], [leaf for _, leaf in leaves], content["level_names"], "error", "separate"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"{path}: {error}", expected=f"a tree written by LabelTree.to_json ({_JSON_FORMAT})"
        ) from error


def summarise_tree(tree: LabelTree) -> pd.DataFrame:
    """See :meth:`LabelTree.summary`."""
    import pandas as pd

    paths, rows = tree.paths(tree.leaves), []
    parents = np.zeros(len(paths), dtype=np.int32)
    for level, name in enumerate(tree.level_names):
        nodes, first = np.unique(paths[:, level], return_index=True)
        children = np.unique(parents[first], return_counts=True)[1]
        texts = [str(tree.labels_of(paths[row, : level + 1].tolist())[-1]) for row in first]
        uses = np.unique(texts, return_counts=True)[1]
        spread = (int(children.min()), float(np.median(children)), int(children.max()))
        rows.append((level + 1, name, len(nodes), *spread, int((uses > 1).sum())))
        parents = paths[:, level]
    columns = ["level", "name", "nodes", "least_children", "median_children", "most_children", "homonyms"]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns).set_index("level")
    return table


def draw_tree(tree: LabelTree, *, most_children: int) -> str:
    """See :meth:`LabelTree.to_text`."""
    return "\n".join(_drawn(_nested(tree), "", most_children))


def _rows(tree: LabelTree) -> list[Row]:
    return [tree.labels_of(path) for path in tree.paths(tree.leaves).tolist()]


def _nested(tree: LabelTree) -> _Nested:
    """Labels in dictionaries, the finest holding lists of leaf ids."""
    nested: dict[Hashable, Any] = {}
    for row, leaf in zip(_rows(tree), tree.leaves, strict=True):
        node = nested
        for label in row[:-1]:
            node = node.setdefault(label, {})
        node.setdefault(row[-1], []).append(leaf)
    return nested


def _json_nodes(nested: _Nested) -> Iterator[dict[str, Any]]:
    for label, below in nested.items():
        if isinstance(below, dict):
            yield {"label": label, "children": list(_json_nodes(below))}
        elif below == [label]:
            yield {"label": label}
        else:
            yield {"label": label, "leaf_ids": below}


def _json_leaves(nodes: Any, above: Row) -> Iterator[tuple[Row, Hashable]]:
    for node in nodes:
        row = (*above, node["label"])
        if "children" in node:
            yield from _json_leaves(node["children"], row)
        else:
            for leaf in node.get("leaf_ids", [node["label"]]):
                yield row, tuple(leaf) if isinstance(leaf, list) else leaf


def _drawn(nested: _Nested, indent: str, most_children: int) -> Iterator[str]:
    labels = list(nested)
    shown = labels if len(labels) <= most_children else labels[: most_children - 1]
    for label in shown:
        last = label is labels[-1]
        yield f"{indent}{'└' if last else '├'}── {label}"
        below = nested[label]
        if isinstance(below, dict):
            yield from _drawn(below, indent + ("    " if last else "│   "), most_children)
    if len(shown) < len(labels):
        yield f"{indent}└── … {len(labels) - len(shown)} more"


def _trimmed(row: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    end = len(row)
    while end and row[end - 1] == "":
        end -= 1
    return row[:end]


def _integers(column: Sequence[Hashable]) -> Sequence[Hashable]:
    """The column as integers if every cell is one in its shortest form ("17", not "017")."""
    return [int(str(cell)) for cell in column] if all(map(_is_canonical_integer, column)) else column


def _is_canonical_integer(cell: Hashable) -> bool:
    return isinstance(cell, int) or (
        isinstance(cell, str) and cell.isascii() and cell.isdigit() and str(int(cell)) == cell
    )
