"""The plots of a report, each as a function of numbers that returns matplotlib axes, and what computes the numbers.

>>> from hiertree.pipelines.report.plots import error_severity, plot_error_severity
>>> shares = error_severity([[0.9, 0.8, 0.7]], [[1, 2, 0]])  # the nearest item is a sibling
>>> shares
array([[1., 0.]])
>>> axes = plot_error_severity({"a model": shares}, level_names=["family", "species"])
>>> axes.get_ylabel()
'percent of the queries'
"""

from .embedding_map import Projection, class_means, group_looks, plot_embeddings, project_embeddings
from .errors import confusion_matrix, error_severity, first_wrong_items, plot_confusion, plot_error_severity
from .lines import curve_points, interpolated_precision, plot_learning, plot_precision_recall, plot_spread

__all__ = [
    "Projection",
    "class_means",
    "confusion_matrix",
    "curve_points",
    "error_severity",
    "first_wrong_items",
    "group_looks",
    "interpolated_precision",
    "plot_confusion",
    "plot_embeddings",
    "plot_error_severity",
    "plot_learning",
    "plot_precision_recall",
    "plot_spread",
    "project_embeddings",
]
