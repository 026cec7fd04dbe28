"""``hiertree labels diff``: what changed between two exports.

A supercategory that is in A alone counts as *renamed* to one that is in B alone if more than half of the landmarks in
either are in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hiertree.io.files import AnyPath
from hiertree.io.tables import read_table, write_table

from ..cluster.quality import agreement
from ..landmarks import unique_ids
from .tables import HierarchicalRow, hierarchical_table

if TYPE_CHECKING:
    import pandas as pd

_CLUSTER = "hierarchical_label"
_COMPARED = ("supercategory", _CLUSTER, "natural_or_human_made")
_WORDS = ("label", "supercategory", "kind")
_SHOWN = 10


def compare_exports(a: AnyPath, b: AnyPath, *, table: AnyPath | None = None) -> dict[str, Any]:
    """Compare two exports, landmark by landmark.

    Args:
        a: a folder that holds one ``*hierarchical.csv``, or such a file.
        b: another.
        table: a CSV to write: one row per landmark that differs.

    Returns:
        JSON-able: ``landmarks`` (of a, b, both, only_a, only_b), ``changed`` (how many common landmarks have another
        value in each column), ``clusters`` (only_a, only_b, renamed) and ``agreement`` of the supercategories over the
        common landmarks.

    Raises:
        TableError: no such file, or one that cannot be read as asked.
    """
    import pandas as pd

    table_a, table_b = _table(a), _table(b)
    either = table_a.index.union(table_b.index, sort=False)
    side_by_side = table_a.add_suffix("_a").reindex(either).join(table_b.add_suffix("_b"))
    common = side_by_side.dropna()
    differs = pd.DataFrame({name: side_by_side[f"{name}_a"] != side_by_side[f"{name}_b"] for name in _COMPARED})
    differs.insert(0, "any", differs.any(axis="columns"))  # also where one side lacks a landmark
    if table is not None:
        header = [f"{name}_{side}" for name in _COMPARED for side in "ab"]
        rows = side_by_side.loc[differs["any"], header].fillna("").itertuples(name=None)
        write_table(table, ("landmark_id", *header), rows)
    sizes = {"a": len(table_a), "b": len(table_b), "both": len(common)}
    return {
        "landmarks": sizes | {f"only_{side}": sizes[side] - len(common) for side in "ab"},
        "changed": {name: int(differs.loc[common.index, name].sum()) for name in differs},
        "clusters": _clusters(table_a[_CLUSTER], table_b[_CLUSTER], common),
        "agreement": agreement(common[f"{_CLUSTER}_a"].tolist(), common[f"{_CLUSTER}_b"].tolist())
        if len(common)
        else {},
    }


def describe_differences(differences: Mapping[str, Any]) -> str:
    """The differences as text, a line each."""
    landmarks, changed, clusters = differences["landmarks"], differences["changed"], differences["clusters"]
    columns = [f"{changed[name]} in {word}" for name, word in zip(_COMPARED, _WORDS, strict=True)]
    lines = [
        f"{landmarks['a']} landmarks in A, {landmarks['b']} in B, {landmarks['both']} in both",
        f"{changed['any']} of these changed: {', '.join(columns)}",
        *(f"renamed: {pair['a']} → {pair['b']} ({pair['landmarks']} landmarks)" for pair in clusters["renamed"]),
        *(f"only in {side.upper()}: {_listed(clusters[f'only_{side}'])}" for side in "ab" if clusters[f"only_{side}"]),
    ]
    if differences["agreement"]:
        lines.append(f"adjusted Rand index {differences['agreement']['ari']:.3f}")
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    ending = f", … {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + ending


def _table(path: AnyPath) -> pd.DataFrame:
    """The compared columns by landmark."""
    import pandas as pd

    file = hierarchical_table(path)
    table = read_table(file, required=HierarchicalRow._fields)
    ids = pd.Index(unique_ids(table, "landmark_id", file), name="landmark_id")
    columns: pd.DataFrame = table.set_index(ids)[list(_COMPARED)]
    return columns


def _clusters(clusters_a: pd.Series[str], clusters_b: pd.Series[str], common: pd.DataFrame) -> dict[str, Any]:
    """Supercategories of one side only, and renamed ones."""
    sizes = clusters_a.value_counts(), clusters_b.value_counts()
    only = {"a": set(sizes[0].index) - set(sizes[1].index), "b": set(sizes[1].index) - set(sizes[0].index)}
    pairs = common.groupby([f"{_CLUSTER}_a", f"{_CLUSTER}_b"], as_index=False).size()
    renamed = [
        {"a": name_a, "b": name_b, "landmarks": int(num_common)}
        for name_a, name_b, num_common in pairs.itertuples(index=False, name=None)
        if name_a in only["a"] and name_b in only["b"] and 2 * num_common > max(sizes[0][name_a], sizes[1][name_b])
    ]
    left = {f"only_{side}": sorted(only[side] - {pair[side] for pair in renamed}) for side in "ab"}
    return {**left, "renamed": renamed}
