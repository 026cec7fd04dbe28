"""How well two groupings of the same things agree.

>>> agreement([0, 0, 1, 1], ["lake", "lake", "church", "lake"])["purity"]
0.75
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from hiertree.errors import OptionError, ShapeError, TableError
from hiertree.io.tables import read_table

from ..label_texts import normalize_label


def agreement(groups: Sequence[Hashable], reference: Sequence[Hashable]) -> dict[str, float]:
    """Measures of agreement between a grouping and a reference, rounded to 4 digits.

    Args:
        groups: the group of each thing.
        reference: its class.

    Returns:
        ``ari``, the adjusted Rand index (0 by chance, 1 at best; Hubert & Arabie 1985); ``nmi``, mutual information
        over the mean of the entropies; ``homogeneity``, ``completeness`` and ``v_measure``, their harmonic mean, which
        equals ``nmi`` (Rosenberg & Hirschberg 2007); ``purity``, the share of things that are of their group's
        commonest class.

    Raises:
        ShapeError: not as many of one as of the other, or none.
    """
    from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure, normalized_mutual_info_score

    if len(groups) != len(reference) or not groups:
        raise ShapeError(f"{len(groups)} groups for {len(reference)} classes", expected="as many, and at least one")
    found, true = (_numbers(side) for side in (groups, reference))
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(true, found)
    values = {
        "ari": adjusted_rand_score(true, found),
        "nmi": normalized_mutual_info_score(true, found),
        "homogeneity": homogeneity,
        "completeness": completeness,
        "v_measure": v_measure,
        "purity": _purity(found, true),
    }
    return {name: round(float(value), 4) for name, value in values.items()}


def split_reference(spec: str | Path) -> tuple[Path, str]:
    """The table and the column that ``TABLE:column`` names.

    Raises:
        OptionError: one of them is missing.
    """
    path, _, column = str(spec).rpartition(":")
    if not path or not column:
        raise OptionError(f"reference {str(spec)!r}", expected="TABLE:column, of a table with a column 'label'")
    return Path(path), column


def read_reference(spec: str | Path) -> tuple[str, dict[str, str]]:
    """A column of a table that says the class of labels, for comparison.

    Args:
        spec: ``TABLE:column``; the table has a column ``label``, too. Rows without a class are passed over; of a
            label's several classes the commonest counts.

    Returns:
        ``TABLE:column`` with the table's bare name, and the class of each label (normalized, case folded).

    Raises:
        OptionError: no column is named.
        TableError: the table cannot be read as asked, or no label has a class.
    """
    path, column = split_reference(spec)
    table = read_table(path, required=["label", column])
    votes: dict[str, Counter[str]] = {}
    for label, answer in zip(table["label"], table[column], strict=True):
        if label.strip() and answer.strip():
            votes.setdefault(normalize_label(label).casefold(), Counter())[answer.strip()] += 1
    if not votes:
        raise TableError(f"{path}: no label with a {column}", expected="at least one")
    chosen = {label: min(counts, key=lambda name: (-counts[name], name)) for label, counts in votes.items()}
    return f"{path.name}:{column}", chosen


def against(reference: Mapping[str, str], cluster_of: Mapping[str, Hashable]) -> dict[str, float]:
    """Agreement of clusters with a reference, over the labels that both know, and how many these are.

    Args:
        reference: class of each label, as :func:`read_reference` returns it.
        cluster_of: cluster of each label.

    Raises:
        TableError: no label in common.
    """
    shared = [label for label in cluster_of if label.casefold() in reference]
    if not shared:
        raise TableError("a reference that knows none of the labels", expected="labels in common")
    classes = [reference[label.casefold()] for label in shared]
    found = agreement([cluster_of[label] for label in shared], classes)
    return {"labels": len(shared), "classes": len(set(classes)), **found}


def _numbers(names: Sequence[Hashable]) -> list[int]:
    number = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return [number[name] for name in names]


def _purity(found: Sequence[int], true: Sequence[int]) -> float:
    together: dict[int, Counter[int]] = {}
    for group, answer in zip(found, true, strict=True):
        together.setdefault(group, Counter())[answer] += 1
    return sum(max(counts.values()) for counts in together.values()) / len(found)
