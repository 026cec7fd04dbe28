"""The steps from landmark ids to a published hierarchy, each from a folder to a folder."""

from hiertree.pipelines.labels.steps.cleaned import clean_step

__all__ = ["clean_step"]
