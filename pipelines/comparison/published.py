"""What papers report for the built-in recipes: ``training/recipes/published.csv``.

>>> [row.source for row in published_rows("sop-smooth-ap")]
['S, Tab. V', 'S, Tab. I']
>>> published_rows("sop-happier")[0].percent["H-AP"]
59.4
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files as resources
from types import MappingProxyType

PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "S": "Ramzi et al., Optimization of Rank Losses for Image Retrieval (TPAMI 2025)",
        "R": "Ramzi et al., Robust and Decomposable Average Precision (NeurIPS 2021)",
        "B": "Brown et al., Smooth-AP (ECCV 2020)",
    }
)


@dataclass(frozen=True)
class PublishedRow:
    """A row of a paper's table.

    Attributes:
        source: the paper's letter, and where in it.
        percent: value of each metric, under hiertree's names; ``mean AP`` is a mean over levels.
    """

    source: str
    percent: Mapping[str, float]

    @property
    def paper(self) -> str:
        """The paper, as a bibliography names it."""
        letter = self.source.partition(",")[0]
        return f"[{letter}] {PAPERS[letter]}"


def published_rows(recipe: str) -> list[PublishedRow]:
    """The rows that papers report for a recipe, by its name; none for a recipe that is not built in."""
    path = resources("hiertree.pipelines.training").joinpath("recipes/published.csv")
    found: dict[str, dict[str, float]] = {}
    for line in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        if line["recipe"] == recipe:
            found.setdefault(line["source"], {})[line["metric"]] = float(line["value"])
    return [PublishedRow(source, percent) for source, percent in found.items()]
