"""``hiertree labels diff`` and ``tree``: exports, compared and shown."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..labels.export.differences import compare_exports, describe_differences
from ..labels.export.tree_page.step import TreeSettings, show_tree
from .options import ANY_PATH, FILE, OUT_FOLDER, json_option, settings_options

force_option = click.option("--force", is_flag=True, help="Replace files that hiertree did not write.")


@click.command()
@click.argument("a", type=ANY_PATH)
@click.argument("b", type=ANY_PATH)
@click.option("--out", type=FILE, help="CSV of the landmarks that differ.")
@force_option
@json_option
def diff(a: Path, b: Path, out: Path | None, force: bool, as_json: bool) -> None:
    """Say what changed from A to B, two exports: landmarks, labels, supercategories, kinds.

    A and B are folders made by 'labels export' or 'labels build', or tables in GLDv2's published columns.
    """
    found = compare_exports(a, b, table=out, force=force)
    click.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else describe_differences(found))


@click.command()
@click.argument("export", type=OUT_FOLDER)
@click.option("--out", type=FILE, required=True, help="HTML file; a drawing, .svg and .png, is put beside it.")
@settings_options("settings", TreeSettings)
@force_option
def tree(export: Path, out: Path, settings: TreeSettings, force: bool) -> None:
    """Show the tree of EXPORT as a page to explore and search, and as a drawing.

    EXPORT is a folder made by 'labels export' or 'labels build'. The page is one file that needs nothing else.
    """
    show_tree(export, out=out, settings=settings, force=force)
    click.echo(f"written to {out}")
