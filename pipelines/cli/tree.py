"""``hiertree tree``: a hierarchy in any format that hiertree reads, written as a tree without defects."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hiertree.errors import OptionError
from hiertree.io.reading import naming_file, reading_file

from .checked_paths import INPUT_FILE, OUTPUT_FILE, as_flag, command
from .options import NAMES, choice, option

if TYPE_CHECKING:
    from hiertree import LabelTree

_POLICIES = {
    "direction": (("parent-child", "child-parent"), "Which end of an edge comes first."),
    "multiple_parents": (("error", "first", "shortest"), "Keep the first parent, or the one nearest to a root."),
    "forest": (("error", "join"), "Join several roots: they are the labels of level 1."),
    "uneven": (
        ("error", "pad", "truncate", "unknown"),
        "Leaves of several depths: repeat their labels, cut, or −1.",
    ),
    "gaps": (("error", "above", "below"), "Fill an empty cell of a table with the label above or below it."),
    "homonyms": (
        ("separate", "error", "rename"),
        "Equal labels under two parents: two nodes, or an error; of two children in a graph: an error, or rename.",
    ),
    "repeats": (("error", "merge"), "Merge equal rows of a table."),
    "leaf": (("label", "path"), "A leaf is its last label, or its whole path."),
}
TREE_SUFFIXES = (".json", ".graphml")  # beside tables and texts
_WRITERS = {".csv": "to_csv", ".json": "to_json"}


def _policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option of each policy; one that is not given is left to the reader of the file."""
    for name, (choices, text) in reversed(_POLICIES.items()):
        function = choice(as_flag(name), choices, f"{text}  [default: {choices[0]}]")(function)
    return function


@command(example="hiertree tree edges.txt --direction child-parent --multiple-parents shortest --out labels.csv")
@click.argument("source", type=INPUT_FILE)
@option("--out", OUTPUT_FILE, "The tree: .csv or .json.", required=True)
@option("--levels", NAMES, "Columns of a table, coarse → fine; else names for levels.")
@option("--edges", NAMES, "Instead, the two columns of a table of edges.", metavar="PARENT,CHILD")
@_policy_options
@option("--inner-leaves", NAMES, "Inner nodes that items carry too, or 'all'.")
@option("--separator", str, "What divides the last column, or the lines of a text, into levels, as ' > '.")
def tree(
    source: Path,
    out: Path,
    levels: tuple[str, ...] | None,
    edges: tuple[str, ...] | None,
    inner_leaves: tuple[str, ...] | None,
    **policies: Any,
) -> None:
    """Turn the hierarchy in SOURCE into a tree: a table of labels for the other commands, or another format.

    SOURCE is a table (CSV, Parquet, spreadsheet) with --levels or --edges, GraphML, a tree.json, or a text file with a
    parent and its child, or with a path, on each line, as Google and Shopify publish their categories. Each defect is
    an error, unless its option says what to do.
    """
    write = _WRITERS.get(out.suffix.lower())
    if write is None:
        raise OptionError(f"out={str(out)!r}", expected=f"a name that ends in {', '.join(_WRITERS)}")
    options = {name: value for name, value in policies.items() if value is not None}
    if inner_leaves is not None:
        options["inner_leaves"] = "all" if inner_leaves == ("all",) else inner_leaves
    with naming_file(source):
        reader = _reader(source, levels or (), edges or (), options)
        _check_options(options, reader, source)
        label_tree = reader(**options)
    getattr(label_tree, write)(out)
    for name, size in zip(label_tree.level_names, label_tree.level_sizes, strict=True):
        click.echo(f"{name}: {size}")


def _reader(
    source: Path, levels: tuple[str, ...], edges: tuple[str, ...], options: dict[str, Any]
) -> Callable[..., LabelTree]:
    """What makes the tree, given the policies; its signature says which apply to the file's format.

    The separator of a text file is taken out of the options.
    """
    from hiertree import LabelTree
    from hiertree.io.tables import TABLE_SUFFIXES, read_table, table_suffix
    from hiertree.tree import formats

    suffix = table_suffix(source)
    names: dict[str, Any] = {"level_names": levels} if levels else {}
    if suffix in TABLE_SUFFIXES and (suffix != ".tsv" or levels or edges):
        if bool(levels) == bool(edges) or len(edges) not in (0, 2):
            problem = f"the table {source.name} with levels={','.join(levels)!r} and edges={','.join(edges)!r}"
            raise OptionError(problem, expected="columns of levels, coarse → fine, or two of edges, parent and child")
        if levels:
            return partial(LabelTree.from_csv, source, levels=levels)
        table = read_table(source, required=edges, needs_rows=True)
        return partial(LabelTree.from_edges, formats.edge_columns(table, edges))
    if edges:
        raise OptionError(f"edges={','.join(edges)!r} of {source.name}", expected="columns of a CSV or Parquet table")
    if suffix == ".json":
        _check_options(names, LabelTree.from_json, source)
        return partial(LabelTree.from_json, source)
    if suffix == ".graphml":
        import networkx as nx

        with reading_file(source, expected="a GraphML file"):
            graph: Any = nx.read_graphml(source)
        return partial(LabelTree.from_networkx, graph, **names)
    separator = options.pop("separator", None)
    if separator is not None or formats.is_taxonomy(source):
        pairs, labels = formats.read_taxonomy(source, separator=separator)
        return partial(LabelTree.from_edges, pairs, labels=labels, **names)
    return partial(LabelTree.from_edges, formats.read_edges(source), **names)


def _check_options(options: Collection[str], reader: Callable[..., LabelTree], source: Path) -> None:
    """Refuse options that do not apply to the file's format."""
    parameters = signature(reader).parameters
    if misfits := [as_flag(name) for name in options if name not in parameters]:
        choices = [as_flag(name) for name in (*_POLICIES, "inner_leaves", "separator", "levels") if name in parameters]
        problem = f"{', '.join(misfits)} for {source.name}"
        raise OptionError(problem, expected=f"some of {', '.join(choices)}" if choices else "no option")
