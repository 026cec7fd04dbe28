r"""The names of metrics, as given to ``metrics=`` and as found in the columns of a result.

=================  =====================================================================
``H-AP``           hierarchical average precision; ``H-AP(alpha=3)`` with relevance hap(3)
``H-AP[l]``        what the items at level l exactly add to it; over l = 1 … L these add up to ``H-AP``
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
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from hiertree.errors import OptionError

_PATTERN = re.compile(
    r"(?P<hap>H-AP)(\(alpha=(?P<alpha>\d+(\.\d+)?)\))?(\[(?P<part>\d+)\])?"
    r"|(?P<error>first-error)\[(?P<wrong>\d+)\]"
    r"|(?P<flat>ASI|NDCG)"
    r"|(?P<ndcg>NDCG)@(?P<ndcg_cutoff>\d+)"
    r"|(?P<binary>ASI)\[(?P<binary_level>\d+)\]"
    r"|(?P<exact>AP#)(?P<exact_level>\d+)"
    r"|((?P<ap>AP)|(?P<mapr>mAP@R)|(?P<cut>R|TR|P|mAP)@(?P<cutoff>\d+))(\[(?P<level>\d+)\])?"
)
_HASHING = re.compile(r"AP@(?P<cutoff>\d+)(\[(?P<level>\d+)\])?")
_EXAMPLES = ("H-AP", "H-AP(alpha=3)", "NDCG", "NDCG@10", "ASI", "AP[1]", "R@1", "TR@10", "P@1", "mAP@R", "mAP@100")
_OTHER_NAMES = {"mAP": "AP", "MAP": "AP", "HAP": "H-AP", "Recall@1": "R@1", "recall@1": "R@1", "precision@1": "P@1"}


@dataclass(frozen=True)
class Metric:
    """One metric asked for.

    Attributes:
        name: as the user wrote it.
        kind: ``H-AP``, ``first-error``, ``NDCG``, ``ASI``, ``AP``, ``AP#``, ``R``, ``TR``, ``P``, ``mAP@R`` or ``mAP``.
        level: 1 … L, or 0 … L of ``first-error``; 0 where the metric has none.
        cutoff: k, or None for the whole list.
        alpha: of ``H-AP(alpha=…)``, or None for the relevance of the evaluation.
    """

    name: str
    kind: str
    level: int = 0
    cutoff: int | None = None
    alpha: float | None = None


def default_names(num_levels: int) -> tuple[str, ...]:
    """What ``evaluate`` computes unless told otherwise.

    >>> default_names(2)
    ('H-AP', 'NDCG', 'ASI', 'AP[1]', 'AP[2]', 'R@1', 'R@10', 'mAP@R')
    """
    return ("H-AP", "NDCG", "ASI", *(f"AP[{level}]" for level in range(1, num_levels + 1)), "R@1", "R@10", "mAP@R")


def parse_metrics(names: Iterable[str], *, num_levels: int) -> tuple[Metric, ...]:
    """The metrics of these names, in their order.

    Raises:
        OptionError: a name that does not exist, a level outside 1 … L, a cut-off of 0, a name given twice, or none.
    """
    listed = [names] if isinstance(names, str) else list(names)
    if not listed or len(set(listed)) < len(listed):
        raise OptionError(f"metrics={listed}", expected="at least one name, each once")
    return tuple(_parse(name, num_levels) for name in listed)


def parse_hashing_metrics(names: Iterable[str], *, num_levels: int) -> dict[str, Metric]:
    """Those of the names that are hashing's AP@k.

    >>> parse_hashing_metrics(["AP", "AP@1000[1]"], num_levels=2)
    {'AP@1000[1]': Metric(name='AP@1000[1]', kind='AP@', level=1, cutoff=1000, alpha=None)}

    Raises:
        OptionError: a level outside 1 … L, a cut-off of 0, or a name given twice.
    """
    metrics: dict[str, Metric] = {}
    for name in names:
        found = _HASHING.fullmatch(name)
        if found is not None:
            if name in metrics:
                raise OptionError(f"metric {name!r}", expected="each name once")
            level = _checked_level(name, found["level"], 1, num_levels)
            metrics[name] = Metric(name, "AP@", num_levels if level is None else level, _cutoff(name, found["cutoff"]))
    return metrics


def _parse(name: str, num_levels: int) -> Metric:
    found = _PATTERN.fullmatch(name)
    if _HASHING.fullmatch(name):
        remedy = f"m{name} divides by min(k, positives)"
        raise OptionError(f"metric {name!r}", expected="binary codes for hashing's AP@k", remedy=remedy)
    if found is None:
        raise OptionError(f"metric {name!r}", expected=f"a name such as {', '.join(_EXAMPLES)}", remedy=_hint(name))
    kind = next(filter(None, found.group("hap", "error", "flat", "ndcg", "binary", "exact", "ap", "mapr", "cut")))
    level = _level(name, found, 0 if kind == "first-error" else 1, num_levels)
    cutoff, alpha = found["ndcg_cutoff"] or found["cutoff"], found["alpha"]
    if kind in ("H-AP", "ASI", "NDCG"):
        alpha_value = None if alpha is None else float(alpha)
        return Metric(name, kind, level=level or 0, cutoff=_cutoff(name, cutoff), alpha=alpha_value)
    return Metric(name, kind, level=num_levels if level is None else level, cutoff=_cutoff(name, cutoff))


def _level(name: str, found: re.Match[str], lowest: int, num_levels: int) -> int | None:
    """The level in brackets, or None without."""
    digits = next(filter(None, found.group("level", "part", "wrong", "binary_level", "exact_level")), None)
    return _checked_level(name, digits, lowest, num_levels)


def _checked_level(name: str, digits: str | None, lowest: int, num_levels: int) -> int | None:
    if digits is not None and not lowest <= int(digits) <= num_levels:
        raise OptionError(f"metric {name!r}", expected=f"a level between {lowest} (coarsest) and {num_levels} (finest)")
    return None if digits is None else int(digits)


def _cutoff(name: str, digits: str | None) -> int | None:
    if digits is not None and int(digits) == 0:
        raise OptionError(f"metric {name!r}", expected="a cut-off k ≥ 1")
    return None if digits is None else int(digits)


def _hint(name: str) -> str | None:
    close = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else get_close_matches(name, _EXAMPLES, n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}?" if close else None
