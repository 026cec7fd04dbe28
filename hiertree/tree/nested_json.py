"""Label trees as nested JSON, with the keys ``label`` and ``children`` that drawing libraries read."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import OptionError, TableError
from ..io.files import read_text, write_text
from .label_rows import Nested, Row, nest

FORMAT = "hiertree-label-tree-1"


class StoredTree(NamedTuple):
    """What a file holds: the row of every leaf, the leaves' ids, and the names of the levels."""

    rows: list[Row]
    leaf_ids: list[Hashable]
    level_names: list[str]


def write_json_tree(
    path: str | os.PathLike[str], rows: Sequence[Row], leaf_ids: Sequence[Hashable], level_names: Sequence[str]
) -> None:
    """Write a tree as :func:`read_json_tree` reads it.

    Raises:
        OptionError: labels that JSON cannot hold.
    """
    content = {"format": FORMAT, "level_names": list(level_names), "children": list(_nodes(nest(rows, leaf_ids)))}
    try:
        write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    except TypeError as error:
        raise OptionError(f"labels that JSON cannot hold ({error})", expected="text or integer labels") from error


def read_json_tree(path: str | os.PathLike[str]) -> StoredTree:
    """Read what :func:`write_json_tree` wrote.

    Raises:
        TableError: the file is not such a tree.
    """
    text = read_text(path)
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}")
        leaves = list(_leaves(content["children"], ()))
        return StoredTree([row for row, _ in leaves], [leaf for _, leaf in leaves], content["level_names"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TableError(f"{path}: {error}", expected=f"a tree written by LabelTree.to_json ({FORMAT})") from error


def _nodes(nested: Nested) -> Iterator[dict[str, Any]]:
    for label, below in nested.items():
        if isinstance(below, dict):
            yield {"label": label, "children": list(_nodes(below))}
        elif below == [label]:
            yield {"label": label}
        else:
            yield {"label": label, "leaf_ids": below}


def _leaves(nodes: Any, above: Row) -> Iterator[tuple[Row, Hashable]]:
    for node in nodes:
        row = (*above, node["label"])
        if "children" in node:
            yield from _leaves(node["children"], row)
        else:
            for leaf in node.get("leaf_ids", [node["label"]]):
                yield row, tuple(leaf) if isinstance(leaf, list) else leaf
