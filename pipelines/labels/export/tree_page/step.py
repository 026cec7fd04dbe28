"""``hiertree labels tree``: an export as a page that unfolds, with a drawing of the same name as SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hiertree.io.files import write_text

from ....pages import data_uri, fill_page
from ...fill.image_folder import ImageFolderSettings
from ...folders import AnyPath, StepRecord
from ..tables import TREE, export_folder, hierarchical_table
from .content import TreeNode, level_sizes, tree_of
from .drawing import draw_tree

COMMAND = "hiertree labels tree"
PAGE = "index.html"


class TreeSettings(ImageFolderSettings):
    """What the page shows."""

    title: Annotated[str, Field(description="Title of the page.")] = "Landmark labels"

    def pictured(self, root: TreeNode) -> dict[int, Path]:
        """The images of examples, up to six of each supercategory, as far as there are any.

        Raises:
            OptionError: no such folder.
        """
        folder = self.folder()
        if folder is None:
            return {}
        nodes = (node for node in root.below() if node.children and not node.children[0].children)
        wanted = sorted({landmark for node in nodes for landmark, _ in node.examples})
        return {landmark: path for landmark in wanted if (path := folder.find(landmark)) is not None}


DEFAULTS = TreeSettings()


def show_tree(export: AnyPath, *, out: AnyPath, settings: TreeSettings = DEFAULTS) -> None:
    """Write ``out``, a page, and the drawing of the same name; the same export and images give the same bytes.

    Args:
        export: a folder made by ``labels export`` or ``labels build``.
        out: the HTML file.
        settings: what the page shows.

    Raises:
        TableError: the files of ``export`` cannot be read.
        OptionError: no such folder of images.
        ImageError: an image does not decode.
    """
    root = tree_of(export)
    pictures = {landmark: _embedded(path) for landmark, path in settings.pictured(root).items()}
    package = "hiertree.pipelines.labels.export.tree_page"
    page = {"title": settings.title, "root": root, "levels": level_sizes(root), "pictures": pictures}
    write_text(out, fill_page(package, page, scripted=True))
    draw_tree(Path(out).with_suffix(""), root)


def tree_step(export: AnyPath, *, out: AnyPath, settings: TreeSettings = DEFAULTS) -> None:
    """Make a folder of the page, ``index.html``, and the drawing; arguments and errors as for :func:`show_tree`."""
    with tree_record(export, settings=settings).writing(out) as folder:
        show_tree(export, out=folder / PAGE, settings=settings)


def tree_record(export: AnyPath, *, settings: TreeSettings) -> StepRecord:
    """What the page is made from, the images that it shows among it."""
    pictures = () if settings.images is None else tuple(settings.pictured(tree_of(export)).values())
    table = () if settings.image_table is None else (settings.image_table,)
    read = (hierarchical_table(export), export_folder(export) / TREE)
    return StepRecord(COMMAND, {"title": settings.title}, (*read, *table, *pictures))


def _embedded(path: Path) -> str:
    from hiertree.datasets.readers.images import decode

    return data_uri(decode(path, name=str(path)))
