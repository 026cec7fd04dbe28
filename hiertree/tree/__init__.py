"""Label hierarchies: the tree, the integer paths of its leaves, and the levels at which items agree."""

from .edge_lists import read_edges
from .graph_policies import GraphPolicies
from .label_tree import LabelTree
from .level_arrays import level_counts, levels
from .tables import H_GLDV2_LEVELS

__all__ = ["H_GLDV2_LEVELS", "GraphPolicies", "LabelTree", "level_counts", "levels", "read_edges"]
