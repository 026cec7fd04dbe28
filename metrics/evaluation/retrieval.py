"""What an evaluation of embeddings is made of, and its steps on the scores of some queries with a part of the gallery.

``rows`` are the indices of the queries that the scores belong to, ``places`` where the items of the part stand in tree
order, rising: each query's positives are consecutive there too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..conventions.request import Plan
from ..formulas.values import Ranking, measure, measure_ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..engine.similarity import Similarity
    from ..ranking.masks import Mask
    from ..ranking.ranked import Ranked
    from ..ranking.sorted_positives import Placed
    from ..ranking.tree_order import TreeOrder


@dataclass(frozen=True, eq=False)
class Job:
    """What is computed, and from what.

    Attributes:
        similarity: the products.
        tree: the gallery's order, and the positives' ranges in it.
        mask: what is left out.
        totals: (Q, L+1) items of each level in each list.
        counts: (Q, L+1) what H-AP's relevance counts; the totals if None.
        plan: what to compute.
    """

    similarity: Similarity
    tree: TreeOrder
    mask: Mask
    totals: NDArray[np.int64]
    counts: NDArray[np.int64] | None
    plan: Plan

    @property
    def by_index(self) -> bool:
        """Whether gallery indices order equal scores."""
        return self.plan.ties == "index"

    def most_positives(self, rows: slice | NDArray[np.int64] = slice(None)) -> int:
        """The longest range of positives of some queries."""
        return int((self.tree.high[rows, 0] - self.tree.low[rows, 0]).max(initial=0))

    def with_positives(self, rows: NDArray[np.int64], part: slice) -> NDArray[np.bool_]:
        """Which queries have positives among consecutive places."""
        found: NDArray[np.bool_] = np.maximum(self.tree.low[rows, 0], part.start) < np.minimum(
            self.tree.high[rows, 0], part.stop
        )
        return found

    def room(self, rows: NDArray[np.int64]) -> Placed:
        """Where the positives of some queries are gathered."""
        from ..ranking.sorted_positives import room_for

        shape = len(rows), self.most_positives(rows), len(self.tree.order)
        return room_for(*shape, self.similarity.dtype, by_index=self.by_index)

    def left_out(
        self, places: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The masked pairs: rows and columns of the scores."""
        queries, items = self.mask.pairs(rows)
        wanted = self.tree.place[items]
        columns = np.searchsorted(places, wanted)
        inside = places[np.minimum(columns, len(places) - 1)] == wanted
        return queries[inside], columns[inside]

    def positives(
        self, places: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first column of each query's positives and one past the last."""
        return np.searchsorted(places, self.tree.low[rows, 0]), np.searchsorted(places, self.tree.high[rows, 0])

    def leave_out(self, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Give masked items the score −inf, which no cosine is."""
        scores[self.left_out(places, rows)] = -np.inf

    def gather(self, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64], placed: Placed) -> None:
        """Append the positives, at consecutive places, to those of earlier parts."""
        from ..ranking.sorted_positives import gather

        gather(scores, int(places[0]), self.tree.low[rows], self.tree.high[rows], self.tree.order, placed)

    def count(self, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64], placed: Placed) -> None:
        """Count the other items among the sorted positives."""
        from ..ranking.counting import count_among
        from ..ranking.sorted_positives import count_others_by_index

        low, high = self.positives(places, rows)
        if self.by_index:
            stop = np.full(len(scores), len(places))
            count_others_by_index(scores, self.tree.order[None, places], low, high, stop, placed)
        else:
            count_among(scores, low, high, placed)

    def measure(
        self, placed: Placed, rows: NDArray[np.int64], *, totals: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """The values of the metrics, once all items are counted."""
        counts = None if self.counts is None else self.counts[rows]
        return measure(placed, self.totals[rows] if totals is None else totals, self.plan, counts=counts)

    def measure_ranked(self, ranked: Ranked, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same where whole lists are ranked already."""
        ranking = Ranking(positives=lambda _: ranked, num_ranks=len(self.tree.order))
        return measure_ranking(ranking, self.totals[rows], self.counts_of(rows), self.plan)

    def counts_of(self, rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """What H-AP's relevance counts."""
        return (self.totals if self.counts is None else self.counts)[rows]
