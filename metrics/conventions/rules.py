"""Where authors differ: one field a choice, so that a published number can be computed as its authors did.

The defaults are this package's own. ``compat=`` names three sets of choices:

=============  ========================================================================================================
``official``   the public code of HAPPIER and SupRank: ranks by top-k of the scores, drops the first hit as the query
               (of a separate gallery it loses the worst item), takes every count from what is left, counts |Ω^(l)| in
               the query set, takes the ideal of NDCG@k from the retrieved top k, scores empty queries 0, except for
               ``AP#l``, which leaves them out
``delf``       GLDv2's ``metrics.py``: a query without positives scores 0 and counts
``revisitop``  ROxford5k's and RParis6k's ``evaluate.py``: AP by trapezoids, P@k up to the last positive; and delf's
               copy of it, where R@k is the share of positives found
=============  ========================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Literal, TypeAlias, get_type_hints

from hiertree.options import check_choice

Compat: TypeAlias = Literal["official", "delf", "revisitop"]


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
        average_precision: AP is a ``"sum"`` of precisions, or the area by ``"trapezoid"`` between recall steps.
        empty_queries: ``"skip"`` a query without positives, or score it ``"zero"``; ``AP#l``, which only the authors of
            HAPPIER have, skips it in either case, as their code does. A query of a run that nobody judged is skipped.

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
    average_precision: Literal["sum", "trapezoid"] = "sum"
    empty_queries: Literal["skip", "zero"] = "skip"

    def __post_init__(self) -> None:
        choices = get_type_hints(type(self))
        for field in fields(self):
            check_choice(field.name, getattr(self, field.name), choices[field.name])

    @property
    def counted(self) -> str:
        """What H-AP's relevance counts, in words."""
        return {
            "strict": "strict: the gallery without the query",
            "official": "official: the query set, the query itself included in Ω^(L)",
        }[self.counts]

    @property
    def gains(self) -> str:
        """NDCG's gains and its ideal, in words."""
        ideal = {"gallery": "over the whole gallery, cut at k for NDCG@k", "retrieved": "of the retrieved top k"}
        return f"2^l − 1, discount 1/log2(1 + rank), ideal {ideal[self.ideal]}"

    @property
    def denominators(self) -> str:
        """The divisors of metrics on whose divisor authors differ, in words."""
        sums = {"sum": "AP, mAP@R: positives", "trapezoid": "AP: positives, by trapezoids; mAP@R: positives"}
        precision = {"k": "k", "list": "min(k, items)", "last positive": "min(k, rank of the last positive)"}
        recall = {"hit": "hit rate", "share": "positives"}
        return (
            f"{sums[self.average_precision]}; mAP@k, TR@k: min(k, positives); P@k: {precision[self.precision]}; "
            f"R@k: {recall[self.recall]}; ASI: items of level ≥ 1"
        )

    @property
    def empty(self) -> str:
        """What becomes of a query without positives, in words."""
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
        "delf": Rules(empty_queries="zero"),
        "revisitop": Rules(average_precision="trapezoid", precision="last positive", recall="share"),
    }
)


def rules_of(compat: Compat | Rules | None, *, default: Rules = OURS) -> Rules:
    """The rules of that name; ``default`` for None.

    Raises:
        OptionError: an unknown name.
    """
    if compat is None or isinstance(compat, Rules):
        return compat or default
    check_choice("compat", compat, Compat)
    return COMPATIBLE[compat]
