"""The label tree as a page to wander through, and as a drawing."""

from .content import TreeNode, tree_of
from .drawing import draw_tree
from .page import write_tree_page
from .showing import TITLE, example_images, show_tree

__all__ = ["TITLE", "TreeNode", "draw_tree", "example_images", "show_tree", "tree_of", "write_tree_page"]
