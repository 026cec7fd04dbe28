"""The steps from landmark ids to a published hierarchy, each from a folder to a folder."""

from .clean.step import CleanSettings, clean_step
from .cluster.step import Clustered, ClusterSettings, cluster_step
from .export.images import Listed, describe_listed, images_step
from .export.step import Exported, export_step
from .fill.step import FillSettings, ImageSource, fill_step
from .run import run_plan

__all__ = [
    "CleanSettings",
    "ClusterSettings",
    "Clustered",
    "Exported",
    "FillSettings",
    "ImageSource",
    "Listed",
    "clean_step",
    "cluster_step",
    "describe_listed",
    "export_step",
    "fill_step",
    "images_step",
    "run_plan",
]
