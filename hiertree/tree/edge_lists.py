"""Lists of (parent, child) pairs, as taxonomies are often published."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import TableError
from ..io.files import read_text


def read_edges(path: str | os.PathLike[str], *, child_first: bool = False) -> list[tuple[str, str]]:
    """Read (parent, child) pairs for :meth:`hiertree.LabelTree.from_edges`: one per line, separated by white space.

    Empty lines are skipped.

    Args:
        path: a UTF-8 text file.
        child_first: whether lines read "child parent".

    Raises:
        TableError: the file cannot be read, or a line has not exactly two words; the message names the line.
    """
    edges = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.split()
        if words and len(words) != 2:
            raise TableError(f"{Path(path).name}, line {number}: {line!r}", expected="two words: parent and child")
        if words:
            edges.append((words[1], words[0]) if child_first else (words[0], words[1]))
    return edges
