"""What papers report for the built-in recipes: ``training/recipes/published.csv``.

Where a paper contradicts itself, both values are there, each with a note.

>>> [row.source for row in published_rows("sop-happier")]
['S, Tab. V', 'S, Tab. IX']
>>> published_rows("sop-happier")[0].percent["H-AP"]
59.4
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from types import MappingProxyType

PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "S": "Ramzi et al., Optimization of Rank Losses for Image Retrieval (TPAMI 2025)",
        "R": "Ramzi et al., Robust and Decomposable Average Precision for Image Retrieval (NeurIPS 2021)",
        "B": "Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval (ECCV 2020)",
        "T": "He et al., Hashing as Tie-Aware Learning to Rank (CVPR 2018)",
    }
)


@dataclass(frozen=True)
class PublishedRow:
    """A row of a paper's table.

    Attributes:
        source: the paper's letter and the table.
        percent: value of each metric, under our names; ``mean AP`` is a mean over levels.
        notes: what must be known of some values, by metric.
    """

    source: str
    percent: Mapping[str, float]
    notes: Mapping[str, str]

    @property
    def paper(self) -> str:
        """The paper, as a bibliography names it."""
        letter = self.source.partition(",")[0]
        return f"[{letter}] {PAPERS[letter]}"

    @property
    def remarks(self) -> list[str]:
        """The notes as sentences, each once, with the metrics it is about."""
        about: dict[str, list[str]] = {}
        for metric, note in self.notes.items():
            about.setdefault(note, []).append(metric)
        return [f"[{self.source}], {', '.join(metrics)}: {note}." for note, metrics in about.items()]

    def difference(self, metric: str, value: float | None) -> float | None:
        """Ours less theirs, in percentage points; None unless both have the metric.

        Args:
            metric: its name.
            value: ours, in percent.

        >>> round(published_rows("sop-happier")[0].difference("H-AP", 58.9), 1)
        -0.5
        """
        return None if value is None or metric not in self.percent else value - self.percent[metric]


def published_rows(recipe: str) -> list[PublishedRow]:
    """The rows that papers report for a recipe, by its name; none for a recipe that is not built in."""
    return list(_all_rows().get(recipe, ()))


@cache
def _all_rows() -> dict[str, list[PublishedRow]]:
    path = resources("hiertree.pipelines.training").joinpath("recipes/published.csv")
    found: dict[str, dict[str, list[dict[str, str]]]] = {}
    for line in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        found.setdefault(line["recipe"], {}).setdefault(line["source"], []).append(line)
    return {
        recipe: [
            PublishedRow(
                source,
                {line["metric"]: float(line["value"]) for line in lines},
                {line["metric"]: line["note"] for line in lines if line["note"]},
            )
            for source, lines in sources.items()
        ]
        for recipe, sources in found.items()
    }
