"""``hiertree labels tree``: an export as a page, with a drawing of the same name as SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...fill.image_folder import ImageFolder
from ...folders import AnyPath, StepRecord
from ...settings import Settings
from ..tables import TREE, export_folder, hierarchical_table
from .content import tree_of
from .drawing import draw_tree
from .page import pictured, write_tree_page

COMMAND = "hiertree labels tree"
PAGE = "index.html"


class TreeSettings(Settings):
    """What the page shows."""

    title: Annotated[str, Field(description="Of the page.")] = "Landmark labels"
    images: Annotated[
        Path | None, Field(description="Images of landmarks: <landmark id>.jpg, or a folder for each landmark.")
    ] = None
    image_table: Annotated[
        Path | None, Field(description="Table of image ids and landmark_id, where files bear the images' ids.")
    ] = None

    def image_folder(self) -> ImageFolder | None:
        """Where the images of landmarks are.

        Raises:
            OptionError: no such folder.
        """
        return None if self.images is None else ImageFolder(str(self.images), self.image_table)


DEFAULTS = TreeSettings()


def show_tree(export: AnyPath, *, out: AnyPath, settings: TreeSettings = DEFAULTS) -> None:
    """Write ``out``, a page, and the drawing of the same name.

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
    write_tree_page(out, root, title=settings.title, images=settings.image_folder())
    draw_tree(Path(out).with_suffix(""), root, levels=root.depth - 1)


def tree_step(export: AnyPath, *, out: AnyPath, settings: TreeSettings = DEFAULTS) -> None:
    """Make a folder of the page, ``index.html``, and the drawing; arguments and errors as for :func:`show_tree`."""
    with tree_record(export, settings=settings).writing(out) as folder:
        show_tree(export, out=folder / PAGE, settings=settings)


def tree_record(export: AnyPath, *, settings: TreeSettings) -> StepRecord:
    """What the page is made from, the images that it shows among it."""
    images = settings.image_folder()
    pictures = () if images is None else tuple(pictured(tree_of(export), images).values())
    table = () if settings.image_table is None else (settings.image_table,)
    read = (hierarchical_table(export), export_folder(export) / TREE)
    return StepRecord(COMMAND, {"title": settings.title}, (*read, *table, *pictures))
