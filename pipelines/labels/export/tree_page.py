"""``hiertree labels tree``: an export as a page that unfolds.

The page shows kinds, groups, supercategories and labels with their counts, and examples of landmarks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hiertree.datasets.readers.images import decode
from hiertree.errors import TableError
from hiertree.io.files import AnyPath, write_text
from hiertree.io.tables import read_table
from hiertree.tree import LabelTree
from hiertree.tree.formats import as_integers

from ...pages import data_uri, fill_page
from ..landmark_images import ImageFolderSettings
from ..landmarks import SEPARATOR, unique_ids
from ..scrape.titles import landmark_name
from ..steps import LabelStep, StepRecord, option
from .tables import TREE, HierarchicalRow, export_folder, hierarchical_table

EXAMPLES = 6
_LEVELS = {"natural_or_human_made": "kind", "hierarchical_label": "supercategory"}
Example = tuple[str, str]  # a landmark's id and name
COMMAND = "hiertree labels tree"
PAGE = "index.html"


@dataclass(frozen=True)
class TreeNode:
    """A node of the page's tree."""

    name: str  # its label
    level: str  # what its level is called
    count: int  # landmarks below it
    # the nodes below it, those of most landmarks first; none below an "instance of" label
    children: tuple[TreeNode, ...]
    examples: tuple[Example, ...]  # its first landmarks

    def below(self) -> Iterator[TreeNode]:
        """Itself and every node below it, depth first, those of most landmarks first."""
        yield self
        for child in self.children:
            yield from child.below()


def tree_of(export: AnyPath, *, examples: int = EXAMPLES) -> TreeNode:
    """The tree of an export, with "instance of" labels below the supercategories and so many examples of each node.

    A landmark with several labels stands below the first.
    """
    file = hierarchical_table(export)
    tree = LabelTree.from_json(export_folder(export) / TREE)
    table = read_table(file, required=HierarchicalRow._fields)
    ids = unique_ids(table, "landmark_id", file)
    if not ids:
        raise TableError(f"{file} without a landmark", expected="a table with rows")
    levels = [_LEVELS.get(name, name.replace("_", " ")) for name in tree.level_names[:-1]]
    paths = [tuple(map(str, tree.labels_of(path)[:-1])) for path in tree.paths(as_integers(ids)).tolist()]
    labels = [(label.split(SEPARATOR)[0],) for label in table["supercategory"]]
    landmarks = zip(ids, map(landmark_name, table["category"]), strict=True)
    rows = [(path + label, example) for path, label, example in zip(paths, labels, landmarks, strict=True)]
    return _node("all landmarks", ["root", *levels, "label"], rows, examples)


def _node(
    name: str, levels: Sequence[str], rows: Sequence[tuple[tuple[str, ...], Example]], max_examples: int
) -> TreeNode:
    """A node from the names below it and the examples of its landmarks."""
    rows_of_child: defaultdict[str, list[tuple[tuple[str, ...], Example]]] = defaultdict(list)
    for names, example in rows:
        if names:
            rows_of_child[names[0]].append((names[1:], example))
    children = [_node(child, levels[1:], part, max_examples) for child, part in rows_of_child.items()]
    sorted_children = sorted(children, key=lambda child: (-child.count, child.name))
    examples = tuple(example for _, example in rows[:max_examples])
    return TreeNode(name, levels[0], len(rows), tuple(sorted_children), examples)


def level_sizes(root: TreeNode) -> dict[str, int]:
    """How many nodes each level below the root has, coarse → fine."""
    sizes = Counter(node.level for node in root.below())
    del sizes[root.level]
    return dict(sizes)


class TreeSettings(ImageFolderSettings):
    """Settings of the page."""

    title: str = option("Landmark labels", "Title of the page.")

    def pictured(self, root: TreeNode) -> dict[str, Path]:
        """The images of examples, up to six of each supercategory, as far as there are any.

        Raises:
            OptionError: no such folder.
        """
        folder = self.folder()
        if folder is None:
            return {}
        nodes = (node for node in root.below() if node.children and not node.children[0].children)
        landmarks = dict.fromkeys(landmark for node in nodes for landmark, _ in node.examples)
        return {landmark: path for landmark in landmarks if (path := folder.find(landmark)) is not None}


DEFAULTS = TreeSettings()


def show_tree(export: AnyPath, *, out: AnyPath, settings: TreeSettings = DEFAULTS) -> None:
    """Write ``out``, a page; the same export and images give the same bytes.

    Args:
        export: a folder made by ``labels export`` or ``labels build``.
        out: the HTML file.
        settings: what the page shows.
    """
    _show(tree_of(export), Path(out), settings)


def _show(root: TreeNode, out: Path, settings: TreeSettings) -> None:
    pictures = {landmark: data_uri(decode(path, name=str(path))) for landmark, path in settings.pictured(root).items()}
    page = {"title": settings.title, "root": root, "levels": level_sizes(root), "pictures": pictures}
    write_text(out, fill_page(__package__, page, scripted=True))


@dataclass(frozen=True)
class TreeStep(LabelStep[TreeNode]):
    """A folder of the page, ``index.html``."""

    export: AnyPath
    settings: TreeSettings

    def record(self) -> StepRecord:
        """What the page is made from, the images that it shows among it."""
        settings = self.settings
        pictures = () if settings.images is None else tuple(settings.pictured(tree_of(self.export)).values())
        table = () if settings.image_table is None else (settings.image_table,)
        export_files = (hierarchical_table(self.export), export_folder(self.export) / TREE)
        return StepRecord(COMMAND, {"title": settings.title}, (*export_files, *table, *pictures))

    def _compute(self) -> TreeNode:
        return tree_of(self.export)

    def _write(self, result: TreeNode, folder: Path) -> None:
        _show(result, folder / PAGE, self.settings)
