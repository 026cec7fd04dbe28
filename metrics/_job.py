"""What an evaluation of embeddings is made of, and its steps on the scores of some queries with a part of the gallery.

A part of the gallery is a range of it in tree order, ``offset`` being the place of its first item. ``rows`` are the
queries that the scores belong to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.metrics._measure import Plan, measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.metrics._masks import Mask
    from hiertree.metrics._placing import Placed
    from hiertree.metrics._similarity import Similarity
    from hiertree.metrics._tree_order import TreeOrder


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

    def most_positives(self, rows: slice = slice(None)) -> int:
        """The longest range of positives of some queries."""
        return int((self.tree.high[rows, 0] - self.tree.low[rows, 0]).max(initial=0))

    def room(self, rows: slice) -> Placed:
        """Where the positives of some queries are gathered."""
        from hiertree.metrics._placing import room_for

        shape = rows.stop - rows.start, self.most_positives(rows), len(self.tree.order)
        return room_for(*shape, self.similarity.dtype, by_index=self.by_index)

    def leave_out(self, scores: NDArray[Any], offset: int, rows: slice) -> None:
        """Give masked items the score −inf, which no cosine is."""
        queries, items = self.mask.pairs(rows)
        columns = self.tree.place[items] - offset
        inside = (columns >= 0) & (columns < scores.shape[1])
        scores[queries[inside], columns[inside]] = -np.inf

    def gather(self, scores: NDArray[Any], offset: int, rows: slice, placed: Placed) -> None:
        """Append the positives to those of earlier parts."""
        from hiertree.metrics._placing import gather

        gather(scores, offset, self.tree.low[rows], self.tree.high[rows], self.tree.order, placed)

    def count(self, scores: NDArray[Any], offset: int, rows: slice, placed: Placed) -> None:
        """Count the other items among the sorted positives."""
        from hiertree.metrics._placing import count_others, count_others_by_index

        width = scores.shape[1]
        low = np.clip(self.tree.low[rows, 0] - offset, 0, width)
        high = np.clip(self.tree.high[rows, 0] - offset, 0, width)
        stop = np.full(len(scores), width)
        if self.by_index:
            count_others_by_index(scores, self.tree.order[None, offset : offset + width], low, high, stop, placed)
        else:
            count_others(scores, low, high, stop, placed)

    def measure(self, placed: Placed, rows: slice, *, totals: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The values of the metrics, once all items are counted."""
        counts = None if self.counts is None else self.counts[rows]
        return measure(placed, self.totals[rows] if totals is None else totals, self.plan, counts=counts)

    def counts_of(self, rows: slice) -> NDArray[np.int64]:
        """What H-AP's relevance counts."""
        return (self.totals if self.counts is None else self.counts)[rows]
