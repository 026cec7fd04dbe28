"""The convention card: how a number was computed, so that two numbers can be compared knowingly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .rules import OURS, Rules
from .ties import TIES, Ties


@dataclass(frozen=True)
class Convention:
    r"""How a result was computed; prints as a card.

    Attributes:
        self_rule: what becomes of a query in its own gallery.
        scores: what the items were ranked by.
        num_levels: L.
        relevance: the relevance of ``H-AP``.
        counts: what \|Ω^(l)\| counts.
        ties: the policy for equal scores.
        rules: the choices on which authors differ: NDCG's ideal, denominators, queries without positives.
        protocol: the benchmark, if one was named.
        approximation: what may have missed items, and how many it missed; None where the search was exact.
    """

    self_rule: str
    scores: str
    num_levels: int
    relevance: str
    counts: str
    ties: Ties
    rules: Rules = OURS
    protocol: str | None = None
    approximation: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The card for JSON: the fields, the choices one by one, and what they mean in words."""
        words = {name: getattr(self.rules, name) for name in ("gains", "denominators", "empty")}
        return {**asdict(self), **words}

    def rows(self) -> dict[str, str]:
        """The lines of the card, by their names."""
        return {
            **({} if self.approximation is None else {"APPROXIMATE": self.approximation}),
            **({} if self.protocol is None else {"protocol": self.protocol}),
            "self": self.self_rule,
            "scores": self.scores,
            "levels": str(self.num_levels),
            "relevance": self.relevance,
            "|Ω^(l)|": self.counts,
            "ties": f"{self.ties}: {TIES[self.ties]}",
            "NDCG": self.rules.gains,
            "divided by": self.rules.denominators,
            "no positives": self.rules.empty,
        }

    def __str__(self) -> str:
        rows = self.rows()
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())
