r"""The names of metrics, as given to ``metrics=`` and as found in the columns of a result.

=================  =====================================================================
``H-AP``           hierarchical average precision; ``H-AP(alpha=3)`` with relevance hap(3)
``H-AP[l]``        the part of it due to items at level l exactly; the parts for l = 1 … L add up to ``H-AP``
``first-error[l]`` 1 if the first wrong item, of level < L in the \|Ω^(L)\| best places, is at level l; l = L: none is
``NDCG``           with gains 2^l − 1; ``NDCG@k`` cut at k
``ASI``            average set intersection; ``ASI[l]`` with two levels only, at least l or not
``AP[l]``          average precision, positives at level ≥ l
``AP#l``           average precision, positives at level l exactly, items at level > l taken out of the list
``R@k[l]``         1 if any positive is in the top k (Eq. 13)
``TR@k[l]``        positives in the top k / min(k, positives) (Eq. 14)
``P@k[l]``         positives in the top k / k
``mAP@R[l]``       precision summed over the positives in the top R / R, with R positives
``mAP@k[l]``       precision summed over the positives in the top k / min(k, positives)
``AP@k[l]``        the same / positives in the top k, as hashing divides; of ``evaluate_codes`` alone
=================  =====================================================================

Levels count from 1, the coarsest; without ``[l]`` the finest is meant.

A new metric takes one line of ``_FAMILIES`` here and one module of :mod:`hiertree.metrics.formulas`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from hiertree.errors import OptionError

MOST_RANKS = 2**31 - 1  # ranks are 32-bit integers
_EXAMPLES = ("H-AP", "H-AP(alpha=3)", "NDCG", "NDCG@10", "ASI", "AP[1]", "R@1", "TR@10", "P@1", "mAP@R", "mAP@100")
_OTHER_NAMES = {"mAP": "AP", "MAP": "AP", "HAP": "H-AP", "Recall@1": "R@1", "recall@1": "R@1", "precision@1": "P@1"}


class _Family(NamedTuple):
    """Metrics of one formula.

    Attributes:
        kind: what the metrics are called without their options.
        options: a regular expression of what follows the kind in a name.
        formula: the module of :mod:`hiertree.metrics.formulas` that computes them; after a colon its function, if that
            is not ``compute``.
        of_level: whether a name without a level means the finest one, rather than all.
        lowest: the coarsest level that may be asked for.
        codes_only: whether only rankings of binary codes have these metrics.
    """

    kind: str
    options: str
    formula: str
    of_level: bool = True
    lowest: int = 1
    codes_only: bool = False

    def match(self, name: str) -> re.Match[str] | None:
        """The options in a name, or None for the name of another family."""
        return re.fullmatch(re.escape(self.kind) + self.options, name)


_K, _LEVEL = r"@(?P<k>\d+)", r"(\[(?P<level>\d+)\])?"
_FAMILIES = (
    _Family("H-AP", r"(\(alpha=(?P<alpha>\d+(\.\d+)?)\))?" + _LEVEL, "average_precision:hierarchical", of_level=False),
    _Family("first-error", r"\[(?P<level>\d+)\]", "top_k:first_error", lowest=0),
    _Family("NDCG", f"({_K})?", "ndcg", of_level=False),
    _Family("ASI", _LEVEL, "asi", of_level=False),
    _Family("AP", _LEVEL, "average_precision"),
    _Family("AP#", r"(?P<level>\d+)", "average_precision:exact_level"),
    _Family("AP@", r"(?P<k>\d+)" + _LEVEL, "top_k:hashing_ap", codes_only=True),
    _Family("R", _K + _LEVEL, "top_k"),
    _Family("TR", _K + _LEVEL, "top_k"),
    _Family("P", _K + _LEVEL, "top_k"),
    _Family("mAP@R", _LEVEL, "average_precision"),
    _Family("mAP", _K + _LEVEL, "average_precision"),
)


@dataclass(frozen=True)
class Metric:
    """One metric asked for.

    Attributes:
        name: as the user wrote it.
        kind: ``H-AP``, ``first-error``, ``NDCG``, ``ASI``, ``AP``, ``AP#``, ``AP@``, ``R``, ``TR``, ``P``, ``mAP@R``
            or ``mAP``.
        formula: the module that computes it.
        level: 1 … L, or 0 … L of ``first-error``; 0 where the metric has none.
        cutoff: k, or None for the whole list.
        alpha: of ``H-AP(alpha=…)``, or None for the relevance of the evaluation.
    """

    name: str
    kind: str
    formula: str
    level: int = 0
    cutoff: int | None = None
    alpha: float | None = None

    @property
    def has_level(self) -> bool:
        """Whether it measures one level."""
        return self.level > 0 or self.kind == "first-error"

    @property
    def name_without_level(self) -> str:
        """``R@1`` of ``R@1[2]``, ``AP#`` of ``AP#2``.

        >>> [metric.name_without_level for metric in parse_metrics(["AP[1]", "AP#2", "R@1"], num_levels=2)]
        ['AP', 'AP#', 'R@1']
        """
        return "AP#" if self.kind == "AP#" else self.name.partition("[")[0]


H_AP = Metric("H-AP", "H-AP", "average_precision:hierarchical")


def default_names(num_levels: int) -> tuple[str, ...]:
    """What ``evaluate`` computes unless metrics or a protocol are named.

    >>> default_names(2)
    ('H-AP', 'NDCG', 'ASI', 'AP[1]', 'AP[2]', 'R@1', 'R@10', 'mAP@R')
    """
    return ("H-AP", "NDCG", "ASI", *(f"AP[{level}]" for level in range(1, num_levels + 1)), "R@1", "R@10", "mAP@R")


def improves_downward(name: str, *, num_levels: int) -> bool:
    """Whether a metric is the better, the lower it is: ``first-error[l]`` above the finest level alone.

    >>> improves_downward("first-error[0]", num_levels=2), improves_downward("first-error[2]", num_levels=2)
    (True, False)
    """
    found = re.fullmatch(r"(mean )?first-error\[(\d+)\]", name)
    return found is not None and int(found[2]) < num_levels


def parse_metrics(names: Iterable[str], *, num_levels: int, of_codes: bool = False) -> tuple[Metric, ...]:
    """The metrics of these names, in their order.

    Args:
        names: as given to ``metrics=``.
        num_levels: L.
        of_codes: whether binary codes are ranked, which have hashing's ``AP@k`` too.

    Raises:
        OptionError: a name that does not exist, a level or a cut-off outside its range, a name given twice, or none.
    """
    listed = [names] if isinstance(names, str) or not np.iterable(names) else list(names)
    if not all(isinstance(name, str) for name in listed):
        raise OptionError(f"metrics={names!r}", expected=f"names such as {', '.join(_EXAMPLES)}")
    if not listed or len(set(listed)) < len(listed):
        raise OptionError(f"metrics={listed}", expected="at least one name, each once")
    return tuple(_parse(name, num_levels, of_codes) for name in listed)


def _parse(name: str, num_levels: int, of_codes: bool) -> Metric:
    matches = ((family, family.match(name)) for family in _FAMILIES)
    family, found = next(((family, match) for family, match in matches if match), (None, None))
    if family is None or found is None:
        raise OptionError(f"metric {name!r}", expected=f"a name such as {', '.join(_EXAMPLES)}", remedy=_hint(name))
    if family.codes_only and not of_codes:
        remedy = f"m{name} divides by min(k, positives)"
        raise OptionError(f"metric {name!r}", expected="binary codes for hashing's AP@k", remedy=remedy)
    options = found.groupdict()
    level, cutoff, alpha = (options.get(option) for option in ("level", "k", "alpha"))
    if level is not None and not family.lowest <= int(level) <= num_levels:
        levels = f"a level between {family.lowest} (coarsest) and {num_levels} (finest)"
        raise OptionError(f"metric {name!r}", expected=levels)
    if cutoff is not None and not 1 <= int(cutoff) <= MOST_RANKS:
        raise OptionError(f"metric {name!r}", expected=f"a cut-off k between 1 and {MOST_RANKS}")
    return Metric(
        name,
        family.kind,
        family.formula,
        level=int(level or 0) if level is not None or not family.of_level else num_levels,
        cutoff=None if cutoff is None else int(cutoff),
        alpha=None if alpha is None else float(alpha),
    )


def _hint(name: str) -> str | None:
    close = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else get_close_matches(name, _EXAMPLES, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else None
