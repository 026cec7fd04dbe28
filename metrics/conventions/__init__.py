"""What is computed, and by which rules: names of metrics, rules, protocols, requests, and the printed card."""

from .card import COMPATIBLE, OURS, PROTOCOLS, Convention, Protocol, RankedBy
from .request import (
    FAMILIES,
    MOST_RANKS,
    CheckedOptions,
    Metric,
    MetricRequest,
    improves_downward,
    parse_metrics,
    rules_of,
    split_name,
    strip_brackets,
)

__all__ = [
    "COMPATIBLE",
    "FAMILIES",
    "MOST_RANKS",
    "OURS",
    "PROTOCOLS",
    "CheckedOptions",
    "Convention",
    "Metric",
    "MetricRequest",
    "Protocol",
    "RankedBy",
    "improves_downward",
    "parse_metrics",
    "rules_of",
    "split_name",
    "strip_brackets",
]
