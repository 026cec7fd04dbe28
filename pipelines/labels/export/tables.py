"""The hierarchical table in GLDv2's published columns, and the label tree that it describes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hiertree.errors import TableError
from hiertree.tree import H_GLDV2_LEVELS, LabelTree

from ..clean.landmark_file import SEPARATOR
from ..clean.rules import KeptLandmark
from ..cluster.cluster_tables import clusters_of
from ..cluster.proposing import Proposal
from ..folders import AnyPath

HIERARCHICAL, TREE, EXPORTED = "hierarchical.csv", "tree.json", "exported"


class HierarchicalRow(NamedTuple):
    """A row of GLDv2's ``*_label_to_hierarchical.csv``; ``supercategory`` is the "instance of" label."""

    landmark_id: int
    category: str
    supercategory: str
    hierarchical_label: str
    natural_or_human_made: str


def hierarchical_rows(kept: Sequence[KeptLandmark], proposal: Proposal) -> list[HierarchicalRow]:
    """One row per landmark, in the order given; several labels are joined by ``|``."""
    return [
        HierarchicalRow(
            landmark.landmark_id, landmark.category, SEPARATOR.join(landmark.labels), cluster.name, cluster.kind
        )
        for landmark, cluster in zip(kept, clusters_of(kept, proposal), strict=True)
    ]


def label_tree(rows: Sequence[HierarchicalRow], proposal: Proposal) -> LabelTree:
    """Kind → groups above, if any → supercategory → landmark.

    Without groups, the same as ``LabelTree.from_csv`` reads from the published columns.
    """
    above = {cluster.name: cluster.above for cluster in proposal.clusters}
    kind, cluster, landmark = H_GLDV2_LEVELS
    groups = [f"group_{depth}" for depth in range(1, len(proposal.clusters[0].above) + 1)]
    return LabelTree.from_paths(
        [
            (row.natural_or_human_made, *above[row.hierarchical_label], row.hierarchical_label, row.landmark_id)
            for row in rows
        ],
        level_names=[kind, *groups, cluster, landmark],
    )


def export_folder(path: AnyPath) -> Path:
    """The folder of an export: the folder itself, or ``exported`` in a folder made by ``labels build``."""
    inside = Path(path) / EXPORTED
    return inside if inside.is_dir() else Path(path)


def hierarchical_table(path: AnyPath) -> Path:
    """The file itself, or the one hierarchical table of an export.

    Raises:
        TableError: none there, or several.
    """
    if not Path(path).is_dir():
        return Path(path)
    folder = export_folder(path)
    found = sorted(folder.glob(f"*{HIERARCHICAL}"))
    if len(found) != 1:
        expected = "one, as in a folder made by 'hiertree labels export'"
        raise TableError(f"{folder} holds {len(found)} files *{HIERARCHICAL}", expected=expected)
    return found[0]
