"""The command that reads a hierarchy and writes a tree: ``hiertree tree``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from hiertree.errors import HiertreeError

from .checked_paths import INPUT_FILE, OUTPUT_FILE, command
from .option_values import NAMES

_POLICIES = {
    "direction": (("parent-child", "child-parent"), "Which end of an edge comes first."),
    "multiple_parents": (("error", "first", "shortest"), "Keep the first parent, or the one nearest to a root."),
    "forest": (("error", "join"), "Join several roots: they are the labels of level 1."),
    "uneven": (("error", "pad", "truncate"), "Leaves of several depths: repeat their labels, or cut."),
    "gaps": (("error", "above", "below"), "Fill an empty cell of a table with the label above or below it."),
    "homonyms": (("separate", "error"), "A text under two parents: two nodes, or an error."),
    "repeats": (("error", "merge"), "Merge equal rows of a table."),
    "leaf": (("label", "path"), "A leaf is its last label, or its whole path."),
}
_IN_PYTHON = re.compile(rf"\b({'|'.join([*_POLICIES, 'levels', 'edges'])})=('[^']*'(?: or '[^']*')?)")


def _policy_options(function: Any) -> Any:
    """An option of each policy; one that is not given is left to the reader of the file."""
    for name, (choices, text) in reversed(_POLICIES.items()):
        help_text = f"{text}  [default: {choices[0]}]"
        function = click.option(f"--{name.replace('_', '-')}", name, type=click.Choice(choices), help=help_text)(
            function
        )
    return function


@command(example="hiertree tree edges.txt --direction child-parent --multiple-parents shortest --out labels.csv")
@click.argument("source", type=INPUT_FILE)
@click.option("--out", type=OUTPUT_FILE, required=True, help="The tree: .csv, .json, .graphml or .nwk.")
@click.option("--levels", type=NAMES, metavar="A,B,…", help="Columns of a table, coarse → fine; else names for levels.")
@click.option("--edges", type=NAMES, metavar="PARENT,CHILD", help="Instead, the two columns of a table of edges.")
@_policy_options
@click.option("--inner-leaves", type=NAMES, metavar="A,B,…", help="Inner nodes that items carry too, or 'all'.")
@click.option("--no-inner-names", is_flag=True, help="Newick names hold the support of branches: leave them out.")
def tree(source: Path, out: Path, no_inner_names: bool, inner_leaves: tuple[str, ...] | None, **options: Any) -> None:
    """Turn the hierarchy in SOURCE into a tree: a table of labels for the other commands, or another format.

    SOURCE is a CSV or Parquet table with --levels or --edges, GraphML, Newick (.nwk), a tree.json, or a text file with
    a parent and its child on each line. Each defect is an error, unless its option says what to do.
    """
    from ..tree_files import convert_tree

    chosen = {name: value for name, value in options.items() if value is not None}
    if inner_leaves is not None:
        chosen["inner_leaves"] = "all" if inner_leaves == ("all",) else inner_leaves
    if no_inner_names:
        chosen["inner_names"] = False
    try:
        made = convert_tree(source, out, **chosen)
    except HiertreeError as error:
        given, expected, remedy = map(_with_options, (error.given, error.expected, error.remedy))
        raise type(error)(given or "", expected=expected, remedy=remedy) from error
    for name, size in zip(made.level_names, made.level_sizes, strict=True):
        click.echo(f"{name}: {size}")


def _with_options(text: str | None) -> str | None:
    """A message for Python, with the names of this command's options.

    >>> _with_options("pass multiple_parents='first' or 'shortest' to keep one of them")
    'pass --multiple-parents first or shortest to keep one of them'
    """
    if text is None:
        return None
    named = _IN_PYTHON.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2].replace(chr(39), '')}", text)
    return named.replace("inner_names=False", "--no-inner-names")
