"""The steps from landmark ids to a published hierarchy, each from a folder to a folder."""

from hiertree.pipelines.labels.steps.cleaned import CleanSettings, clean_step
from hiertree.pipelines.labels.steps.clustered import Clustered, ClusterSettings, cluster_step
from hiertree.pipelines.labels.steps.exported import Exported, export_step
from hiertree.pipelines.labels.steps.filled import FillSettings, ImageSource, fill_step
from hiertree.pipelines.labels.steps.listed import Listed, describe_listed, images_step
from hiertree.pipelines.labels.steps.planned import run_plan

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
