"""Reports: models side by side, on one self-contained HTML page."""

from .retrieval_report import make_report
from .sources import EmbeddingsOptions

__all__ = ["EmbeddingsOptions", "make_report"]
