"""Published label trees, as their authors wrote them, become LabelTrees of the published shape."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import hiertree as ht
from hiertree.errors import NotATreeError, TableError, UnevenDepthError
from hiertree.tree import read_edges


@pytest.fixture
def semantic(shared_data):
    return shared_data / "taxonomies" / "semantic_embeddings"


def test_inaturalist_2018_has_8142_species_at_depth_7(semantic):
    edges = read_edges(semantic / "iNaturalist-Hierarchy__hierarchy_inat.txt")
    names = json.loads((semantic / "iNaturalist-Hierarchy__inat_class_index.json").read_text())
    tree = ht.LabelTree.from_edges(edges, labels={key: name for key, (_, name) in names.items()})
    assert (len(edges), len(tree), tree.num_levels) == (14035, 8142, 7)
    assert sum(tree.level_sizes) == 14035
    assert tree.labels_of(tree.paths(["4088"])[0])[-1] == "Felis catus"


@pytest.mark.parametrize(
    ("file", "leaves"),
    [
        ("Cifar-Hierarchy__cifar", 100),
        ("CUB-Hierarchy__cub_balanced", 200),
        ("CUB-Hierarchy__cub_flat", 200),
        ("CUB-Hierarchy__cub_wikispecies", 200),
    ],
)
def test_lists_of_edges_hold_every_class(semantic, file, leaves):
    edges = read_edges(semantic / f"{file}.parent-child.txt")
    assert len(ht.LabelTree.from_edges(edges, uneven="pad")) == leaves


def test_nabirds_has_555_leaves_and_uneven_depths(semantic):
    edges = read_edges(semantic / "NAB-Hierarchy__hierarchy.txt", child_first=True)
    with pytest.raises(UnevenDepthError):
        ht.LabelTree.from_edges(edges)
    assert len(ht.LabelTree.from_edges(edges, uneven="pad")) == 555


@pytest.mark.parametrize(
    ("file", "levels", "sizes"),
    [
        ("birds__Birds_name.xlsx", ["order", "family", "species"], (13, 39, 200)),
        ("cars__Cars_name.xlsx", ["coarse classes", "fine-grained classes"], (9, 196)),
        ("air__Air.xls", ["Variants"], (100,)),
    ],
)
def test_spreadsheet_columns_become_levels(shared_data, file, levels, sizes):
    table = pd.read_excel(shared_data / "taxonomies" / "flamingo" / file, engine="calamine")
    rows = [[cell.strip() for cell in row] for row in table[levels].itertuples(index=False)]
    assert ht.LabelTree.from_paths(rows, level_names=levels).level_sizes == sizes


def test_family_published_under_two_orders_is_found(shared_data):
    table = pd.read_excel(shared_data / "taxonomies" / "flamingo" / "birds__Birds_name.xlsx", engine="calamine")
    rows = table[["order", "family", "species"]].to_numpy()
    assert ht.LabelTree.from_paths(rows).summary()["homonyms"].tolist() == [0, 1, 0]
    with pytest.raises(NotATreeError, match=r"'Laridae' stands under \('Charadriiformes',\) and \('Coraciiformes',\)"):
        ht.LabelTree.from_paths(rows, homonyms="error")


def test_washington_landmarks_are_844_leaves(shared_data):
    path = shared_data / "gldv2_washington" / "landmarks_washington_full.csv"
    tree = ht.LabelTree.from_csv(path, levels=["category", "landmark_id"])
    assert len(tree) == 844
    assert tree.paths([161, 239]).shape == (2, 2)


def test_edge_file_with_a_broken_line_is_refused(tmp_path):
    (tmp_path / "edges.txt").write_text("a b\n\na b c\n")
    with pytest.raises(TableError, match=r"edges\.txt, line 3"):
        read_edges(tmp_path / "edges.txt")
    with pytest.raises(TableError, match="absent"):
        read_edges(tmp_path / "absent.txt")
