"""The rules by which a number is computed: policies for ties, authors' choices, benchmarks, and the printed card.

docs/metrics.md sets the rules of other authors beside this package's own, and lists the benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_type_hints

from hiertree.options import check_choice

Ties: TypeAlias = Literal["average", "worst", "best", "paper", "index"]
Compat: TypeAlias = Literal["official", "delf", "revisitop"]
ProtocolName: TypeAlias = Literal[
    "sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "vehicleid-one-image", "inshop"
]
RankedBy: TypeAlias = Literal[
    "cosine similarity", "Euclidean distance", "Hamming distance", "given scores", "ranked lists"
]
_TIES: Mapping[Ties, str] = MappingProxyType(
    {
        "average": "expectation over all orders of equal scores",
        "worst": "equal scores in the worst order",
        "best": "equal scores in the best order",
        "paper": "every item of equal score counts as ahead (H(0) = 1, Eq. 3)",
        "index": "of equal scores the smaller index first",
    }
)


@dataclass(frozen=True)
class Rules:
    r"""The choices that change a number beside ties and relevance.

    Attributes:
        counts: where H-AP's relevance counts \|Ω^(l)\|: ``"strict"``, the query's list; ``"official"``, the query set,
            with the query itself inside \|Ω^(L)\|.
        itself: how a query leaves its own list: ``"masked"`` by index or id, or, in place of both, as the ``"first
            hit"``, whatever that is; of equal scores the smaller index counts as first.
        worst: whether a separate gallery's worst item is ``"kept"`` or ``"dropped"``; of equal scores the larger
            index counts as worst.
        ideal: of NDCG@k: the best k of the ``"gallery"`` or the best order of the ``"retrieved"`` top k.
        recall: R@k is 1 for any ``"hit"`` (Eq. 13), or the ``"share"`` of all positives that is in the top k.
        precision: P@k divides by ``"k"``, by min(k, length of the ``"list"``), or by min(k, rank of the
            ``"last positive"``).
        cut_precision: mAP@k divides by min(k, positives), ``"reachable"``, or by all ``"positives"``, as AP_T@k of He
            et al. (CVPR 2018, Eq. 17).
        average_precision: AP is a ``"sum"`` of precisions, or the area by ``"trapezoid"`` between recall steps.
        empty_queries: ``"skip"`` a query without positives, or score it ``"zero"``; ``AP#l``, which only the authors of
            HAPPIER have, skips it in either case, as their code does. A query of a run that nobody judged is skipped.
        repeats: an item that a ranked list holds twice is an ``"error"``, or ``"irrelevant"`` wherever it stands again.

    Raises:
        OptionError: a choice that does not exist.

    >>> Rules(recall="share").denominators
    'AP, mAP@R: positives; mAP@k, TR@k: min(k, positives); P@k: k; R@k: positives; ASI: items of level ≥ 1'
    """

    counts: Literal["strict", "official"] = "strict"
    itself: Literal["masked", "first hit"] = "masked"
    worst: Literal["kept", "dropped"] = "kept"
    ideal: Literal["gallery", "retrieved"] = "gallery"
    recall: Literal["hit", "share"] = "hit"
    precision: Literal["k", "list", "last positive"] = "k"
    cut_precision: Literal["reachable", "positives"] = "reachable"
    average_precision: Literal["sum", "trapezoid"] = "sum"
    empty_queries: Literal["skip", "zero"] = "skip"
    repeats: Literal["error", "irrelevant"] = "error"

    def __post_init__(self) -> None:
        choices = get_type_hints(type(self))
        for field in fields(self):
            check_choice(field.name, getattr(self, field.name), choices[field.name])

    @property
    def counted(self) -> str:
        """In words: the items that H-AP's relevance counts."""
        return {
            "strict": "strict: the gallery without the query",
            "official": "official: the query set, the query itself included in Ω^(L)",
        }[self.counts]

    @property
    def gains(self) -> str:
        """In words: NDCG's gains and ideal."""
        ideal = {"gallery": "over the whole gallery, cut at k for NDCG@k", "retrieved": "of the retrieved top k"}
        return f"2^l − 1, discount 1/log2(1 + rank), ideal {ideal[self.ideal]}"

    @property
    def denominators(self) -> str:
        """In words: the divisors on which authors differ."""
        sums = {"sum": "AP, mAP@R: positives", "trapezoid": "AP: positives, by trapezoids; mAP@R: positives"}
        precision = {"k": "k", "list": "min(k, items)", "last positive": "min(k, rank of the last positive)"}
        recall = {"hit": "hit rate", "share": "positives"}
        cut = "mAP@k, TR@k:" if self.cut_precision == "reachable" else "mAP@k: positives; TR@k:"
        return (
            f"{sums[self.average_precision]}; {cut} min(k, positives); P@k: {precision[self.precision]}; "
            f"R@k: {recall[self.recall]}; ASI: items of level ≥ 1"
        )

    @property
    def empty(self) -> str:
        """In words: the treatment of queries without positives."""
        return {
            "skip": "left out of the mean and counted in `skipped`",
            "zero": "0, and counted in the mean; left out of AP#l",
        }[self.empty_queries]


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
        approximation: what may have missed items, and how many it missed; None where the search was exact.
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
    approximation: str | None = None
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
        words = {name: getattr(self.rules, name) for name in ("gains", "denominators", "empty")}
        return {**asdict(self), "scores": self.scores, **words}

    def rows(self) -> dict[str, str]:
        """The lines of the card by name."""
        names = " → ".join(self.level_names or ())
        return {
            **({} if self.approximation is None else {"APPROXIMATE": self.approximation}),
            **({} if self.protocol is None else {"protocol": self.protocol}),
            "self": self.self_rule,
            "scores": self.scores,
            "levels": f"{self.num_levels}{f': {names}' if names else ''}",
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


def ranking_fields(card: Mapping[str, Any]) -> tuple[int | None, bool]:
    """``bits`` and ``judged_pairs`` of a card in JSON; earlier cards have both in words alone.

    >>> ranking_fields({"scores": "Hamming distance, 12 bits", "self_rule": "every item as listed"})
    (12, False)
    """
    if "ranked_by" in card:
        return card["bits"], card["judged_pairs"]
    words = card["scores"].split()
    return int(words[2]) if words[0] == "Hamming" else None, card["self_rule"].startswith("as the judgments say")
