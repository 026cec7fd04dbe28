"""``hiertree labels tree``: the page, and the drawing beside it."""

from __future__ import annotations

from pathlib import Path

from ...fill.image_folder import ImageFolder
from ...folders import AnyPath
from .content import tree_of
from .drawing import draw_tree
from .page import pictured, write_tree_page

TITLE = "Landmark labels"


def show_tree(
    export: AnyPath,
    *,
    out: AnyPath,
    title: str = TITLE,
    images: AnyPath | None = None,
    image_table: AnyPath | None = None,
) -> None:
    """Write ``out``, a page, and the drawing of its name as SVG and PNG.

    Args:
        export: a folder made by ``labels export`` or ``labels build``.
        out: the HTML file.
        title: of the page.
        images: a folder of landmarks' images.
        image_table: which image shows which landmark.

    Raises:
        TableError: the folder's files cannot be read.
        OptionError: no such folder of images.
        ImageError: an image does not decode.
    """
    root = tree_of(export)
    folder = None if images is None else ImageFolder(str(images), image_table)
    write_tree_page(out, root, title=title, images=folder)
    draw_tree(Path(out).with_suffix(""), root, levels=root.depth - 1)


def example_images(export: AnyPath, images: AnyPath, image_table: AnyPath | None = None) -> list[Path]:
    """The images that the page of an export shows; arguments and errors as for :func:`show_tree`."""
    return list(pictured(tree_of(export), ImageFolder(str(images), image_table)).values())
