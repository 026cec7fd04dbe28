"""``hiertree labels tree``: an export as a page that unfolds, with a drawing of the same name as SVG.

The page shows kinds, groups, supercategories and labels with their counts, and examples of landmarks. The drawing has
a column for each level and a block for each node, as high as the number of its landmarks.
"""

from __future__ import annotations

import html
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
from ..encode.place_nouns import NATURAL
from ..landmark_images import image_folder
from ..landmarks import SEPARATOR, unique_ids
from ..settings import ImageFolderSettings, TreeSettings
from ..steps import LabelStep, StepRecord
from ..texts import landmark_name
from .step import TREE, HierarchicalRow, export_folder, hierarchical_table

EXAMPLES = 6
_LEVELS = {"natural_or_human_made": "kind", "hierarchical_label": "supercategory"}
Example = tuple[str, str]  # a landmark's id and name
_COLUMN, _HEIGHT, _SMALLEST = 190, 800, 9.5  # of the drawing, in pixels; a lower block has no name
_PALER = (0.95, 0.75, 0.55, 0.4, 0.3)
_NATURAL_COLOR, _HUMAN_MADE_COLOR = "#2c7a4b", "#5747b8"
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
    children = [_node(child, levels[1:], child_rows, max_examples) for child, child_rows in rows_of_child.items()]
    sorted_children = sorted(children, key=lambda child: (-child.count, child.name))
    examples = tuple(example for _, example in rows[:max_examples])
    return TreeNode(name, levels[0], len(rows), tuple(sorted_children), examples)


def level_sizes(root: TreeNode) -> dict[str, int]:
    """How many nodes each level below the root has, coarse → fine."""
    sizes = Counter(node.level for node in root.below())
    del sizes[root.level]
    return dict(sizes)


def draw_tree(root: TreeNode) -> str:
    """An SVG down to the supercategories: a column for each level, and blocks as high as their landmarks are many."""
    width = _COLUMN * (len(level_sizes(root)) - 1)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" font-family="sans-serif" '
    lines, start = [svg + 'font-size="9" dominant-baseline="central">'], 0
    for kind in root.children:
        color = _NATURAL_COLOR if kind.name == NATURAL else _HUMAN_MADE_COLOR
        lines += _blocks(kind, depth=0, start=start, color=color, scale=_HEIGHT / root.count)
        start += kind.count
    return "\n".join([*lines, "</svg>\n"])


def _blocks(node: TreeNode, *, depth: int, start: int, color: str, scale: float) -> Iterator[str]:
    """The blocks of a node and of those below it, labels apart."""
    if not node.children:
        return
    left, top, height = depth * _COLUMN, start * scale, node.count * scale
    fill = f'fill="{color}" fill-opacity="{_PALER[min(depth, len(_PALER) - 1)]}" stroke="white"'
    yield f'<rect x="{left}" y="{top:.2f}" width="{_COLUMN - 3}" height="{height:.2f}" {fill}/>'
    if height >= _SMALLEST:
        name = node.name if len(node.name) <= 34 else f"{node.name[:33]}…"
        ink = "black" if depth else "white"
        text = f"{html.escape(name)}  {node.count}"
        yield f'<text x="{left + 6}" y="{top + height / 2:.2f}" fill="{ink}">{text}</text>'
    for child in node.children:
        yield from _blocks(child, depth=depth + 1, start=start, color=color, scale=scale)
        start += child.count


def example_pictures(root: TreeNode, settings: ImageFolderSettings) -> dict[str, Path]:
    """The images of examples, up to six of each supercategory, as far as there are any.

    Raises:
        OptionError: no such folder.
    """
    folder = image_folder(settings, follow_links=True)
    if folder is None:
        return {}
    nodes = (node for node in root.below() if node.children and not node.children[0].children)
    landmarks = dict.fromkeys(landmark for node in nodes for landmark, _ in node.examples)
    return {landmark: path for landmark in landmarks if (path := folder.find(landmark)) is not None}


DEFAULTS = TreeSettings()


def show_tree(export: AnyPath, *, out: AnyPath, settings: TreeSettings = DEFAULTS) -> None:
    """Write ``out``, a page, and the drawing of the same name; the same export and images give the same bytes.

    Args:
        export: a folder made by ``labels export`` or ``labels build``.
        out: the HTML file.
        settings: what the page shows.
    """
    _show(tree_of(export), Path(out), settings)


def _show(root: TreeNode, out: Path, settings: TreeSettings) -> None:
    pictures = {
        landmark: data_uri(decode(path, name=str(path))) for landmark, path in example_pictures(root, settings).items()
    }
    page = {"title": settings.title, "root": root, "levels": level_sizes(root), "pictures": pictures}
    write_text(out, fill_page(__package__, page, scripted=True))
    write_text(out.with_suffix(".svg"), draw_tree(root))


@dataclass(frozen=True)
class TreeStep(LabelStep[TreeNode]):
    """A folder of the page, ``index.html``, and the drawing."""

    export: AnyPath
    settings: TreeSettings

    def record(self) -> StepRecord:
        """What the page is made from, the images that it shows among it."""
        settings = self.settings
        pictures = () if settings.images is None else tuple(example_pictures(tree_of(self.export), settings).values())
        table = () if settings.image_table is None else (settings.image_table,)
        export_files = (hierarchical_table(self.export), export_folder(self.export) / TREE)
        return StepRecord(COMMAND, {"title": settings.title}, (*export_files, *table, *pictures))

    def _compute(self) -> TreeNode:
        return tree_of(self.export)

    def _write(self, result: TreeNode, folder: Path) -> None:
        _show(result, folder / PAGE, self.settings)
