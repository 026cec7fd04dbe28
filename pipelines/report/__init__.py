"""Reports: models side by side, on one self-contained HTML page."""

from .metric_rows import MetricRow, has_a_best, side_by_side
from .page import write_demo_page
from .retrieval_report import make_report
from .sources import EmbeddingsOptions
from .tree_nodes import TreeBranch, branches_of

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
