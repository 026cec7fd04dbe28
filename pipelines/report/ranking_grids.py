"""Rankings as the page shows them: for each query the first images of every model, and a strip of the ranks after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from hiertree.errors import ImageError

from ..pages import data_uri
from .rankings import Match, RankedImage, match_of, ranked_images

if TYPE_CHECKING:
    from .measurements import Measurement
    from .queries_and_gallery import QueriesAndGallery

STRIP = 100  # ranks that are shown as a strip of bars, below the few that are shown as pictures


@dataclass(frozen=True)
class LevelStyle:
    """How the page shows that an image shares a certain level with the query.

    Attributes:
        match: which color and border.
        mark: the sign below the picture, for readers who cannot tell the colors apart.
        text: what the sign means.
    """

    match: Match
    mark: str
    text: str


@dataclass(frozen=True)
class RankedPicture:
    """One picture of a ranking.

    Attributes:
        image: its data URI; empty where there is no picture.
        label: its labels.
        style: how the level that it shares with the query is shown.
    """

    image: str
    label: str
    style: LevelStyle


@dataclass(frozen=True)
class RankBar:
    """Neighboring ranks of one level.

    Attributes:
        start: the first rank, from 0.
        length: how many there are.
        match: their color.
        height: the level as a share of L.
    """

    start: int
    length: int
    match: Match
    height: float


@dataclass(frozen=True)
class ModelRanking:
    """The ranking of one model for one query.

    Attributes:
        run: the model's name.
        score: of the whole ranking, by the metric that judges.
        pictures: of the first ranks.
        bars: of the first 100 ranks.
        counts: how many of these share which level, in words.
    """

    run: str
    score: float
    pictures: list[RankedPicture]
    bars: list[RankBar]
    counts: str


@dataclass(frozen=True)
class ShownQuery:
    """One query.

    Attributes:
        image: its data URI; empty where there is no picture.
        label: its labels.
        rankings: one a model.
    """

    image: str
    label: str
    rankings: list[ModelRanking]


class RankingGrids:
    """Makes what the page shows of queries; each picture is encoded once.

    Args:
        data: what the models were measured on.

    Attributes:
        unreadable: names of pictures that do not decode, as far as they were to be shown.
    """

    def __init__(self, data: QueriesAndGallery) -> None:
        self._data = data
        self._num_levels = data.tree.num_levels
        self._pictures: dict[int, str] = {}
        self.unreadable: list[str] = []

    def queries(
        self, runs: Mapping[str, Measurement], chosen: Sequence[int], *, hits: int, metric: str
    ) -> list[ShownQuery]:
        """The chosen queries with the ranking of every model.

        Args:
            runs: by name.
            chosen: indices of queries.
            hits: pictures of each ranking.
            metric: by which each ranking is judged.
        """
        data = self._data
        rankings = {name: self._rankings(name, run, chosen, hits, metric) for name, run in runs.items()}
        return [
            ShownQuery(
                self._picture(int(data.query_rows[query])),
                data.label(data.query_paths[query]),
                [rankings[name][place] for name in runs],
            )
            for place, query in enumerate(chosen)
        ]

    @cached_property
    def legend(self) -> list[LevelStyle]:
        """The style of every level, from the finest to none."""
        return [self._style(level) for level in range(self._num_levels, -1, -1)]

    def _rankings(
        self, name: str, run: Measurement, chosen: Sequence[int], hits: int, metric: str
    ) -> list[ModelRanking]:
        data, (embeddings, items) = self._data, run.vectors
        found = ranked_images(
            embeddings,
            data.query_paths,
            chosen,
            count=max(hits, STRIP),
            gallery=(items, data.gallery_paths),
            left_out=[run.left_out(query) for query in chosen],
        )
        return [
            ModelRanking(
                name,
                float(run.per_query[metric].iloc[query]),
                [self._ranked_picture(image) for image in ranking[:hits]],
                self._bars(ranking[:STRIP]),
                self._counts(ranking[:STRIP]),
            )
            for query, ranking in zip(chosen, found, strict=True)
        ]

    def _bars(self, ranking: Sequence[RankedImage]) -> list[RankBar]:
        bars, start = [], 0
        for level, group in groupby(image.level for image in ranking):
            length = len(list(group))
            bars.append(RankBar(start, length, match_of(level, self._num_levels), level / self._num_levels))
            start += length
        return bars

    def _counts(self, ranking: Sequence[RankedImage]) -> str:
        """How many ranks share which level, in words."""
        levels = Counter(image.level for image in ranking)
        counts = (f"{levels[level]} {self._style(level).text}" for level in sorted(levels, reverse=True))
        return f"Of the first {len(ranking)}: {', '.join(counts)}."

    def _ranked_picture(self, image: RankedImage) -> RankedPicture:
        data = self._data
        picture = self._picture(int(data.gallery_rows[image.index]))
        return RankedPicture(picture, data.label(data.gallery_paths[image.index]), self._style(image.level))

    def _style(self, level: int) -> LevelStyle:
        match = match_of(level, self._num_levels)
        if match == "wrong":
            return LevelStyle(match, "✗", "nothing shared")
        name = self._data.tree.level_names[level - 1]
        return LevelStyle(match, "✓" if match == "same" else name, f"same {name}")

    def _picture(self, row: int) -> str:
        """The data URI of an image; empty where there is none."""
        images = self._data.images
        if images is None:
            return ""
        if row not in self._pictures:
            try:
                self._pictures[row] = data_uri(images[row])
            except ImageError:
                self._pictures[row] = ""
                self.unreadable.append(images.name(row))
        return self._pictures[row]
