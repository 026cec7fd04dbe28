"""A checked retrieval: what each query ranks, and what is asked of the rankings.

Every entry point makes a :class:`Retrieval`, and everything below takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..formulas.compute import compute_metrics
from ..ranking.ranked import ranked_positives
from ..ranking.ranked_lists import RankedLists
from ..result import Evaluation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..conventions.card import Convention
    from ..conventions.request import MetricRequest
    from ..conventions.ties import Ties
    from ..ranking.ranked import Ranked
    from ..ranking.sorted_positives import SortedPositives

Source = TypeVar("Source")


@dataclass(frozen=True, eq=False)
class Retrieval(Generic[Source]):
    r"""What is ranked, and what is computed from the rankings.

    Attributes:
        source: what ranks: embeddings (:class:`~hiertree.metrics.engine.similarity.Similarity`), binary codes
            (:class:`~hiertree.metrics.engine.codes.Codes`) or lists
            (:class:`~hiertree.metrics.engine.scored_lists.ScoredLists`).
        request: what to compute.
        totals: (Q, L+1) items of each level that a query's list could hold; level 0 counts only what is known.
        counts: (Q, L+1) \|Ω^(l)\| as the relevance of ``H-AP`` counts it; None for the totals.
        convention: how the values are computed.
        query_ids: Q ids.
        query_paths: (Q, L) label ids of the queries, where they are known.
    """

    source: Source
    request: MetricRequest
    totals: NDArray[np.int64]
    counts: NDArray[np.int64] | None
    convention: Convention
    query_ids: Sequence[Any]
    query_paths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.totals)

    def relevances(self) -> list[NDArray[np.float64]]:
        """(Q, L+1) the relevance of each level, for each of the H-APs."""
        counts = self.totals if self.counts is None else self.counts
        metrics = (metric for metric in self.request.metrics if metric.kind == "H-AP")
        return [self.request.table(metric, counts, slice(None)) for metric in metrics]

    def values(
        self,
        rank: Callable[[Ties, NDArray[np.float64]], Ranked],
        num_ranks: int,
        rows: slice | NDArray[np.int64],
        *,
        totals: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """(r, M) values for some queries.

        Args:
            rank: ranks their positives, as :class:`~hiertree.metrics.ranking.ranked_lists.RankedLists` takes it.
            num_ranks: the length of the longest list.
            rows: the queries.
            totals: (r, L+1) items of each level where lists lost some since they were counted.
        """
        own = self.totals[rows] if totals is None else totals
        counts = own if self.counts is None else self.counts[rows]
        return compute_metrics(RankedLists(rank, self.request, rows, own, counts, num_ranks))

    def values_of(
        self, positives: SortedPositives, rows: slice | NDArray[np.int64], *, totals: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """The same from sorted positives, the other items counted among them."""

        def rank(ties: Ties, preference: NDArray[np.float64]) -> Ranked:
            return ranked_positives(positives, ties=ties, preference=preference)

        return self.values(rank, positives.num_ranks, rows, totals=totals)

    def evaluation(self, values: NDArray[np.float64]) -> Evaluation:
        """The result."""
        return Evaluation(self.request.names, values, self.query_ids, self.convention, self.query_paths)
