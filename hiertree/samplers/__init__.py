"""Batch samplers that know the hierarchy: each yields lists of item indices, one list per batch.

Give one to ``DataLoader(dataset, batch_sampler=sampler)``. What an epoch yields depends only on (seed, epoch): call
``set_epoch`` before each one. An epoch is planned at once, as one integer array, so that it can begin at any batch.

A batch lists the items of one visit to a class next to each other, and a class shows all its items before it repeats
one. Except in the tree-aware sampler, every class is visited before any is visited again (in the pair sampler: every
class of its super-category), and no batch contains a class twice.

``DistributedBatches(sampler)`` gives each of several processes its share of the same plan. ``state_dict`` and
``load_state_dict`` resume any of them at the next batch.
"""

from .class_balanced import ClassBalancedSampler
from .distributed import DistributedBatches
from .super_category_pairs import SuperCategoryPairSampler
from .tree_aware import TreeSampler

__all__ = ["ClassBalancedSampler", "DistributedBatches", "SuperCategoryPairSampler", "TreeSampler"]
