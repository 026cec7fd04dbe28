"""Reports: what was measured, side by side, as one self-contained HTML page."""

from .comparison import MetricRow, has_a_best, side_by_side
from .images import data_uri
from .page import write_report
from .reporting import report
from .sources import Beside
from .tree import Branch, branches_of

__all__ = [
    "Beside",
    "Branch",
    "MetricRow",
    "branches_of",
    "data_uri",
    "has_a_best",
    "report",
    "side_by_side",
    "write_report",
]
