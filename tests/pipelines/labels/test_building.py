"""The pipeline end to end: counts, files, repeatability, and what it refuses."""

import csv
import json

import pytest
from PIL import Image

import hiertree as ht
from hiertree.errors import CheckpointError, OptionError, TableError
from hiertree.pipelines.labels import ImagesSettings, build, images_step, read_proposal
from hiertree.pipelines.labels.export.tree_page import example_pictures, tree_of
from hiertree.pipelines.labels.settings import ImageFolderSettings
from hiertree.tree import H_GLDV2_LEVELS

STEPS = ("cleaned", "clustered", "exported", "tree")
EXPORTED = {
    *("hierarchical.csv", "tree.json", "tree.csv", "provenance.parquet", "clusters.csv", "labels.csv"),
    *("dropped.csv", "hypernyms.csv", "report.json", "history.json", "README.md", "manifest.json"),
}


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def small(landmarks, instances):
    """The plan of the small tables, with other settings of some sections."""

    def plan(**sections):
        return {"landmarks": landmarks, "instances": instances, "cluster": {"clusters": 6}, **sections}

    return plan


def test_a_small_table_end_to_end(small, tmp_path):
    result = build(small(), out=tmp_path / "out")
    assert {path.name for path in result.folder.iterdir()} == set(STEPS) == set(result.steps)
    assert {path.name for path in result.exported.iterdir()} == EXPORTED
    assert (
        result.report.items()
        >= {
            "landmarks": 19,
            "with_label": 17,
            "kept": 15,
            "distinct_labels": 10,
            "scraped_ids_without_landmark": 1,
            "dropped": {"Wikimedia page": 1, "no label": 1, "not scraped": 1, "several labels": 1},
            "mended_labels": {"Road bridge": "road bridge", "church building (1909)": "church building"},
        }.items()
    )
    assert len(result.tree) == 15
    first = rows(result.exported / "hierarchical.csv")[0]
    assert first == {
        "landmark_id": "0",
        "category": "http://commons.wikimedia.org/wiki/Category:Place,_0",
        "supercategory": "lake",
        "hierarchical_label": "lake",
        "natural_or_human_made": "natural",
    }
    assert rows(result.exported / "dropped.csv")[0]["reason"] == "several labels"
    assert rows(result.exported / "dropped.csv")[0]["instance_of"] == "castle|palace"


def test_all_labels_of_a_landmark_vote_for_its_cluster(small, tmp_path):
    result = build(small(clean={"multi": "all"}), out=tmp_path / "out")
    row = next(row for row in rows(result.exported / "hierarchical.csv") if row["landmark_id"] == "15")
    assert row["supercategory"] == "castle|palace"
    assert row["hierarchical_label"] == read_proposal(result.folder / "clustered").cluster_of()["castle"].name


def test_ids_may_be_any_text_and_keep_their_order_at_every_step(tmp_path):
    ids = ["jp-0012", "A/B", "001", "Ünïcode", "1", "x, y", "10", "2"]
    labels = ["lake", "castle", "lake", "", "castle", "lake", "castle", "lake"]
    with (tmp_path / "table.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("landmark_id", "instance_of"), *zip(ids, labels, strict=True)])
    for image in ("jp-0012/a.jpg", "A/B.jpg", "A/B/c.png", "Ünïcode.jpg", "1/b.jpg", "x, y.jpg"):
        (tmp_path / "photos" / image).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / image)
    images = ImageFolderSettings(images=tmp_path / "photos")
    plan = {"landmarks": tmp_path / "table.csv", "cluster": {"clusters": 2}, "tree": vars(images)}
    result = build(plan, out=tmp_path / "out")
    usable_ids = [key for key in ids if key != "Ünïcode"]
    assert [row["landmark_id"] for row in rows(result.exported / "hierarchical.csv")] == usable_ids
    assert set(result.tree.leaves) == set(usable_ids)
    assert [row["landmark_id"] for row in rows(result.exported / "dropped.csv")] == ["Ünïcode"]
    from_csv = ht.LabelTree.from_csv(result.exported / "hierarchical.csv", levels=H_GLDV2_LEVELS)
    assert list(from_csv.leaves) == usable_ids
    assert {"jp-0012", "A/B", "1", "x, y"} == set(example_pictures(tree_of(result.folder), images))
    folder = images_step(result.folder, out=tmp_path / "listed", settings=ImagesSettings(**vars(images), min_images=1))
    assert sorted(row["landmark_id"] for row in rows(folder.table)) == ["1", "A/B", "A/B", "jp-0012", "x, y"]


def test_two_tables_without_a_common_id_are_refused(landmarks, tmp_path):
    (tmp_path / "scraped.csv").write_text("landmark_id,instance_of\n1.0,lake\n2.0,pond\n")
    with pytest.raises(TableError, match=r"no landmark '[12]\.0' among those listed.*ids such as '0'"):
        build({"landmarks": landmarks, "instances": tmp_path / "scraped.csv"}, out=tmp_path / "out")


def test_a_build_reports_every_step_and_a_summary(small, tmp_path, monkeypatch, capsys):
    lines = []
    monkeypatch.setenv("HIERTREE_PROGRESS", "1")
    build(small(), out=tmp_path / "out", say=lines.append)
    assert lines[:-1] == [f"{step}: written to {tmp_path / 'out' / step}" for step in STEPS]
    progress = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in progress if "under way" in line] == list(STEPS)
    assert any(line.startswith("runs of k-means: ") for line in progress)
    text = lines[-1]
    assert "19 landmarks\n      18 scraped\n      17 with a label" in text
    assert "15 kept, with 10 distinct labels" in text
    assert "10 labels in 6 clusters" in text
    assert "natural    lake: lake, glacial lake" in text


def test_washington_becomes_a_tree_of_two_kinds(washington):
    result, _ = washington
    report = result.report
    marked = [row for row in rows(result.folder / "clustered" / "labels.csv") if "no landmark" in row["doubt"]]
    num_unfit = sum(int(row["landmarks"]) for row in marked)
    assert (report["landmarks"], report["with_label"], report["distinct_labels"]) == (844, 842, 230 - len(marked))
    assert report["dropped"] == {"Wikimedia page": 1, "no label": 2, "no landmark": num_unfit}
    assert report["mended_labels"]["county hall ("] == "county hall"
    assert result.tree.level_sizes == (2, report["clusters"], 841 - num_unfit)
    dropped = [row for row in rows(result.exported / "dropped.csv") if row["reason"] == "no landmark"]
    assert {(row["instance_of"], row["scrape_reason"]) for row in dropped} >= {("festival", "event")}
    assert 20 <= report["clusters"] <= 76


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (("lake", "glacial lake", "meromictic lake"), "natural"),
        (("bay", "fjord", "strait"), "natural"),
        (("road bridge", "truss bridge", "viaduct"), "human-made"),
        (("art museum", "aviation museum", "museum"), "human-made"),
        (("church building", "Catholic cathedral"), "human-made"),
        (("Buddhist temple", "Shinto shrine"), "human-made"),
        (("dam", "gravity dam", "embankment dam"), "human-made"),
        (("factory", "hydroelectric power station"), "human-made"),
        (("lighthouse", "wooden lighthouse", "lightvessel"), "human-made"),
        (("mountain", "ridge", "summit"), "natural"),
        (("skyscraper", "tower block"), "human-made"),
        (("Washington state park", "national park"), "natural"),
    ],
)
def test_washington_labels_that_belong_together_are_together(washington, labels, kind):
    cluster_of = read_proposal(washington[0].folder / "clustered").cluster_of()
    assert len({cluster_of[label].name for label in labels}) == 1
    assert cluster_of[labels[0]].kind == kind


@pytest.mark.parametrize("label", ["tourist attraction", "cemetery", "factory", "arch bridge"])
def test_a_label_unlike_others_is_not_put_with_them(washington, label):
    cluster_of = read_proposal(washington[0].folder / "clustered").cluster_of()
    labels = ["lake", "glacier", "church building", "astronomical observatory"]
    assert cluster_of[label].name not in {cluster_of[second_label].name for second_label in labels}


def test_the_files_of_washington_agree_with_each_other(washington):
    result, plan = washington
    hierarchical = rows(result.exported / "hierarchical.csv")
    clusters = {row["name"]: row for row in rows(result.exported / "clusters.csv")}
    labels = {row["label"]: row for row in rows(result.exported / "labels.csv")}
    assert len(hierarchical) + len(rows(result.exported / "dropped.csv")) == 844
    assert sum(int(row["landmarks"]) for row in clusters.values()) == len(hierarchical)
    for row in hierarchical:
        assert labels[row["supercategory"]]["cluster"] == row["hierarchical_label"]
        assert clusters[row["hierarchical_label"]]["kind"] == row["natural_or_human_made"]
    manifests = {step: json.loads((result.folder / step / "manifest.json").read_text()) for step in STEPS}
    assert manifests["cleaned"]["inputs"][0]["name"] == plan["landmarks"].name
    assert {output["name"] for output in manifests["exported"]["outputs"]} == EXPORTED - {"manifest.json"}
    assert manifests["clustered"]["parameters"]["encoder"] == "place-nouns"


def test_the_same_inputs_give_the_same_bytes(washington, tmp_path):
    first, plan = washington
    second = build(plan, out=tmp_path / "again")
    for file in first.folder.rglob("*"):
        if file.is_file() and file.name != "manifest.json":
            assert file.read_bytes() == (second.folder / file.relative_to(first.folder)).read_bytes(), file


def test_an_earlier_build_is_brought_up_to_date_and_other_files_stay(small, landmarks, tmp_path):
    out = tmp_path / "out"
    build(small(), out=out)
    (out / "anna.jsonl").write_text("a review of mine")
    assert build(small(cluster={"clusters": 3}), out=out).report["clusters"] == 3
    (out / "exported" / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match="holds other files"):
        build(small(cluster={"clusters": 4}), out=out)
    assert (out / "exported" / "notes.txt").read_text() == "mine"
    assert (out / "anna.jsonl").read_text() == "a review of mine"
    for folder_of_one_step in (landmarks, out / "clustered"):
        with pytest.raises(OptionError, match="holds other files"):
            build(small(), out=folder_of_one_step)
    (out / "cleaned" / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged.*remove \S+cleaned to have it rebuilt"):
        build(small(), out=out)


def test_more_clusters_than_labels_leave_the_cleaned_landmarks_alone(small, tmp_path):
    with pytest.raises(OptionError, match="k=99: expected 1 to 10"):
        build(small(cluster={"clusters": 99}), out=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["cleaned"]


def test_a_table_without_any_usable_label_is_refused(small, tmp_path):
    table = tmp_path / "s.csv"
    table.write_text("landmark_id,instance_of\n1,Wikimedia category\n")
    with pytest.raises(TableError, match=r"no landmark has exactly one label: not scraped: .*dropped\.csv lists each"):
        build(small(instances=table), out=tmp_path / "out")
