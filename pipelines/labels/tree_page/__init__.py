"""The label tree as a page to wander through, and as a drawing."""

from hiertree.pipelines.labels.tree_page._content import TreeNode, tree_of
from hiertree.pipelines.labels.tree_page._drawing import draw_tree
from hiertree.pipelines.labels.tree_page._page import write_tree_page
from hiertree.pipelines.labels.tree_page._showing import TITLE, example_images, show_tree

__all__ = ["TITLE", "TreeNode", "draw_tree", "example_images", "show_tree", "tree_of", "write_tree_page"]
