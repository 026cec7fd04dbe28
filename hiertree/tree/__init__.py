"""Label hierarchies: the tree, the integer paths of its leaves, and the levels at which items agree."""

from .formats import H_GLDV2_LEVELS, read_edges, read_taxonomy
from .graphs import GraphPolicies
from .label_tree import LabelTree
from .level_arrays import level_counts, levels

__all__ = ["H_GLDV2_LEVELS", "GraphPolicies", "LabelTree", "level_counts", "levels", "read_edges", "read_taxonomy"]
