"""What the page shows: kinds, groups, supercategories and labels with their counts, and examples of landmarks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hiertree.errors import TableError
from hiertree.io.tables import read_table
from hiertree.tree import LabelTree

from ...clean.landmark_file import SEPARATOR
from ...folders import AnyPath
from ...landmarks import unique_ids
from ...review.examples import landmark_name
from ..tables import TREE, HierarchicalRow, export_folder, hierarchical_table

EXAMPLES = 6
_LEVELS = {"natural_or_human_made": "kind", "hierarchical_label": "supercategory"}
Example = tuple[int, str]  # a landmark's id and name


@dataclass(frozen=True)
class TreeNode:
    """A node of the page's tree.

    Attributes:
        name: its label.
        level: what its level is called.
        count: landmarks below it.
        children: the nodes below it, those of most landmarks first; none below an "instance of" label.
        examples: its first landmarks.
    """

    name: str
    level: str
    count: int
    children: tuple[TreeNode, ...]
    examples: tuple[Example, ...]

    def below(self) -> Iterator[TreeNode]:
        """Itself and every node below it, depth first, those of most landmarks first."""
        yield self
        for child in self.children:
            yield from child.below()


def tree_of(export: AnyPath) -> TreeNode:
    """The tree of an export, with "instance of" labels below the supercategories.

    A landmark with several labels stands below the first.

    Args:
        export: a folder made by ``labels export`` or ``labels build``.

    Raises:
        TableError: its table or its tree cannot be read, or they do not fit together.
    """
    file = hierarchical_table(export)
    tree = LabelTree.from_json(export_folder(export) / TREE)
    table = read_table(file, required=HierarchicalRow._fields)
    ids = unique_ids(table, "landmark_id", file)
    if not ids:
        raise TableError(f"{file} without a landmark", expected="a table with rows")
    levels = [_LEVELS.get(name, name.replace("_", " ")) for name in tree.level_names[:-1]]
    paths = [tuple(map(str, tree.labels_of(path)[:-1])) for path in tree.paths(ids).tolist()]
    labels = [(label.split(SEPARATOR)[0],) for label in table["supercategory"]]
    examples = zip(ids, map(landmark_name, table["category"]), strict=True)
    rows = [(path + label, example) for path, label, example in zip(paths, labels, examples, strict=True)]
    return _node("all landmarks", ["root", *levels, "label"], rows)


def _node(name: str, levels: Sequence[str], rows: Sequence[tuple[tuple[str, ...], Example]]) -> TreeNode:
    """A node from the names below it and the examples of its landmarks."""
    below: defaultdict[str, list[tuple[tuple[str, ...], Example]]] = defaultdict(list)
    for names, example in rows:
        if names:
            below[names[0]].append((names[1:], example))
    children = [_node(child, levels[1:], part) for child, part in below.items()]
    ordered = sorted(children, key=lambda child: (-child.count, child.name))
    return TreeNode(name, levels[0], len(rows), tuple(ordered), tuple(example for _, example in rows[:EXAMPLES]))


def level_sizes(root: TreeNode) -> dict[str, int]:
    """How many nodes each level below the root has, coarse → fine."""
    sizes = Counter(node.level for node in root.below())
    del sizes[root.level]
    return dict(sizes)
