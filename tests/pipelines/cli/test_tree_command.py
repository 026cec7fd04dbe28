"""``hiertree tree``: hierarchies with defects become trees that the other commands read, and errors name options."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import click
import networkx as nx
import pytest
from printed_commands import status_of

from hiertree import LabelTree, options
from hiertree.pipelines.cli.tree import tree
from hiertree.tree import graphs, label_rows

HYPERNYMS = (("dog", "pet"), ("dog", "carnivore"), ("poodle", "dog"), ("wolf", "carnivore"), ("carnivore", "mammal"),
             ("mammal", "animal"), ("pet", "animal"))  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("is_a.txt").write_text("".join(f"{child} {parent}\n" for child, parent in HYPERNYMS))
    Path("is_a.csv").write_text("id,of,is\n" + "".join(f"1,{child},{parent}\n" for child, parent in HYPERNYMS))
    Path("reversed.txt").write_text("lake natural\npeak natural\n")
    Path("forest.txt").write_text("pet dog\nplant oak\n")
    Path("gaps.csv").write_text("image,kind,type\na.jpg,natural,\nb.jpg,natural,lake\nc.jpg,built,church\n")
    Path("repeats.csv").write_text("kind,type\nnatural,lake\nnatural,lake\n")
    Path("homonyms.csv").write_text("kind,type,id\nnatural,stone,1\nbuilt,stone,2\n")
    Path("two_paths.csv").write_text("kind,type\nnatural,cave\nbuilt,cave\n")
    nx.write_graphml(nx.DiGraph([("r", "x"), ("x", "a"), ("x", "b"), ("r", "c")]), "deep.graphml")
    return tmp_path


def run(typed):
    return status_of(*typed.split())


@pytest.mark.parametrize("source", ["is_a.txt", "is_a.csv --edges of,is"])
def test_a_graph_with_several_parents_becomes_a_table_that_python_reads_as_the_same_tree(folder, source):
    options = (
        "--multiple-parents shortest --inner-leaves dog --uneven pad --direction child-parent --levels kind,type,id"
    )
    if "--edges" in source:
        options = options.removesuffix(" --levels kind,type,id")
    assert run(f"tree {source} {options} --out labels.csv") == 0
    dag = LabelTree.from_edges(
        HYPERNYMS, direction="child-parent", multiple_parents="shortest", inner_leaves=["dog"], uneven="pad"
    )
    names = ["level_1", "level_2", "level_3"] if "--edges" in source else ["kind", "type", "id"]
    tree_of_table = LabelTree.from_csv("labels.csv", levels=names)
    assert tree_of_table.leaves == dag.leaves
    assert (tree_of_table.paths(dag.leaves) == dag.paths(dag.leaves)).all()


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("reversed.txt", "--direction child-parent"),
        ("is_a.txt --direction child-parent", "--multiple-parents first"),
        ("forest.txt", "--forest join"),
        ("gaps.csv --levels kind,type,image", "--gaps below"),
        ("gaps.csv --levels kind,type", "--uneven pad"),
        ("repeats.csv --levels kind,type", "--repeats merge"),
        ("homonyms.csv --levels kind,type,id --homonyms error", "--homonyms separate"),
        ("two_paths.csv --levels kind,type", "--leaf path"),
        ("deep.graphml", "--uneven pad"),
    ],
)
def test_the_error_for_each_defect_names_the_option_that_mends_it(folder, source, option, capsys):
    assert run(f"tree {source} --out tree.json") == 2
    message = capsys.readouterr().err
    name, _, value = option.partition(" ")
    assert name in message
    assert value in message
    assert "='" not in message
    assert not Path("tree.json").exists()
    assert run(f"tree {source} {option} --out tree.json") == 0
    assert LabelTree.from_json("tree.json").num_levels > 0


@pytest.mark.parametrize(
    "typed",
    [
        "is_a.txt --gaps above",
        "is_a.txt --edges of,is",
        "gaps.csv --levels kind,type --forest join",
        "gaps.csv",
        "gaps.csv --levels kind --edges kind,type",
        "is_a.csv --edges of",
        "deep.graphml --repeats merge",
    ],
)
def test_options_of_other_files_are_refused(folder, typed, capsys):
    assert run(f"tree {typed} --out tree.json") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_format_that_cannot_be_written_is_refused_before_anything_is_read(folder, capsys):
    assert run("tree absent.txt --out tree.xlsx") == 2
    assert run("tree is_a.txt --out tree.xlsx") == 2
    assert ".csv, .json" in capsys.readouterr().err


def test_a_table_with_gaps_can_be_filled_for_the_other_commands(folder, capsys):
    assert run("qrels gaps.csv --out qrels.txt") == 2
    assert "--gaps above or below to hiertree tree" in capsys.readouterr().err
    assert run("tree gaps.csv --levels kind,type,image --gaps above --out whole.csv") == 0
    assert run("qrels whole.csv --out qrels.txt") == 0
    assert "a.jpg 0 b.jpg 1" in Path("qrels.txt").read_text()


def test_a_file_that_is_no_table_of_labels_leads_to_the_command(folder, capsys):
    assert run("qrels is_a.txt --out qrels.txt") == 2
    assert "hiertree tree" in capsys.readouterr().err


def test_nodes_of_one_label_are_refused_with_the_option_that_keeps_both(folder, capsys):
    graph = nx.DiGraph([("r", "Q1"), ("r", "Q2"), ("Q1", "a"), ("Q2", "b")])
    nx.set_node_attributes(graph, {"Q1": "bank", "Q2": "bank"}, "label")
    nx.write_graphml(graph, "banks.graphml")
    assert run("tree banks.graphml --out labels.csv") == 2
    assert "pass --homonyms rename" in capsys.readouterr().err
    assert run("tree banks.graphml --homonyms rename --levels kind,id --out labels.csv") == 0
    assert Path("labels.csv").read_text() == "kind,id\nbank (Q1),a\nbank (Q2),b\n"


@pytest.mark.parametrize("attribute", ["label", "name"])
def test_graphml_of_other_programs_is_read_by_networkx(folder, attribute, capsys):
    """Gephi, yEd and Cytoscape write labels, igraph names; types of attributes are those of the file."""
    graph = nx.DiGraph([("n0", "n1"), ("n0", "n2"), ("n1", "n3"), ("n2", "n4")])
    nx.set_node_attributes(graph, {"n0": 0, "n1": 17, "n2": 5, "n3": 2, "n4": 3}, attribute)
    nx.write_graphml(nx.MultiDiGraph(graph), "typed.graphml")
    assert run("tree typed.graphml --levels kind,id --out labels.csv") == 0
    assert Path("labels.csv").read_text() == "kind,id,leaf_id\n17,2,n3\n5,3,n4\n"
    nx.write_graphml(nx.Graph([("pet", "dog")]), "typed.graphml")
    assert run("tree typed.graphml --out labels.csv --force") == 2
    assert "typed.graphml: the graph is undirected" in capsys.readouterr().err
    for text in ("", "<graphml>", "<html></html>", "{}"):
        Path("bad.graphml").write_text(text)
        assert run("tree bad.graphml --out bad.csv") == 2
        assert "bad.graphml cannot be read" in capsys.readouterr().err


def test_the_choices_are_those_of_python():
    offered = {param.name: param.type.choices for param in tree.params if isinstance(param.type, click.Choice)}
    declared = {
        "direction": graphs.Direction,
        "multiple_parents": graphs.MultipleParents,
        "forest": graphs.Forest,
        "uneven": options.Uneven,
        "gaps": label_rows.Gaps,
        "homonyms": Literal[label_rows.Homonyms, graphs.SiblingHomonyms],
        "repeats": label_rows.Repeats,
        "leaf": label_rows.LeafKey,
    }
    assert {name: set(choices) for name, choices in offered.items()} == {
        name: set(get_args(literal)) for name, literal in declared.items()
    }
