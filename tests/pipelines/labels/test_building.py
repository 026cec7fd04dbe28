"""The pipeline end to end: counts, files, repeatability, and what it refuses."""

import csv
import json

import pytest

import hiertree as ht
from hiertree.errors import OptionError, TableError
from hiertree.pipelines.labels import ColumnNames, build, describe
from hiertree.tree import H_GLDV2_LEVELS

FILES = {
    "hierarchical.csv",
    "tree.json",
    "clusters.csv",
    "labels.csv",
    "dropped.csv",
    "report.json",
    "manifest.json",
}
WASHINGTON = ColumnNames(instance_of="supercategory")


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def washington(shared_data, tmp_path_factory):
    table = shared_data / "gldv2_washington" / "landmarks_washington_full.csv"
    return build(table, out=tmp_path_factory.mktemp("washington") / "out", columns=WASHINGTON), table


def test_a_small_table_end_to_end(landmarks, instances, tmp_path):
    result = build(landmarks, instances=instances, out=tmp_path / "out", clusters=6)
    assert {path.name for path in result.folder.iterdir()} == FILES
    assert result.report["landmarks"] == 19
    assert result.report["with_label"] == 17
    assert result.report["dropped"] == {"Wikimedia page": 1, "no label": 1, "not scraped": 1, "several labels": 1}
    assert result.report["kept"] == len(result.tree) == 15
    assert result.report["distinct_labels"] == 10
    assert result.report["scraped_ids_without_landmark"] == 1
    assert result.report["mended_labels"] == {
        "Road bridge": "road bridge",
        "church building (1909)": "church building",
    }
    first = rows(result.folder / "hierarchical.csv")[0]
    assert first == {
        "landmark_id": "0",
        "category": "http://commons.wikimedia.org/wiki/Category:Place,_0",
        "supercategory": "lake",
        "hierarchical_label": "lake",
        "natural_or_human_made": "natural",
    }
    assert rows(result.folder / "dropped.csv")[0]["reason"] == "several labels"
    assert rows(result.folder / "dropped.csv")[0]["instance_of"] == "castle|palace"


def test_the_table_and_the_tree_are_read_back_alike(landmarks, instances, tmp_path):
    result = build(landmarks, instances=instances, out=tmp_path / "out", clusters=6)
    from_csv = ht.LabelTree.from_csv(result.folder / "hierarchical.csv", levels=H_GLDV2_LEVELS)
    assert from_csv == ht.LabelTree.from_json(result.folder / "tree.json") == result.tree


def test_all_labels_of_a_landmark_vote_for_its_cluster(landmarks, instances, tmp_path):
    result = build(landmarks, instances=instances, out=tmp_path / "out", clusters=6, multi="all")
    row = next(row for row in rows(result.folder / "hierarchical.csv") if row["landmark_id"] == "15")
    assert row["supercategory"] == "castle|palace"
    assert row["hierarchical_label"] == result.proposal.cluster_of()["castle"].name


def test_a_build_is_told_in_words(landmarks, instances, tmp_path):
    text = describe(build(landmarks, instances=instances, out=tmp_path / "out", clusters=6))
    assert "19 landmarks\n      18 scraped\n      17 with a label" in text
    assert "15 kept, with 10 distinct labels" in text
    assert "10 labels in 6 clusters" in text
    assert "natural    lake: lake, glacial lake" in text


def test_washington_becomes_a_tree_of_two_kinds(washington):
    result, _ = washington
    report = result.report
    assert (report["landmarks"], report["with_label"], report["kept"], report["distinct_labels"]) == (
        844,
        842,
        841,
        230,
    )
    assert report["dropped"] == {"Wikimedia page": 1, "no label": 2}
    assert report["mended_labels"]["county hall ("] == "county hall"
    assert result.tree.level_sizes == (2, report["clusters"], 841)
    assert 20 <= report["clusters"] <= 76


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (("lake", "glacial lake", "meromictic lake"), "natural"),
        (("bay", "fjord", "strait"), "natural"),
        (("road bridge", "truss bridge", "viaduct"), "human-made"),
        (("art museum", "aviation museum", "museum"), "human-made"),
        (("church building", "Buddhist temple", "Shinto shrine"), "human-made"),
        (("dam", "gravity dam", "reservoir"), "human-made"),
        (("lighthouse", "wooden lighthouse", "lightvessel"), "human-made"),
        (("mountain", "ridge", "summit"), "natural"),
        (("skyscraper", "tower block"), "human-made"),
        (("Washington state park", "national park"), "natural"),
    ],
)
def test_washington_labels_that_belong_together_are_together(washington, labels, kind):
    cluster_of = washington[0].proposal.cluster_of()
    assert len({cluster_of[label].name for label in labels}) == 1
    assert cluster_of[labels[0]].kind == kind


def test_unlike_washington_labels_are_apart(washington):
    cluster_of = washington[0].proposal.cluster_of()
    names = [cluster_of[label].name for label in ("lake", "mountain", "museum", "park", "dam", "hotel", "island")]
    assert len(set(names)) == len(names)


def test_the_files_of_washington_agree_with_each_other(washington):
    result, table = washington
    hierarchical = rows(result.folder / "hierarchical.csv")
    clusters = {row["name"]: row for row in rows(result.folder / "clusters.csv")}
    labels = {row["label"]: row for row in rows(result.folder / "labels.csv")}
    assert len(hierarchical) + len(rows(result.folder / "dropped.csv")) == 844
    assert sum(int(row["landmarks"]) for row in clusters.values()) == len(hierarchical)
    for row in hierarchical:
        assert labels[row["supercategory"]]["cluster"] == row["hierarchical_label"]
        assert clusters[row["hierarchical_label"]]["kind"] == row["natural_or_human_made"]
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert manifest["inputs"][0]["name"] == table.name
    assert {output["name"] for output in manifest["outputs"]} == FILES - {"manifest.json"}
    assert manifest["parameters"]["encoder"] == "tfidf"


def test_the_same_inputs_give_the_same_bytes(washington, tmp_path):
    first, table = washington
    second = build(table, out=tmp_path / "again", columns=WASHINGTON)
    for name in FILES - {"manifest.json"}:
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes(), name


def test_the_built_in_landmarks_show_the_cleaning_and_both_kinds(tmp_path):
    from importlib.resources import files

    result = build(str(files("hiertree.pipelines") / "landmarks.csv"), out=tmp_path / "out", clusters=36)
    assert result.report["landmarks"] >= 160
    assert set(result.report["dropped"]) == {"Wikimedia page", "no label", "several labels"}
    assert min(kind["clusters"] for kind in result.report["kinds"].values()) >= 10
    assert {"waterfall", "bridge", "museum", "castle and palace"} <= {
        cluster.name for cluster in result.proposal.clusters
    }


def test_an_earlier_build_is_replaced_but_nothing_else(landmarks, instances, tmp_path):
    out = tmp_path / "out"
    build(landmarks, instances=instances, out=out, clusters=6)
    assert build(landmarks, instances=instances, out=out, clusters=3).report["clusters"] == 3
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match="holds other files"):
        build(landmarks, instances=instances, out=out, clusters=3)
    assert (out / "notes.txt").read_text() == "mine"
    with pytest.raises(OptionError, match="holds other files"):
        build(landmarks, instances=instances, out=landmarks, clusters=3)


@pytest.mark.parametrize("options", [{"clusters": 99}, {"multi": "some"}, {"separator": ""}])
def test_a_refused_option_leaves_nothing_behind(landmarks, instances, tmp_path, options):
    with pytest.raises(OptionError):
        build(landmarks, instances=instances, out=tmp_path / "made" / "out", **options)
    assert not (tmp_path / "made").exists()


def test_a_table_without_any_usable_label_is_refused(landmarks, tmp_path):
    scraped = tmp_path / "s.csv"
    scraped.write_text("landmark_id,instance_of\n1,Wikimedia category\n")
    with pytest.raises(TableError, match=r"no landmark of .* is left"):
        build(landmarks, instances=scraped, out=tmp_path / "out")
