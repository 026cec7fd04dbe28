"""The convention card: what a number was computed from, so that two numbers can be compared knowingly."""

from __future__ import annotations

from dataclasses import asdict, dataclass

_TIES = {
    "average": "expectation over all orders of equal scores",
    "worst": "equal scores in the worst order",
    "best": "equal scores in the best order",
    "paper": "every item of equal score counts as ahead (H(0) = 1, Eq. 3)",
    "index": "of equal scores the smaller index first",
}


@dataclass(frozen=True)
class Convention:
    r"""How a result was computed; prints as a card.

    Attributes:
        self_rule: what becomes of a query in its own gallery.
        scores: what was ranked by.
        num_levels: L.
        relevance: the relevance of ``H-AP``.
        counts: what \|Ω^(l)\| counts.
        ties: the policy for equal scores.
        gains: of NDCG, and its ideal.
        denominators: of the metrics whose normaliser differs between authors.
        empty_queries: what becomes of a query without positives.
    """

    self_rule: str
    scores: str
    num_levels: int
    relevance: str
    counts: str
    ties: str
    gains: str = "2^l − 1, discount 1/log2(1 + rank), ideal over the whole gallery, cut at k for NDCG@k"
    denominators: str = (
        "AP, mAP@R: positives; mAP@k, TR@k: min(k, positives); P@k: k; R@k: hit rate; ASI: items of level ≥ 1"
    )
    empty_queries: str = "left out of the mean and counted in `skipped`"

    def as_dict(self) -> dict[str, str | int]:
        """The card for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = {
            "self": self.self_rule,
            "scores": self.scores,
            "levels": str(self.num_levels),
            "relevance": self.relevance,
            "|Ω^(l)|": self.counts,
            "ties": f"{self.ties}: {_TIES[self.ties]}",
            "NDCG": self.gains,
            "divided by": self.denominators,
            "no positives": self.empty_queries,
        }
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())
