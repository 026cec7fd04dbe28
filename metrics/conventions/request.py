"""Requests for metrics: parse their names, as in ``metrics=`` and the columns of a result, and check their options.

A new metric takes one line of ``_FAMILIES`` here, and its function one of :data:`hiertree.metrics.formulas.FORMULAS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

import numpy as np

from hiertree import relevance as relevances
from hiertree.arrays import to_numpy
from hiertree.errors import OptionError, nearest_name
from hiertree.evaluation_options import Conventions, RelevanceFunction, RelevanceName, Rules, Ties
from hiertree.options import check_choice, check_shares

from .card import COMPATIBLE, OURS, PROTOCOLS, Convention, Protocol, RankedBy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

FunctionOrTable: TypeAlias = "RelevanceFunction | NDArray[Any]"
MOST_RANKS = 2**31 - 1  # ranks are 32-bit integers
_EXAMPLES = ("H-AP", "H-AP(alpha=3)", "NDCG@10", "ASI", "AP[1]", "R@1", "TR@10", "P@1", "MRR", "HP@9", "HD@9", "mAP@R")
_OTHER_NAMES = {
    **dict.fromkeys(("mAP", "MAP"), "AP"),
    **dict.fromkeys(("RP", "R-precision"), "P@R"),
    **dict.fromkeys(("Recall@1", "recall@1"), "R@1"),
    "HAP": "H-AP",
    "MS": "mistake-severity",
    "mAHP": "AHP",
    "mrr": "MRR",
    "precision@1": "P@1",
}
_K, _LEVEL, _ALPHA = r"@(?P<k>\d+)", r"(\[(?P<level>\d+)\])?", r"(\(alpha=(?P<alpha>\d+(\.\d+)?)\))?"
_RELEVANCES = "a function of counts (Q, L+1), a table (Q, L+1), one weight per level, or a name"
_UNORDERED: tuple[Ties, ...] = ("paper",)  # ranks with several items, or none
_UNBOUNDED: tuple[Ties, ...] = ("paper", "worst", "best")  # also: an order decides which queries have a value
_QUERY_LIST = re.compile(r"\[([^\[\]]*[^\[\]0-9][^\[\]]*)\]$")


class _Family(NamedTuple):
    """The metrics that share a formula."""

    kind: str  # what they are called without their options
    options: str  # a regular expression of what follows the kind; groups but k and level are the formula's parameters
    of_level: bool = True  # a name without a level means the finest one, rather than all
    lowest: int = 1  # the coarsest level that may be asked for
    codes_only: bool = False
    refused_ties: tuple[Ties, ...] = ()
    downward: bool = False  # a lower value is better

    def refuse_ties(self, ties: Ties) -> None:
        """Refuse a policy for ties under which the formula has no value, or a misleading one."""
        if ties in self.refused_ties:
            choices = [choice for choice in get_args(Ties) if choice not in self.refused_ties]
            raise OptionError(f"{self.kind} with ties={ties!r}", expected=f"one of {', '.join(choices)}")

    @property
    def has_optional_cutoff(self) -> bool:
        """Whether its names may lack a k."""
        return f"({_K})?" in self.options

    def takes(self, option: str) -> bool:
        """Whether the formula has an option, level or k."""
        return f"?P<{option}>" in self.options


_FAMILIES = (
    _Family("H-AP", _ALPHA + _LEVEL, of_level=False),
    _Family("first-error", r"\[(?P<level>\d+)\]", lowest=0, refused_ties=_UNORDERED),
    _Family("mistake-severity", "", of_level=False, refused_ties=_UNBOUNDED, downward=True),
    _Family("HOPS", f"({_K})?", of_level=False, refused_ties=_UNORDERED),
    _Family("HD", _K, of_level=False, downward=True),
    _Family("NDCG", f"({_K})?", of_level=False),
    _Family("ASI", _LEVEL, of_level=False),
    _Family("AP", _LEVEL),
    _Family("AP#", r"(?P<level>\d+)"),
    _Family("AP@", r"(?P<k>\d+)" + _LEVEL, codes_only=True),
    _Family("R", _K + _LEVEL),
    _Family("TR", _K + _LEVEL),
    _Family("P", _K + _LEVEL),
    _Family("P@R", _LEVEL),
    _Family("MRR", f"({_K})?" + _LEVEL),
    _Family("HP", _K, of_level=False),
    _Family("AHP", f"({_K})?", of_level=False),
    _Family("mAP@R", _LEVEL),
    _Family("mAP", _K + _LEVEL),
)


@dataclass(frozen=True)
class Metric:
    """One metric asked for."""

    name: str  # as the user wrote it
    family: _Family
    level: int = 0  # 1 … L, or 0 … L of first-error; 0 where the metric has none
    cutoff: int | None = None  # k, or None for the whole list
    parameters: Mapping[str, float] = field(default_factory=dict)  # alpha of H-AP(alpha=3)

    @property
    def kind(self) -> str:
        """What its family is called, such as H-AP or AP#."""
        return self.family.kind

    @property
    def options(self) -> dict[str, Any]:
        """The options of its formula."""
        options = {"level": self.level, "k": self.cutoff}
        return {**self.parameters, **{name: value for name, value in options.items() if self.family.takes(name)}}

    @property
    def has_level(self) -> bool:
        """Whether it measures one level."""
        return self.level > 0 or self.kind == "first-error"

    @property
    def name_without_level(self) -> str:
        """``R@1`` of ``R@1[2]``, ``AP#`` of ``AP#2``."""
        return "AP#" if self.kind == "AP#" else strip_brackets(self.name)


FAMILIES: Mapping[str, _Family] = {family.kind: family for family in _FAMILIES}


def default_names(num_levels: int) -> tuple[str, ...]:
    """What ``evaluate`` computes unless metrics or a protocol are named.

    >>> default_names(2)
    ('H-AP', 'NDCG', 'ASI', 'AP[1]', 'AP[2]', 'R@1', 'R@10', 'mAP@R')
    """
    return ("H-AP", "NDCG", "ASI", *(f"AP[{level}]" for level in range(1, num_levels + 1)), "R@1", "R@10", "mAP@R")


class NameParts(NamedTuple):
    """What the name of a metric says, of any tree; columns of a run may be means, or of one of several lists."""

    family: _Family
    level: int | None
    cutoff: int | None
    parameters: Mapping[str, float]
    query_list: str | None  # in brackets: fine of ``AP[fine]``
    is_mean: bool  # over lists or levels


def split_name(name: str) -> NameParts | None:
    """The parts of a metric's name; None for one of another form.

    >>> parts = split_name("mAP@100[fine]")
    >>> parts.family.kind, parts.cutoff, parts.level, parts.query_list
    ('mAP', 100, None, 'fine')
    """
    plain_name = name.removeprefix("mean ")
    query_list = _QUERY_LIST.search(plain_name)
    metric_name = plain_name[: query_list.start()] if query_list else plain_name
    for family in _FAMILIES:
        if match := re.fullmatch(re.escape(family.kind) + family.options, metric_name, re.ASCII):
            options = {option: text for option, text in match.groupdict().items() if text is not None}
            level, cutoff = (int(options.pop(key)) if key in options else None for key in ("level", "k"))
            parameters = {parameter: float(text) for parameter, text in options.items()}
            list_name = query_list[1] if query_list else None
            return NameParts(family, level, cutoff, parameters, list_name, name != plain_name)
    return None


def strip_brackets(name: str) -> str:
    """A metric's name without its level, or list of queries: ``R@1`` of ``R@1[2]``."""
    return name.partition("[")[0]


def improves_downward(name: str, *, num_levels: int) -> bool:
    """Whether a lower value of a metric is better: of distances, and of ``first-error[l]`` above the finest level.

    >>> improves_downward("first-error[0]", num_levels=2), improves_downward("first-error[2]", num_levels=2)
    (True, False)
    """
    name_parts = split_name(name)
    if name_parts is None:
        return False
    return name_parts.family.downward or (
        name_parts.family.kind == "first-error" and (name_parts.level or 0) < num_levels
    )


def parse_metrics(names: Iterable[str], *, num_levels: int, of_codes: bool = False) -> tuple[Metric, ...]:
    """The metrics of these names, in their order; OptionError for a wrong one, one given twice, or none."""
    metric_names = [names] if isinstance(names, str) or not np.iterable(names) else list(names)
    if not all(isinstance(name, str) for name in metric_names):
        raise OptionError(f"metrics={names!r}", expected=f"names such as {', '.join(_EXAMPLES)}")
    if not metric_names or len(set(metric_names)) < len(metric_names):
        raise OptionError(f"metrics={metric_names}", expected="at least one name, each once")
    return tuple(_parse(name, num_levels, of_codes) for name in metric_names)


def _parse(name: str, num_levels: int, of_codes: bool) -> Metric:
    name_parts = split_name(name)
    if name_parts is None or name_parts.is_mean or name_parts.query_list:
        capitals = name.upper() if split_name(name.upper()) else None
        similar_name = _OTHER_NAMES.get(name) or capitals or nearest_name(name, _EXAMPLES, cutoff=0.4)
        remedy = f"did you mean {similar_name!r}?" if similar_name else None
        if name_parts is not None and name_parts.query_list:
            remedy = f"levels have numbers, from 1, the coarsest: {name.partition('[')[0]}[1]"
        raise OptionError(f"metric {name!r}", expected=f"a name such as {', '.join(_EXAMPLES)}", remedy=remedy)
    family, level, cutoff = name_parts.family, name_parts.level, name_parts.cutoff
    if family.codes_only and not of_codes:
        remedy = f"m{name} divides by min(k, positives)"
        raise OptionError(f"metric {name!r}", expected="binary codes for hashing's AP@k", remedy=remedy)
    if level is not None and not family.lowest <= level <= num_levels:
        levels = f"a level between {family.lowest} (coarsest) and {num_levels} (finest)"
        raise OptionError(f"metric {name!r}", expected=levels)
    if cutoff is not None and not 1 <= cutoff <= MOST_RANKS:
        raise OptionError(f"metric {name!r}", expected=f"a cut-off k between 1 and {MOST_RANKS}")
    return Metric(
        name,
        family,
        level=(level or 0) if level is not None or not family.of_level else num_levels,
        cutoff=cutoff,
        parameters=name_parts.parameters,
    )


def rules_of(compat: str | Rules | None, protocol: str | None) -> Rules:
    """The rules that ``compat`` names or is, else those of the protocol, else this package's.

    >>> rules_of(None, "revisitop").recall
    'share'
    """
    if compat is None:
        return OURS if protocol is None else PROTOCOLS[protocol].rules
    return compat if isinstance(compat, Rules) else COMPATIBLE[compat]


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedOptions(Conventions):
    """The conventions, from which the request of an evaluation is made."""

    @property
    def benchmark(self) -> Protocol | None:
        """The protocol, if one is named."""
        return None if self.protocol is None else PROTOCOLS[self.protocol]

    @property
    def rules(self) -> Rules:
        """The rules of ``compat``, else those of the protocol, else this package's."""
        return rules_of(self.compat, self.protocol)

    def replace_rules(self, **changes: Any) -> Self:
        """A copy with some rules changed."""
        return replace(self, compat=replace(self.rules, **changes))

    def request(self, *, num_queries: int, num_levels: int, of_codes: bool = False) -> MetricRequest:
        """The request for Q queries with L levels."""
        rules, names = self.rules, self.metrics
        if names is None:
            names = default_names(num_levels) if self.benchmark is None else self.benchmark.names(num_levels)
        parsed = parse_metrics(names, num_levels=num_levels, of_codes=of_codes)
        for metric in parsed:
            metric.family.refuse_ties(self.ties)
        cut = any(metric.kind == "NDCG" and metric.cutoff for metric in parsed)
        if rules.ideal == "retrieved" and self.ties != "index" and cut:
            problem = f"ties={self.ties!r} with NDCG@k and the ideal of the retrieved top k"
            remedy = "that ideal depends on which of the tied items are in the top k"
            raise OptionError(problem, expected="ties='index'", remedy=remedy)
        relevance = self._relevance((num_queries, num_levels + 1))
        request = MetricRequest(parsed, num_levels, relevance, self.ties, rules, self.protocol)
        request.table(np.ones((1, num_levels + 1), np.int64), slice(0, 1))  # a bad relevance fails here
        return request

    def _relevance(self, shape: tuple[int, int]) -> FunctionOrTable:
        """The function of that name or of the levels' weights, the user's own, or a checked table."""
        relevance = "hap" if self.relevance is None else self.relevance
        if isinstance(relevance, str):
            check_choice("relevance", relevance, RelevanceName)
            hap = partial(relevances.hap, alpha=float(self.alpha))
            functions: dict[str, RelevanceFunction] = {"hap": hap, "linear": relevances.linear, "gain": relevances.gain}
            return functions[relevance]
        if callable(relevance):
            return relevance
        if to_numpy(relevance, name="relevance").ndim == 1:
            return partial(relevances.weighted_ap, weights=check_shares("relevance", relevance, shape[1] - 1))
        return _checked_table(relevance, shape)


@dataclass(frozen=True)
class MetricRequest:
    """What to compute."""

    metrics: tuple[Metric, ...]
    num_levels: int
    relevance: FunctionOrTable  # of H-AP
    ties: Ties
    rules: Rules = OURS
    protocol: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(metric.name for metric in self.metrics)

    def table(
        self, counts: NDArray[np.int64], rows: slice | NDArray[np.int64], *, alpha: float | None = None
    ) -> NDArray[np.float64]:
        """(r, L+1) the relevance of each level for some queries, given their counts; with alpha that of H-AP(alpha=…).

        The largest of a query is about 1, lest sums overflow: H-AP is a quotient, in which a power of two cancels.
        """
        relevance: FunctionOrTable = self.relevance
        if alpha is not None:
            relevance = partial(relevances.hap, alpha=alpha)
        table = _checked_table(relevance(counts), counts.shape) if callable(relevance) else relevance[rows]
        scaled: NDArray[np.float64] = np.ldexp(table, -np.frexp(table.max(axis=1, keepdims=True))[1])
        return scaled

    def convention(
        self, *, self_rule: str, ranked_by: RankedBy, counts: str | None = None, **fields: Any
    ) -> Convention:
        """The card of a result, with further fields; ``counts`` is what the rules say unless given."""
        level_fields = self.num_levels, _name(self.relevance), counts or self.rules.counted
        fields["hashing_ap"] = any(metric.kind == "AP@" for metric in self.metrics)
        return Convention(self_rule, ranked_by, *level_fields, self.ties, self.rules, self.protocol, **fields)


def _checked_table(table: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = to_numpy(table, name="relevance")
    if array.dtype.kind not in "fiub":
        raise OptionError(f"relevance={table!r}", expected=_RELEVANCES)
    relevance_table = array.astype(np.float64, order="C")
    if relevance_table.shape != shape:
        raise OptionError(
            f"a relevance of shape {relevance_table.shape}", expected=f"one value per query and level, {shape}"
        )
    if not np.isfinite(relevance_table).all() or (relevance_table < 0).any() or relevance_table[:, 0].any():
        raise OptionError("a relevance table", expected="finite values ≥ 0, and 0 at level 0")
    return relevance_table


def _name(relevance: FunctionOrTable) -> str:
    """The name of a relevance function on the convention card."""
    if not callable(relevance):
        return "a table of one value per query and level"
    if isinstance(relevance, partial):
        options = ", ".join(f"{key}={value}" for key, value in relevance.keywords.items())
        return f"{relevance.func.__name__}({options})"
    return getattr(relevance, "__name__", type(relevance).__name__)
