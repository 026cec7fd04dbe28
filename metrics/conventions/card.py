"""The rules by which a number is computed: policies for ties, authors' choices, benchmarks, and the printed card.

docs/metrics.md sets the rules of other authors beside this package's own, and lists the benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from hiertree.evaluation_options import Rules, Ties

RankedBy: TypeAlias = Literal["cosine similarity", "Hamming distance", "given scores", "ranked lists"]
_TIES: Mapping[Ties, str] = MappingProxyType(
    {
        "average": "expectation over all orders of equal scores",
        "worst": "equal scores in the worst order",
        "best": "equal scores in the best order",
        "paper": "every item of equal score counts as ahead (H(0) = 1, Eq. 3)",
        "index": "of equal scores the smaller index first",
    }
)


OURS = Rules()
COMPATIBLE: Mapping[str, Rules] = MappingProxyType(
    {
        "official": Rules(
            counts="official",
            itself="first hit",
            worst="dropped",
            ideal="retrieved",
            precision="list",
            empty_queries="zero",
        ),
        "delf": Rules(empty_queries="zero", repeats="irrelevant"),
        "revisitop": Rules(average_precision="trapezoid", precision="last positive", recall="share"),
    }
)


@dataclass(frozen=True)
class Protocol:
    """How a benchmark computes its numbers."""

    name: str
    metrics: tuple[str, ...]  # names; [*] stands for every level
    gallery: Literal["self", "separate", "either"]  # whether queries retrieve each other
    needs_ids: bool = False  # a separate gallery holds the queries too, which ids must mask
    rules: Rules = OURS  # unless compat= names others

    def names(self, num_levels: int) -> tuple[str, ...]:
        """The metrics for L levels.

        >>> PROTOCOLS["dyml"].names(2)[:2]
        ('AP[1]', 'AP[2]')
        """
        levels = range(1, num_levels + 1)
        return tuple(
            name.replace("*", str(level)) for name in self.metrics for level in (levels if "*" in name else (0,))
        )


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            Protocol("sop", ("R@1", "R@10", "R@100", "R@1000", "mAP@R", "AP[*]", "H-AP", "ASI", "NDCG"), "self"),
            Protocol("inat", ("R@1", "R@4", "R@16", "R@32", "mAP@R", "AP[*]", "H-AP", "ASI", "NDCG"), "self"),
            Protocol("dyml", ("AP[*]", "ASI[*]", "R@1[*]", "R@10[*]", "R@20[*]"), "either", needs_ids=True),
            Protocol("gldv2", ("mAP@100", "H-AP", "ASI", "NDCG"), "separate"),
            Protocol("revisitop", ("AP", "P@1", "P@5", "P@10"), "separate", rules=COMPATIBLE["revisitop"]),
            Protocol("cub", ("R@1", "R@2", "R@4", "R@8", "mAP@R"), "self"),
            Protocol("vehicleid", ("R@1", "R@5"), "self"),
            Protocol("vehicleid-one-image", ("R@1", "R@5"), "separate"),
            Protocol("ilias", ("mAP@1000",), "separate"),
            Protocol("inshop", ("R@1", "R@10", "R@20", "R@30", "R@40", "R@50"), "separate"),
        )
    }
)


@dataclass(frozen=True)
class Convention:
    r"""How a result was computed; prints as a card.

    Attributes:
        self_rule: what becomes of a query in its own gallery.
        ranked_by: what the items were ranked by.
        num_levels: L.
        relevance: the relevance of ``H-AP``.
        counts: what \|Ω^(l)\| counts.
        ties: the policy for equal scores.
        rules: the choices on which authors differ: NDCG's ideal, denominators, queries without positives.
        protocol: the benchmark, if one was named.
        level_names: the columns of a frame or table that were taken as levels, coarse → fine.
        details: the type and precision of the scores, or the form of the lists.
        bits: the length of binary codes; None for other vectors.
        hashing_ap: whether AP@k, of the positives in the top k, is among the metrics.
        judged_pairs: whether judgments of pairs, rather than labels, say what is relevant.
    """

    self_rule: str
    ranked_by: RankedBy
    num_levels: int
    relevance: str
    counts: str
    ties: Ties
    rules: Rules = OURS
    protocol: str | None = None
    level_names: tuple[str, ...] | None = None
    details: str = ""
    bits: int | None = None
    hashing_ap: bool = False
    judged_pairs: bool = False

    @property
    def scores(self) -> str:
        """In words: what the items were ranked by."""
        if self.ranked_by == "ranked lists":
            text = f"{self.details or self.ranked_by}; unlisted positives count as never found"
        else:
            measure = "as given" if self.ranked_by == "given scores" else self.ranked_by
            text = f"{measure}, {self.details if self.bits is None else f'{self.bits} bits'}"
        return f"{text}; AP@k divided by the positives in the top k, 0 if it holds none" if self.hashing_ap else text

    def as_dict(self) -> dict[str, Any]:
        """The card for JSON: the fields, each rule, and their meaning in words."""
        texts = {name: getattr(self.rules, name) for name in ("gains", "denominators", "empty")}
        return {**asdict(self), "scores": self.scores, **texts}

    def rows(self) -> dict[str, str]:
        """The lines of the card by name."""
        names = " → ".join(self.level_names or ())
        return {
            **({} if self.protocol is None else {"protocol": self.protocol}),
            "self": self.self_rule,
            "scores": self.scores,
            "levels": f"{self.num_levels}{f': {names}' if names else ''}",
            **({} if self.rules.gallery == "items" else {"gallery": "nodes, relevant to what is at or below them"}),
            "relevance": self.relevance,
            "|Ω^(l)|": self.counts,
            "ties": f"{self.ties}: {_TIES[self.ties]}",
            "NDCG": self.rules.gains,
            "divided by": self.rules.denominators,
            "no positives": self.rules.empty,
        }

    def __str__(self) -> str:
        rows = self.rows()
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())
