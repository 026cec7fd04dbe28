"""Label trees in the Newick format: ``((17,9)lake,(5)peak)natural;``, with quotes around names that need them."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from ..errors import OptionError, TableError
from ..io.files import read_text, write_text
from .label_rows import Nested, Row, nest
from .tables import as_integers

_PLAIN = re.compile(r"[\w.+-]+")


def read_newick(path: str | os.PathLike[str], *, join: bool, inner_names: bool) -> list[Row]:
    """The row of every leaf, coarse → fine, without the root.

    Args:
        path: the file.
        join: whether several trees are the nodes of level 1.
        inner_names: whether to read the names of inner nodes.

    Raises:
        TableError: the file is not Newick, several trees or none, or two children of a node share a name.
    """
    import newick

    text = read_text(path).strip()
    try:
        trees = newick.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{path}: {error}", expected="a tree in the Newick format") from None
    if not trees or (len(trees) > 1 and not join):
        remedy = "pass forest='join' to make them the nodes of level 1" if trees else None
        raise TableError(f"{path} holds {len(trees)} trees", expected="one", remedy=remedy)
    roots = trees if join and len(trees) > 1 else trees[0].descendants
    if not roots:
        raise TableError(f"{path}: {trees[0].name!r} has nothing below it", expected="a root and its leaves")
    rows = list(_rows(roots, path, inner_names))
    leaves = as_integers([row[-1] for row in rows])
    return [(*row[:-1], leaf) for row, leaf in zip(rows, leaves, strict=True)]


def _rows(roots: Sequence[Any], path: str | os.PathLike[str], inner_names: bool) -> Iterator[Row]:
    unnamed = 0
    stack: list[tuple[Any, Row]] = [(node, ()) for node in reversed(roots)]
    _refuse_equal_names(roots, path, inner_names)
    while stack:
        node, above = stack.pop()
        children = node.descendants
        name = node.unquoted_name if inner_names or not children else None
        if children and not name:
            unnamed += 1
            name = f"node {unnamed}"
        row = (*above, name)
        if not children:
            yield row
        _refuse_equal_names(children, path, inner_names)
        stack.extend((child, row) for child in reversed(children))


def _refuse_equal_names(nodes: Sequence[Any], path: str | os.PathLike[str], inner_names: bool) -> None:
    """Inner nodes of one name under one parent would become one node."""
    named = [node.unquoted_name for node in nodes if node.descendants and node.name and inner_names]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise TableError(
            f"{path}: two children of one node are called {twice!r}",
            expected="different names",
            remedy="pass inner_names=False if the names of inner nodes are the support of their branches",
        )


def write_newick(path: str | os.PathLike[str], rows: Sequence[Row], leaf_ids: Sequence[Hashable]) -> None:
    """Write the tree of rows, below a root without a name.

    Raises:
        OptionError: leaf ids that are neither the finest labels nor the rows.
    """
    for row, leaf in zip(rows, leaf_ids, strict=True):
        if leaf not in (row[-1], row):
            given = f"the leaf {leaf!r} with the finest label {row[-1]!r}"
            raise OptionError(given, expected="ids that are the labels", remedy="use to_json, which holds both")
    write_text(path, f"({_joined(nest(rows, leaf_ids))});\n")


def _joined(nested: Nested) -> str:
    return ",".join(
        (f"({_joined(below)})" if isinstance(below, dict) else "") + _quoted(label) for label, below in nested.items()
    )


def _quoted(label: Hashable) -> str:
    text = str(label)
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "''") + "'"
