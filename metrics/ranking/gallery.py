"""A gallery in tree order as each query sees it: where its positives stand, and what its list leaves out.

Scores of some queries with a part of the gallery are accompanied by ``rows``, the indices of the queries, and
``places``, where the items of the part stand in tree order, rising. A query's positives are consecutive there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .counting import count_among
from .sorted_positives import SortedPositives, count_others_by_index, empty_positives, gather
from .tree_order import TreeOrder, tree_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.rules import Rules
    from .masks import Mask


@dataclass(frozen=True, eq=False)
class Gallery:
    """A gallery in tree order, and what each query's list holds of it.

    Attributes:
        tree: the order, and the ranges of each query's positives.
        mask: the items that each list leaves out.
        totals: (Q, L+1) items of each level in each list.
        counts: (Q, L+1) items of each level as the relevance of ``H-AP`` counts them; None for those of each list.
    """

    tree: TreeOrder
    mask: Mask
    totals: NDArray[np.int64]
    counts: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.tree.order)

    def most_positives(self, rows: slice | NDArray[np.int64] = slice(None)) -> int:
        """The longest range of positives of some queries."""
        return int((self.tree.high[rows, 0] - self.tree.low[rows, 0]).max(initial=0))

    def positive_columns(
        self, places: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first column of each query's positives and one past the last."""
        return np.searchsorted(places, self.tree.low[rows, 0]), np.searchsorted(places, self.tree.high[rows, 0])

    def masked(self, places: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of the scores that are left out."""
        queries, items = self.mask.pairs(rows)
        wanted = self.tree.place[items]
        columns = np.searchsorted(places, wanted)
        inside = places[np.minimum(columns, len(places) - 1)] == wanted
        return queries[inside], columns[inside]

    def leave_out(self, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Give masked items the score −inf, which no cosine is."""
        scores[self.masked(places, rows)] = -np.inf

    def empty_positives(self, rows: NDArray[np.int64], dtype: np.dtype[Any], *, by_index: bool) -> SortedPositives:
        """Where the positives of some queries are gathered; ``by_index`` says whether indices order equal scores."""
        return empty_positives(len(rows), self.most_positives(rows), len(self), dtype, by_index=by_index)

    def gather(
        self, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64], positives: SortedPositives
    ) -> None:
        """Append the positives to those of earlier parts."""
        low, high = (np.searchsorted(places, bounds[rows]) for bounds in (self.tree.low, self.tree.high))
        gather(scores, places, low, high, self.tree.order, positives)

    def count(
        self, scores: NDArray[Any], places: NDArray[np.int64], rows: NDArray[np.int64], positives: SortedPositives
    ) -> None:
        """Count the other items among the sorted positives."""
        low, high = self.positive_columns(places, rows)
        if positives.item.shape[1]:
            stop = np.full(len(scores), len(places))
            count_others_by_index(scores, self.tree.order[None, places], low, high, stop, positives)
        else:
            count_among(scores, low, high, positives)


def labeled_gallery(
    query_paths: NDArray[np.int64], gallery_paths: NDArray[np.int64], mask: Mask, rules: Rules
) -> Gallery:
    """A gallery from the paths of queries (Q, L) and items (N, L), what lists leave out, and how ``H-AP`` counts."""
    tree = tree_order(query_paths, gallery_paths)
    totals = tree.totals() - mask.counts(query_paths, gallery_paths)
    counts = tree_order(query_paths, query_paths).totals() if rules.counts == "official" else None
    return Gallery(tree, mask, totals, counts)
