"""``hiertree labels diff``: what changed between two exports.

A supercategory that is in A alone counts as *renamed* to one that is in B alone if more than half of the landmarks in
either are in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hiertree.io.tables import read_table, write_table

from ..cluster.agreement_measures import agreement
from ..folders import AnyPath
from ..landmarks import unique_ids
from .tables import HierarchicalRow, hierarchical_table

_COMPARED = ("supercategory", "hierarchical_label", "natural_or_human_made")
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
    before, after = _rows(a), _rows(b)
    both = sorted(before.keys() & after.keys())
    changed = [key for key in both if _values(before[key]) != _values(after[key])]
    if table is not None:
        header = ("landmark_id", *(f"{name}_{side}" for name in _COMPARED for side in "ab"))
        write_table(table, header, _differing(before, after))
    return {
        "landmarks": {
            "a": len(before),
            "b": len(after),
            "both": len(both),
            "only_a": len(before.keys() - after.keys()),
            "only_b": len(after.keys() - before.keys()),
        },
        "changed": {
            "any": len(changed),
            **{name: sum(getattr(before[k], name) != getattr(after[k], name) for k in changed) for name in _COMPARED},
        },
        "clusters": _clusters(before, after),
        "agreement": agreement(*([side[key].hierarchical_label for key in both] for side in (before, after)))
        if both
        else {},
    }


def describe_differences(found: Mapping[str, Any]) -> str:
    """The differences as text, a line each."""
    landmarks, changed, clusters = found["landmarks"], found["changed"], found["clusters"]
    columns = [f"{changed[name]} in {word}" for name, word in zip(_COMPARED, _WORDS, strict=True)]
    lines = [
        f"{landmarks['a']} landmarks in A, {landmarks['b']} in B, {landmarks['both']} in both",
        f"{changed['any']} of these changed: {', '.join(columns)}",
        *(f"renamed: {pair['a']} → {pair['b']} ({pair['landmarks']} landmarks)" for pair in clusters["renamed"]),
        *(f"only in {side.upper()}: {_listed(clusters[f'only_{side}'])}" for side in "ab" if clusters[f"only_{side}"]),
    ]
    if found["agreement"]:
        lines.append(f"adjusted Rand index {found['agreement']['ari']:.3f}")
    return "\n".join(lines)


def _listed(names: list[str]) -> str:
    more = f", … {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _rows(path: AnyPath) -> dict[int, HierarchicalRow]:
    file = hierarchical_table(path)
    table = read_table(file, required=HierarchicalRow._fields)
    ids = unique_ids(table, "landmark_id", file)
    cells = table[list(HierarchicalRow._fields[1:])].itertuples(index=False, name=None)
    return {landmark_id: HierarchicalRow(landmark_id, *texts) for landmark_id, texts in zip(ids, cells, strict=True)}


def _values(row: HierarchicalRow) -> tuple[str, ...]:
    return tuple(getattr(row, name) for name in _COMPARED)


def _differing(
    before: Mapping[int, HierarchicalRow], after: Mapping[int, HierarchicalRow]
) -> Iterator[tuple[Any, ...]]:
    nowhere = ("",) * len(_COMPARED)
    for key in sorted(before.keys() | after.keys()):
        one, other = (_values(side[key]) if key in side else nowhere for side in (before, after))
        if one != other:
            yield (key, *(cell for pair in zip(one, other, strict=True) for cell in pair))


def _clusters(before: Mapping[int, HierarchicalRow], after: Mapping[int, HierarchicalRow]) -> dict[str, Any]:
    members = [_members(side) for side in (before, after)]
    only_a, only_b = sorted(members[0].keys() - members[1].keys()), sorted(members[1].keys() - members[0].keys())
    renamed = []
    for name in only_a:
        own = members[0][name]
        shares = Counter({other: len(own & members[1][other]) for other in only_b})
        other, common = max(shares.items(), key=lambda item: item[1], default=("", 0))
        if 2 * common > max(len(own), len(members[1].get(other, ()))):
            renamed.append({"a": name, "b": other, "landmarks": common})
    gone = {pair[side] for pair in renamed for side in "ab"}
    return {
        "only_a": [name for name in only_a if name not in gone],
        "only_b": [name for name in only_b if name not in gone],
        "renamed": renamed,
    }


def _members(rows: Mapping[int, HierarchicalRow]) -> dict[str, set[int]]:
    members: dict[str, set[int]] = {}
    for key, row in rows.items():
        members.setdefault(row.hierarchical_label, set()).add(key)
    return members
