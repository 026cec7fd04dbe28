"""Batch samplers that know the hierarchy: each yields lists of item indices, one list per batch.

Give one to ``DataLoader(dataset, batch_sampler=sampler)``. Each new iteration is the next epoch; ``set_epoch`` chooses
another. What an epoch yields depends only on (seed, epoch). It is planned at once, as one integer array, so that it can
begin at any batch.

A batch lists the items of one visit to a class next to each other, and a class shows all its items before it repeats
one. Except in the tree-aware and the random sampler, no batch contains a class twice, and unless ``visits="by_size"``,
every class is visited before any is visited again (in the pair sampler: every class of its super-category).

``DistributedBatches(sampler)`` gives each of several processes its share of the same plan. ``state_dict`` and
``load_state_dict`` resume any of them at the next batch.

They are ``torch.utils.data.BatchSampler``s where torch is installed, as trainers of other libraries ask. They
count epochs themselves: to resume a run, call ``set_epoch`` or ``load_state_dict`` first. Lightning's Trainer of
several processes needs ``use_distributed_sampler=False``.
"""

from .class_balanced import ClassBalancedSampler, RandomSampler, SuperCategoryPairSampler
from .epochs import DistributedBatches
from .tree_aware import TreeSampler

__all__ = ["ClassBalancedSampler", "DistributedBatches", "RandomSampler", "SuperCategoryPairSampler", "TreeSampler"]
