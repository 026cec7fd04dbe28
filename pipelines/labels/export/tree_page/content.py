"""What the page shows: kinds, groups, supercategories and labels with their counts, and examples of landmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hiertree.errors import CategoryError, TableError
from hiertree.io.tables import read_table
from hiertree.tree import LabelTree

from ...clean.landmark_file import SEPARATOR
from ...folders import AnyPath
from ...landmarks import unique_ids
from ...scrape.titles import PREFIX, category_title
from ..tables import TREE, HierarchicalRow, export_folder, hierarchical_table

EXAMPLES = 6
_LEVELS = {"natural_or_human_made": "kind", "hierarchical_label": "supercategory"}


@dataclass
class TreeNode:
    """A node of the page's tree.

    Attributes:
        name: its label.
        level: what its level is called.
        count: landmarks below it.
        children: the nodes below it, those of most landmarks first; none below an "instance of" label.
        examples: ids and names of its first landmarks.
    """

    name: str
    level: str
    count: int = 0
    children: dict[str, TreeNode] = field(default_factory=dict)
    examples: list[tuple[int, str]] = field(default_factory=list)

    def below(self) -> Iterator[TreeNode]:
        """Itself and every node below it, depth first, those of most landmarks first."""
        yield self
        for child in self.ordered():
            yield from child.below()

    @property
    def depth(self) -> int:
        """Levels below it."""
        return 1 + max(child.depth for child in self.children.values()) if self.children else 0

    def ordered(self) -> list[TreeNode]:
        """The children, those of most landmarks first."""
        return sorted(self.children.values(), key=lambda child: (-child.count, child.name))


def tree_of(export: AnyPath) -> TreeNode:
    """The tree of an export, with "instance of" labels below the supercategories.

    A landmark with several labels stands below the first.

    Args:
        export: a folder made by ``labels export`` or ``labels build``.

    Raises:
        TableError: its table or its tree cannot be read, or they do not fit together.
    """
    tree = LabelTree.from_json(export_folder(export) / TREE)
    file = hierarchical_table(export)
    table = read_table(file, required=HierarchicalRow._fields)
    ids = unique_ids(table, "landmark_id", file)
    if not len(ids):
        raise TableError(f"{file} without a landmark", expected="a table with rows")
    levels = [*(_LEVELS.get(name, name.replace("_", " ")) for name in tree.level_names[:-1]), "label"]
    root = TreeNode("all landmarks", "root")
    paths = tree.paths(ids).tolist()
    for landmark, path, category, label in zip(ids, paths, table["category"], table["supercategory"], strict=True):
        names = (*map(str, tree.labels_of(path)[:-1]), label.split(SEPARATOR)[0])
        example = (landmark, landmark_name(category))
        _count(root, example)
        node = root
        for level, name in zip(levels, names, strict=True):
            node = node.children.setdefault(name, TreeNode(name, level))
            _count(node, example)
    return root


def landmark_name(category: str) -> str:
    """What a Commons category is called; the text itself where it is no such URL.

    >>> landmark_name("http://commons.wikimedia.org/wiki/Category:Mud_Lake"), landmark_name("C7")
    ('Mud Lake', 'C7')
    """
    try:
        return category_title(category).removeprefix(PREFIX)
    except CategoryError:
        return category


def level_sizes(root: TreeNode) -> dict[str, int]:
    """How many nodes each level has, coarse → fine."""
    sizes = Counter(node.level for node in root.below())
    del sizes[root.level]
    return dict(sizes)


def as_json(node: TreeNode) -> dict[str, Any]:
    """The node for the page; short keys, for there are thousands."""
    return {
        "n": node.name,
        "l": node.level,
        "c": node.count,
        "e": node.examples,
        "k": [as_json(child) for child in node.ordered()],
    }


def _count(node: TreeNode, example: tuple[int, str]) -> None:
    node.count += 1
    if len(node.examples) < EXAMPLES:
        node.examples.append(example)
