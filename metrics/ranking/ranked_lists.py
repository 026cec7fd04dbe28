"""The ranked lists of some queries: all that a formula reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..conventions.names import MOST_RANKS
from .ties import TieGroups, tie_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..conventions.names import Metric
    from ..conventions.request import MetricRequest
    from ..conventions.ties import Ties
    from .ranked import Ranked

Value = TypeVar("Value")
WHOLE_LIST = MOST_RANKS  # a cut-off that no list exceeds


class RankedLists:
    """The lists of r queries.

    Args:
        rank: ranks the positives under a policy for ties; ``"best"`` and ``"worst"`` order the levels of equal scores
            by a preference (r, L+1). See :func:`hiertree.metrics.ranking.ranked.ranked_positives`.
        request: what is asked for.
        rows: which queries of the request these are.
        totals: (r, L+1) items of each level that exist, ranked or not.
        counts: (r, L+1) items of each level as the relevance of ``H-AP`` counts them.
        num_ranks: the length of the longest list.
    """

    def __init__(
        self,
        rank: Callable[[Ties, NDArray[np.float64]], Ranked],
        request: MetricRequest,
        rows: slice | NDArray[np.int64],
        totals: NDArray[np.int64],
        counts: NDArray[np.int64],
        num_ranks: int,
    ) -> None:
        self._rank, self._shared = rank, dict[Callable[[RankedLists], Any], Any]()
        self.request, self.totals, self.num_ranks = request, totals, num_ranks
        self._rows, self._counts = rows, counts

    def __len__(self) -> int:
        return len(self.totals)

    @property
    def counts_ties_ahead(self) -> bool:
        """Whether every item of equal score counts as ahead, as ``ties="paper"`` asks for."""
        return self.request.ties == "paper"

    def relevance(self, metric: Metric) -> NDArray[np.float64]:
        """(r, L+1) the relevance of each level for each query, for one of the H-APs."""
        return self.request.table(metric, self._counts, self._rows)

    @cached_property
    def ranked(self) -> Ranked:
        """The positives under the policy asked for; the best order puts deeper levels first, the worst last."""
        return self.ranked_by(np.tile(np.arange(self.totals.shape[1], dtype=np.float64), (len(self), 1)))

    def ranked_by(self, preference: NDArray[np.float64]) -> Ranked:
        """The same where the best order puts levels of higher preference (r, L+1) first, and the worst last."""
        return self._rank(self.request.ties, preference)

    @cached_property
    def grouped(self) -> Ranked:
        """The positives with their tie groups, whatever the policy, unless indices break ties."""
        return self._rank("index" if self.request.ties == "index" else "average", np.zeros(self.totals.shape))

    @cached_property
    def tie_groups(self) -> TieGroups:
        """Where ``ranked`` has ties."""
        return tie_groups(self.ranked, self.request.num_levels)

    def num_positives(self, level: int) -> NDArray[np.int64]:
        """(r,) how many items of a level or deeper exist."""
        positives: NDArray[np.int64] = self.totals[:, level:].sum(axis=1)
        return positives

    def shared(self, compute: Callable[[RankedLists], Value]) -> Value:
        """What several formulas need, computed once for these lists."""
        if compute not in self._shared:
            self._shared[compute] = compute(self)
        value: Value = self._shared[compute]
        return value


def ratio(sums: NDArray[np.float64], divisors: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; NaN where a divisor is 0."""
    return np.where(divisors > 0, sums / np.where(divisors > 0, divisors, 1), np.nan)
