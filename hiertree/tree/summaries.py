"""Trees at a glance: a table of sizes by level, and a drawing in text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .label_rows import Nested, Row

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def summarize_levels(paths: NDArray[np.int32], rows: Sequence[Row], level_names: Sequence[str]) -> pd.DataFrame:
    """One row per level: number of nodes, children per parent, and texts that name several nodes.

    Args:
        paths: (n, L) of every leaf.
        rows: n rows of L labels.
        level_names: L names.
    """
    import pandas as pd

    summaries = []
    parents = np.zeros(len(paths), dtype=np.int32)
    for level, name in enumerate(level_names):
        nodes, first = np.unique(paths[:, level], return_index=True)
        children = np.unique(parents[first], return_counts=True)[1]
        uses = np.unique([str(rows[leaf][level]) for leaf in first], return_counts=True)[1]
        spread = (int(children.min()), float(np.median(children)), int(children.max()))
        summaries.append((level + 1, name, len(nodes), *spread, int((uses > 1).sum())))
        parents = paths[:, level]
    columns = ["level", "name", "nodes", "least_children", "median_children", "most_children", "homonyms"]
    table: pd.DataFrame = pd.DataFrame(summaries, columns=columns).set_index("level")
    return table


def draw_lines(nested: Nested, *, most_children: int, indent: str = "") -> Iterator[str]:
    """The lines of a drawing; a node with more children than ``most_children`` ends with their number."""
    labels = list(nested)
    shown = labels if len(labels) <= most_children else labels[: most_children - 1]
    for label in shown:
        last = label is labels[-1]
        yield f"{indent}{'└' if last else '├'}── {label}"
        below = nested[label]
        if isinstance(below, dict):
            yield from draw_lines(below, most_children=most_children, indent=indent + ("    " if last else "│   "))
    if len(shown) < len(labels):
        yield f"{indent}└── … {len(labels) - len(shown)} more"
