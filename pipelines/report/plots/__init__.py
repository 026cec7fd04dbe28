"""The plots of a report, each as a function of numbers that returns matplotlib axes, and what computes the numbers.

>>> from hiertree.pipelines.report.plots import error_severity, plot_error_severity
>>> shares = error_severity([[0.9, 0.8, 0.7]], [[1, 2, 0]])  # the nearest item is a sibling
>>> shares
array([[1., 0.]])
>>> axes = plot_error_severity({"a model": shares}, level_names=["family", "species"])
>>> axes.get_ylabel()
'percent of the queries'
"""

from .precision_recall import interpolated_precision, plot_precision_recall
from .severity import error_severity, plot_error_severity

__all__ = [
    "error_severity",
    "interpolated_precision",
    "plot_error_severity",
    "plot_precision_recall",
]
