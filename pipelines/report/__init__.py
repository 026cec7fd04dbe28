"""Reports: what was measured, side by side, as one self-contained HTML page."""

from hiertree.pipelines.report._comparison import MetricRow, has_a_best, side_by_side
from hiertree.pipelines.report._images import data_uri
from hiertree.pipelines.report._page import write_report
from hiertree.pipelines.report._reporting import report
from hiertree.pipelines.report._sources import Beside
from hiertree.pipelines.report._tree import Branch, branches_of

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
