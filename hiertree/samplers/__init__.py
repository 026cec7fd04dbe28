"""Batch samplers that know the hierarchy: lists of item indices, an epoch at a time, on one process or several."""

from .balanced import ClassBalancedSampler, SuperCategoryPairSampler
from .distributed import DistributedBatches
from .tree_sampler import TreeSampler

__all__ = ["ClassBalancedSampler", "DistributedBatches", "SuperCategoryPairSampler", "TreeSampler"]
