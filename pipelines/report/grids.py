"""Retrieval grids as the page shows them: for each query, what every run found, in pictures, marks and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from hiertree.errors import ImageError

from .images import data_uri
from .retrievals import Hit, Verdict, hits_of, verdict

if TYPE_CHECKING:
    from .runs import Measurement
    from .scene import Scene

STRIP = 100  # ranks that are shown as a strip of bars, after the few that are shown as pictures


@dataclass(frozen=True)
class Mark:
    """How a level of agreement is shown.

    Attributes:
        verdict: its colour and border.
        mark: what stands below the picture, so that no one needs to tell colours apart.
        text: what it means.
    """

    verdict: Verdict
    mark: str
    text: str


@dataclass(frozen=True)
class Find:
    """A retrieved picture: its data URI or nothing, its label, and how it agrees with the query."""

    image: str
    label: str
    verdict: Verdict
    mark: str
    shared: str


@dataclass(frozen=True)
class Bar:
    """Neighbouring ranks of one level: where they start, how many they are, and the level as a share of L."""

    start: int
    length: int
    verdict: Verdict
    height: float


@dataclass(frozen=True)
class Answer:
    """What a run found: pictures of the first ranks, bars and counts of more, and how good the whole ranking is."""

    run: str
    score: float
    finds: list[Find]
    bars: list[Bar]
    counts: str


@dataclass(frozen=True)
class Query:
    """A query's data URI or nothing, its label, and the answer of each run."""

    image: str
    label: str
    answers: list[Answer]


class Grids:
    """The pictures and words of queries and gallery.

    Args:
        scene: what the runs were measured on.

    Attributes:
        unreadable: names of pictures that were to be shown and do not decode, as far as they were asked for.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._num_levels = scene.tree.num_levels
        self._pictures: dict[int, str] = {}
        self.unreadable: list[str] = []

    def queries(self, runs: Mapping[str, Measurement], chosen: Sequence[int], *, hits: int, metric: str) -> list[Query]:
        """What every run found for the chosen queries.

        Args:
            runs: by name.
            chosen: indices of queries.
            hits: pictures shown for each query and run.
            metric: by which each ranking is judged.
        """
        scene = self._scene
        answers = {name: self._answers(name, run, chosen, hits, metric) for name, run in runs.items()}
        return [
            Query(
                self._picture(int(scene.query_rows[query])),
                scene.label(scene.query_paths[query]),
                [answers[name][place] for name in runs],
            )
            for place, query in enumerate(chosen)
        ]

    @cached_property
    def legend(self) -> list[Mark]:
        """The mark of every level, from the finest to none."""
        return [self._mark(level) for level in range(self._num_levels, -1, -1)]

    def _answers(self, name: str, run: Measurement, chosen: Sequence[int], hits: int, metric: str) -> list[Answer]:
        scene, (embeddings, items) = self._scene, run.vectors
        found = hits_of(
            embeddings,
            scene.query_paths,
            chosen,
            count=max(hits, STRIP),
            gallery=(items, scene.gallery_paths),
            left_out=[run.left_out(query) for query in chosen],
        )
        return [
            Answer(
                name,
                float(run.per_query[metric].iloc[query]),
                [self._find(hit.index, hit.level) for hit in row[:hits]],
                self._bars(row[:STRIP]),
                self._counts(row[:STRIP]),
            )
            for query, row in zip(chosen, found, strict=True)
        ]

    def _bars(self, ranking: Sequence[Hit]) -> list[Bar]:
        bars, start = [], 0
        for level, group in groupby(hit.level for hit in ranking):
            length = len(list(group))
            bars.append(Bar(start, length, verdict(level, self._num_levels), level / self._num_levels))
            start += length
        return bars

    def _counts(self, ranking: Sequence[Hit]) -> str:
        """How many ranks are of each level, in words."""
        levels = Counter(hit.level for hit in ranking)
        counts = (f"{levels[level]} {self._mark(level).text}" for level in sorted(levels, reverse=True))
        return f"Of the first {len(ranking)}: {', '.join(counts)}."

    def _find(self, index: int, level: int) -> Find:
        mark = self._mark(level)
        picture = self._picture(int(self._scene.gallery_rows[index]))
        return Find(picture, self._scene.label(self._scene.gallery_paths[index]), mark.verdict, mark.mark, mark.text)

    def _mark(self, level: int) -> Mark:
        kind = verdict(level, self._num_levels)
        if kind == "wrong":
            return Mark(kind, "✗", "nothing shared")
        name = self._scene.tree.level_names[level - 1]
        return Mark(kind, "✓" if kind == "same" else name, f"same {name}")

    def _picture(self, row: int) -> str:
        """The data URI of an image; empty where there is none."""
        images = self._scene.images
        if images is None:
            return ""
        if row not in self._pictures:
            try:
                self._pictures[row] = data_uri(images[row])
            except ImageError:
                self._pictures[row] = ""
                self.unreadable.append(images.name(row))
        return self._pictures[row]
