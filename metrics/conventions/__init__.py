"""What is computed, and by which rules: names of metrics, rules, protocols, requests, and the printed card."""

from .card import COMPATIBLE as COMPATIBLE
from .card import OURS as OURS
from .card import PROTOCOLS as PROTOCOLS
from .card import Convention as Convention
from .card import Protocol as Protocol
from .card import RankedBy as RankedBy
from .request import FAMILIES as FAMILIES
from .request import MOST_RANKS as MOST_RANKS
from .request import CheckedOptions as CheckedOptions
from .request import MetricRequest as MetricRequest
from .request import improves_downward as improves_downward
from .request import parse_metrics as parse_metrics
from .request import rules_of as rules_of
from .request import split_name as split_name
from .request import strip_brackets as strip_brackets
