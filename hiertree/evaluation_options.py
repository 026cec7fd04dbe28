"""What an evaluation can be asked for, each option declared once: its name, type, default, range and help.

Functions, commands and recipes derive theirs from the fields of these classes; a field with help is an option of
commands too. The classes of keywords beside them are what type checkers know of ``**options``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from .errors import OptionError
from .options import CheckedFields, Uneven

if TYPE_CHECKING:
    import numpy as np
    import torch
    from narwhals.typing import IntoDataFrame, IntoSeries
    from numpy.typing import NDArray

ArrayLike: TypeAlias = "NDArray[Any] | torch.Tensor | Sequence[Any]"
Labels: TypeAlias = "NDArray[Any] | torch.Tensor | Sequence[Any] | IntoDataFrame | IntoSeries"  # also frames, of text
Ids: TypeAlias = "NDArray[Any] | torch.Tensor | Sequence[Any] | IntoSeries | None"
Counts: TypeAlias = Literal["strict", "official"]
Choice: TypeAlias = Literal["error", "irrelevant"]
Ties: TypeAlias = Literal["average", "worst", "best", "paper", "index"]
Compat: TypeAlias = Literal["official", "delf", "revisitop"]
ProtocolName: TypeAlias = Literal[
    "sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "vehicleid-one-image", "ilias", "inshop"
]
RelevanceName: TypeAlias = Literal["hap", "linear", "gain"]
RelevanceFunction: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float64]]"
Relevance: TypeAlias = "RelevanceName | RelevanceFunction | NDArray[Any] | Sequence[float] | None"


@dataclass(frozen=True)
class Rules(CheckedFields):
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
        unjudged: what a listed name without judgment, or without a path, is: ``"irrelevant"``, of level 0, or an
            ``"error"``; the convention card says which, and how many there were.
        gallery: what a gallery item is: one of the ``"items"``, which shares with a query as many levels as their paths
            do; or one of the ``"nodes"`` of the tree, as a text that names it: at its own depth to queries at or below
            it, at level 0 to all others. −1 marks where its path ends.
        negative: what a judgment below 0 is, by which TREC marks spam: an ``"error"``, or ``"irrelevant"``.

    Raises:
        OptionError: a choice that does not exist.

    >>> Rules(recall="share").denominators
    'AP, mAP@R: positives; mAP@k, TR@k: min(k, positives); P@k: k; R@k: positives; ASI: items of level ≥ 1'
    """

    counts: Counts = "strict"
    itself: Literal["masked", "first hit"] = "masked"
    worst: Literal["kept", "dropped"] = "kept"
    ideal: Literal["gallery", "retrieved"] = "gallery"
    recall: Literal["hit", "share"] = "hit"
    precision: Literal["k", "list", "last positive"] = "k"
    cut_precision: Literal["reachable", "positives"] = "reachable"
    average_precision: Literal["sum", "trapezoid"] = "sum"
    empty_queries: Literal["skip", "zero"] = "skip"
    repeats: Choice = "error"
    unjudged: Choice = "irrelevant"
    gallery: Literal["items", "nodes"] = "items"
    negative: Choice = "error"

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Conventions(CheckedFields):
    """What is computed of ranked lists, and by which rules; :func:`hiertree.metrics.evaluate` documents them.

    Raises:
        OptionError: a value outside its range, or alpha beside another relevance than its own.
    """

    metrics: Iterable[str] | None = field(
        default=None, metadata={"help": "H-AP, NDCG@100, R@1, AP[1], … instead of the protocol's or the default."}
    )
    alpha: float = field(default=1.0, metadata={"help": "α of H-AP's relevance.", "least": 0})
    relevance: "Relevance" = field(
        default="hap",
        metadata={
            "help": "Relevance of H-AP: hap, (l/L)^α / |Ω^(l)|; linear, l/L; gain, 2^l − 1; or the levels' weights, "
            "coarse → fine, in a mean of their APs."
        },
    )
    ties: Ties = field(default="average", metadata={"help": "What equal scores mean."})
    protocol: ProtocolName | None = field(default=None, metadata={"help": "A benchmark: its metrics and its rules."})
    compat: Compat | Rules | None = field(default=None, metadata={"help": "Compute as the authors' code does."})

    def __post_init__(self) -> None:
        super().__post_init__()
        is_alphas = self.relevance is None or (isinstance(self.relevance, str) and self.relevance == "hap")
        if self.alpha != 1.0 and not is_alphas:
            raise OptionError(f"alpha={self.alpha} beside relevance=", expected="one of the two")


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixConventions(CheckedFields):
    """How a metric reads scores and levels (Q, N); :mod:`hiertree.metrics.functional` documents it."""

    valid: "ArrayLike | None" = None
    ties: Ties = Conventions.ties


@dataclass(frozen=True, kw_only=True, eq=False)
class RetrievalConventions(Conventions):
    """The same where queries and items have labels; exclusions are checked with these."""

    query_ids: "Ids" = None
    gallery_ids: "Ids" = None
    junk: Iterable[Iterable[int]] | None = None
    uneven: Uneven = "error"
    separator: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Search(CheckedFields):
    """How the nearest items are searched for; :func:`hiertree.metrics.evaluate` documents it.

    Raises:
        OptionError: a value outside its range.
    """

    block_size: int | None = field(default=None, metadata={"help": "Queries at once; changes no number."})
    device: str | None = field(default=None, metadata={"help": "A torch device that multiplies, such as cuda."})
    distributed: bool = False
    progress: bool = False


class MetricOptions(TypedDict, total=False):
    """The keywords of :class:`Conventions`."""

    metrics: Iterable[str] | None
    alpha: float
    relevance: "Relevance"
    ties: Ties
    protocol: ProtocolName | None
    compat: Compat | Rules | None


class MatrixOptions(TypedDict, total=False):
    """The keywords of :class:`MatrixConventions`."""

    valid: "ArrayLike | None"
    ties: Ties


class RetrievalOptions(MetricOptions, total=False):
    """The keywords of :class:`RetrievalConventions`."""

    query_ids: "Ids"
    gallery_ids: "Ids"
    junk: Iterable[Iterable[int]] | None
    uneven: Uneven
    separator: str | None


class SearchOptions(TypedDict, total=False):
    """The keywords of :class:`Search`."""

    block_size: int | None
    device: str | None
    distributed: bool
    progress: bool
