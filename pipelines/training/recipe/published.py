"""What papers report for the built-in recipes, and the commands that make their figures again."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

PAPERS = {
    "S": "Ramzi et al., Optimization of Rank Losses for Image Retrieval (TPAMI 2025)",
    "R": "Ramzi et al., Robust and Decomposable Average Precision for Image Retrieval (NeurIPS 2021)",
    "B": "Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval (ECCV 2020)",
    "T": "He et al., Hashing as Tie-Aware Learning to Rank (CVPR 2018)",
}
_FOLDER = files("hiertree.pipelines.training").joinpath("recipes")


class Sweep(NamedTuple):
    """A figure of a paper that compares recipes over some settings."""

    figure: str  # the paper's letter and the figure
    about: str  # what varies
    command: str  # what makes it again
    published: str  # what the paper's text says of it


def sweeps() -> list[Sweep]:
    """The papers' figures, one command each."""
    lines = _FOLDER.joinpath("sweeps.csv").read_text(encoding="utf-8").splitlines()
    return [Sweep(**line) for line in csv.DictReader(lines)]


@dataclass(frozen=True)
class PublishedRow:
    """A row of a paper's table."""

    source: str  # the paper's letter and the table
    percent: dict[str, float]  # value of each metric, under our names; ``mean AP`` is a mean over levels
    notes: dict[str, str]  # what must be known of some values, by metric

    @property
    def paper(self) -> str:
        """The paper, as a bibliography names it."""
        letter = self.source.partition(",")[0]
        return f"[{letter}] {PAPERS[letter]}"

    @property
    def remarks(self) -> list[str]:
        """The notes as sentences, each once, with the metrics it is about."""
        metrics_by_note: dict[str, list[str]] = {}
        for metric, note in self.notes.items():
            metrics_by_note.setdefault(note, []).append(metric)
        return [f"[{self.source}], {', '.join(metrics)}: {note}." for note, metrics in metrics_by_note.items()]

    def difference(self, metric: str, value: float | None) -> float | None:
        """Our value in percent minus theirs; None unless both have the metric."""
        return None if value is None or metric not in self.percent else value - self.percent[metric]


def published_rows(recipe: str) -> list[PublishedRow]:
    """The rows that papers report for a recipe, by its name; none for a recipe that is not built in."""
    return list(_all_rows().get(recipe, {}).values())


@cache
def _all_rows() -> dict[str, dict[str, PublishedRow]]:
    """All published rows by recipe and source."""
    rows: dict[str, dict[str, PublishedRow]] = {}
    for line in csv.DictReader(_FOLDER.joinpath("published.csv").read_text(encoding="utf-8").splitlines()):
        source, metric = line["source"], line["metric"]
        row = rows.setdefault(line["recipe"], {}).setdefault(source, PublishedRow(source, {}, {}))
        row.percent[metric] = float(line["value"])
        if line["note"]:
            row.notes[metric] = line["note"]
    return rows
