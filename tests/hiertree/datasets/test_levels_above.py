"""Another tree over the classes of a data set: ready ones, tables, frames and graphs."""

from __future__ import annotations

from importlib import resources

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from benchmark_files import write_benchmark, write_image

from hiertree import LabelTree, datasets
from hiertree.datasets import ImageDataset, load_synthetic, place_above
from hiertree.errors import HiertreeError, OptionError
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.reading import load_recipe

ORDERS = "order,family,species\nB,b,100.Bird_100\nA,a,102.Bird_102\nA,aa,101.Bird_101\nB,b,99.Bird_99\nC,c,unused\n"


@pytest.fixture
def cub(tmp_path):
    write_benchmark("cub", tmp_path / "cub")
    (tmp_path / "orders.csv").write_text(ORDERS.replace("99.", "099."))
    return tmp_path / "cub"


def graph_of(table):
    graph = nx.DiGraph()
    for order, family, species in pd.read_csv(table).itertuples(index=False):
        graph.add_edges_from([("birds", order), (order, family), (family, species)])
    return graph


@pytest.mark.parametrize("kind", ["table", "text", "frame", "graph", "tree"])
def test_levels_of_a_table_a_frame_or_a_graph_are_above_the_classes(cub, kind):
    table = cub.parent / "orders.csv"
    above = {
        "table": table,
        "text": str(table),
        "frame": pd.read_csv(table),
        "graph": graph_of(table),
        "tree": LabelTree.from_csv(table, levels=["order", "family", "species"]),
    }[kind]
    flat = {split: datasets.load("cub", cub, split, verify="structure") for split in ("train", "test")}
    train, test = (datasets.load("cub", cub, split, verify="structure", above=above) for split in ("train", "test"))
    upper = ("level_1", "level_2") if kind == "graph" else ("order", "family")
    assert train.tree.level_names == test.tree.level_names == (*upper, "species")
    assert [train.tree.labels_of(path) for path in train.paths[::2]] == [
        ("B", "b", "099.Bird_99"),
        ("B", "b", "100.Bird_100"),
    ]
    assert [test.tree.labels_of(path)[:2] for path in test.paths[::2]] == [("A", "aa"), ("A", "a")]
    for split, dataset in (("train", train), ("test", test)):  # ids of classes stay, and mean the same in both splits
        assert np.array_equal(dataset.paths[:, 2], flat[split].paths[:, 0])
    assert test.tree.labels_of(train.paths[0]) == train.tree.labels_of(train.paths[0])
    assert (flat["test"].protocol, test.protocol) == ("cub", None)
    assert test.drop_absent_classes().tree.level_sizes == (1, 2, 2)


def test_levels_above_replace_those_of_a_tree():
    train = load_synthetic("train", families=2, kinds=2, instances=2, images=1)
    rows = pd.DataFrame([("odd" if index % 2 else "even", leaf) for index, leaf in enumerate(train.tree.leaves)])
    dataset = place_above(train, rows.set_axis(["parity", "leaf"], axis=1))
    assert dataset.tree.level_names == ("parity", "instance")
    assert dataset.paths[:, 0].tolist() == [index % 2 for index in range(len(train))]


def test_a_recipe_names_what_is_above(tmp_path):
    for index, name in enumerate(("lake", "peak", "church", "tower")):
        for split in ("train", "test"):
            write_image(tmp_path / "photos" / split / name / "1.jpg", index)
    (tmp_path / "kinds.csv").write_text("kind,type\nnatural,lake\nnatural,peak\nbuilt,church\nbuilt,tower\n")
    keys = [f"data={{name: folder, root: {tmp_path / 'photos'}}}", f"data.above={tmp_path / 'kinds.csv'}"]
    recipe = load_recipe("synthetic-happier", keys)
    assert load_split(recipe, "test").tree.level_sizes == (2, 4)
    flat = load_recipe("synthetic-happier", keys[:1])
    assert load_split(flat, "test").tree.level_sizes == (4,)
    assert flat.fingerprint() != recipe.fingerprint()


@pytest.mark.parametrize(
    ("above", "message"),
    [
        ("nowhere.csv", r"above='nowhere\.csv' for cub: expected an existing table or 'order-family'"),
        (
            pd.DataFrame({"order": ["A"], "species": ["099.Bird_99"]}),
            r"3 of 4 classes of cub are not in it, '100\.Bird",
        ),
        (nx.DiGraph([("birds", "099.Bird_99"), ("x", "y")]), "roots|root"),
        (pd.DataFrame({"order": ["A", "B"], "species": ["099.Bird_99"] * 2}), "one path for every leaf|has the path"),
    ],
)
def test_what_does_not_hold_every_class_is_refused(cub, above, message):
    with pytest.raises(HiertreeError, match=message):
        datasets.load("cub", cub, "test", verify="structure", above=above)


def test_a_label_of_several_classes_is_refused():
    tree = LabelTree.from_paths([("a", "1"), ("b", "1")], leaf="path")
    images = load_synthetic("train", families=1, kinds=1, instances=2, images=1).images
    dataset = ImageDataset(
        name="own", split="all", tree=tree, paths=np.array([[0, 0], [1, 1]], np.int32), images=images
    )
    with pytest.raises(OptionError, match="a label of own names several classes"):
        place_above(dataset, pd.DataFrame({"kind": ["x"], "leaf": ["1"]}))


def test_ready_trees_hold_every_class_as_the_data_set_names_it():
    trees = resources.files("hiertree.datasets.benchmarks") / "trees"
    birds, cars = (pd.read_csv(str(trees / name)) for name in ("cub-order-family.csv", "cars-type.csv"))
    assert birds["species"].str.fullmatch(r"\d{3}\.[A-Za-z_]+").all()
    assert birds["species"].str[:3].astype(int).tolist() == list(range(1, 201))
    assert (birds["order"].nunique(), birds["family"].nunique()) == (13, 38)  # as Chang et al. (CVPR 2021) count them
    assert birds.groupby("family")["order"].nunique().max() == 1
    assert (len(cars), cars["model"].nunique(), cars["type"].nunique()) == (196, 196, 9)
    assert cars["model"].str.fullmatch(r"[A-Za-z].* (19|20)\d\d").all()


def test_orders_of_birds_are_those_of_wikispecies(shared_data):
    folder = shared_data / "taxonomies" / "semantic_embeddings"
    lines = (folder / "CUB-Hierarchy__hierarchy_flat.txt").read_text(encoding="utf-8").splitlines()
    order, order_of = "", {}
    for line in lines:
        dashes, _, name = line.partition(" ")
        order = name if dashes == "--" else order
        order_of[name.partition(" (")[0].strip()] = order
    scientific = (folder / "CUB-Hierarchy__classes_wikispecies.txt").read_text(encoding="utf-8").splitlines()
    birds = pd.read_csv(str(resources.files("hiertree.datasets.benchmarks") / "trees" / "cub-order-family.csv"))
    pairs = zip(birds["order"], (order_of[line.split(" ", 1)[1]] for line in scientific), strict=True)
    differing = {pair for pair in pairs if pair[0] != pair[1]}
    assert differing == {("Apodiformes", "Trochiliformes")}  # two names of the hummingbirds' order
