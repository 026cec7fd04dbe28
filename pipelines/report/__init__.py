"""Reports: models side by side, on one self-contained HTML page."""

from .demo_page import write_demo_page
from .metric_rows import MetricRow, has_a_best, side_by_side
from .retrieval_report import make_report
from .sources import EmbeddingsOptions
from .tree_branches import TreeBranch, branches_of

__all__ = [
    "EmbeddingsOptions",
    "MetricRow",
    "TreeBranch",
    "branches_of",
    "has_a_best",
    "make_report",
    "side_by_side",
    "write_demo_page",
]
