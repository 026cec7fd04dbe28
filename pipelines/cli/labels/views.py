"""``hiertree labels diff`` and ``tree``: exports, compared and shown."""

from __future__ import annotations

from pathlib import Path

import click

from ...labels.export.differences import compare_exports, describe_differences
from ...labels.export.tree_page import TreeSettings, show_tree
from ..checked_paths import INPUT_FOLDER, INPUT_PATH, OUTPUT_FILE, DeclaredPath, command
from ..options import json_option, print_json, settings_options

PAGE = DeclaredPath("output", "file", siblings=(".svg", ".png"))


@command(example="hiertree labels diff proposed exported")
@click.argument("a", type=INPUT_PATH)
@click.argument("b", type=INPUT_PATH)
@click.option("--out", type=OUTPUT_FILE, help="CSV of the landmarks that differ.")
@json_option
def diff(a: Path, b: Path, out: Path | None, as_json: bool) -> None:
    """Say what changed from A to B, two exports: landmarks, labels, supercategories, kinds.

    A and B are folders made by 'labels export' or 'labels build', or tables in GLDv2's published columns.
    """
    found = compare_exports(a, b, table=out)
    print_json(found) if as_json else click.echo(describe_differences(found))


@command(example="hiertree labels tree exported --out tree.html")
@click.argument("export", type=INPUT_FOLDER)
@click.option("--out", type=PAGE, required=True, help="HTML file; a drawing, .svg and .png, is put beside it.")
@settings_options("settings", TreeSettings)
def tree(export: Path, out: Path, settings: TreeSettings) -> None:
    """Show the tree of EXPORT as a page to explore and search, and as a drawing.

    EXPORT is a folder made by 'labels export' or 'labels build'. The page is one file that needs nothing else.
    """
    show_tree(export, out=out, settings=settings)
