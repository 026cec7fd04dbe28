"""Label hierarchies: the tree, the integer paths of its leaves, and the levels at which items agree."""

from .label_tree import LabelTree
from .level_arrays import level_counts, levels

__all__ = ["LabelTree", "level_counts", "levels"]
