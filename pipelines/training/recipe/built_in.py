"""The built-in recipes and what papers report for them: a file for each data set, with a base and named variants.

``sop-happier`` is the base of ``recipes/sop.yaml``, then what its variant ``happier`` extends, then that variant.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from .layers import Layer, merge, parse_layer, plain

PAPERS = {
    "S": "Ramzi et al., Optimization of Rank Losses for Image Retrieval (TPAMI 2025)",
    "R": "Ramzi et al., Robust and Decomposable Average Precision for Image Retrieval (NeurIPS 2021)",
    "B": "Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval (ECCV 2020)",
    "T": "He et al., Hashing as Tie-Aware Learning to Rank (CVPR 2018)",
}
_FOLDER = files("hiertree.pipelines.training").joinpath("recipes")
_DESCRIBING = ("about", "note", "extends")  # keys of a variant that are not settings


@dataclass(frozen=True)
class BuiltInRecipe:
    """A recipe that comes with the package."""

    name: str  # as commands take it
    dataset: str  # the file it is from
    about: str  # what it trains
    note: str | None  # what its reader should know; None if there is nothing
    layer: Layer  # every setting that the file makes, with its source


def recipe_datasets() -> dict[str, str]:
    """The data sets with built-in recipes, and their descriptions."""
    return {dataset: plain(_content(dataset)["about"]) for dataset in _datasets()}


def built_in_recipes() -> list[str]:
    """Names of the recipes that come with the package, data set by data set."""
    return [f"{dataset}-{variant}" for dataset in recipe_datasets() for variant in _content(dataset)["variants"]]


def all_built_in_recipes() -> Iterator[BuiltInRecipe]:
    """Every built-in recipe, data set by data set."""
    for dataset in recipe_datasets():
        for variant in _content(dataset)["variants"]:
            yield _expanded(dataset, variant)


def built_in_recipe(name: str) -> BuiltInRecipe | None:
    """The built-in recipe of that name, or None if there is none."""
    for dataset in _datasets():
        variant = name.removeprefix(f"{dataset}-")
        if variant != name and variant in _content(dataset)["variants"]:
            return _expanded(dataset, variant)
    return None


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


@cache
def _datasets() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in _FOLDER.iterdir() if file.name.endswith(".yaml"))


@cache
def _content(dataset: str) -> dict[str, Any]:
    return parse_layer(_FOLDER.joinpath(f"{dataset}.yaml").read_text(encoding="utf-8"), source=f"{dataset}.yaml")


def _expanded(dataset: str, variant: str) -> BuiltInRecipe:
    content = _content(dataset)
    parts: dict[str, Layer] = {**content.get("shared", {}), **content["variants"]}

    def parents(part: str) -> list[str]:
        names = plain(parts[part]["extends"]) if "extends" in parts[part] else []
        return [names] if isinstance(names, str) else names

    def line_of(part: str) -> list[str]:
        """The parts that this one extends, then itself, in the order of application."""
        return [inner for parent in parents(part) for inner in line_of(parent)] + [part]

    def about(part: str) -> str:
        """The description of the part, or else of those that it extends."""
        description = parts[part].get("about")
        return plain(description) if description else ", ".join(map(about, parents(part)))

    layer = content["base"]
    for part in line_of(variant):
        layer = merge(layer, {key: value for key, value in parts[part].items() if key not in _DESCRIBING})
    note = parts[variant].get("note")
    return BuiltInRecipe(f"{dataset}-{variant}", dataset, about(variant), plain(note) if note else None, layer)


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
