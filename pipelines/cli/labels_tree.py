"""``hiertree labels tree``."""

from __future__ import annotations

from pathlib import Path

import click

from .checked_paths import INPUT_FILE, INPUT_FOLDER, DeclaredPath, command


@command()
@click.argument("export", type=INPUT_FOLDER)
@click.option(
    "--out",
    type=DeclaredPath("output", "file", siblings=(".svg", ".png")),
    required=True,
    help="HTML file; a drawing, .svg and .png, is put beside it.",
)
@click.option("--images", type=INPUT_FOLDER, help="Images of landmarks: <landmark id>.jpg, or a folder each.")
@click.option(
    "--image-table", type=INPUT_FILE, help="Table of image ids and landmark_id, where files bear the images' ids."
)
@click.option("--title", default="Landmark labels", show_default=True, help="Of the page.")
def tree(export: Path, out: Path, images: Path | None, image_table: Path | None, title: str) -> None:
    """Show the tree of EXPORT as a page to wander through and search, and as a drawing.

    EXPORT is a folder made by 'labels export' or 'labels build'. The page is one file that needs nothing else.
    """
    from ..labels.export.tree_page import show_tree

    show_tree(export, out=out, title=title, images=images, image_table=image_table)
    click.echo(f"written to {out}")
