"""Landmarks that have a label, from a table or a store, and why the others have none."""

import json

import pytest

from hiertree.errors import OptionError, ScrapeError, TableError
from hiertree.pipelines.labels import (
    CleanSettings,
    ClusterSettings,
    ColumnNames,
    clean_step,
    cluster_step,
    read_kept,
    read_landmarks,
)
from hiertree.pipelines.labels.cleaning import describe_cleaning
from hiertree.pipelines.labels.landmarks import (
    DroppedLandmark,
    KeptLandmark,
    Origin,
    read_dropped,
    write_dropped,
    write_kept,
)
from hiertree.pipelines.labels.scrape.outcomes import write_instances
from hiertree.pipelines.labels.scrape.store import Item, Label, LandmarkRow, Page, Store

FILES = {"landmarks.csv", "labels.csv", "dropped.csv", "report.json", "manifest.json"}


@pytest.fixture
def store(tmp_path):
    """Landmark 0 is a lake (1999) and a pond, 1 has no instance, 2 is not answered, 3 is a Wikimedia page."""
    path = tmp_path / "store.sqlite"
    facts = [
        Page("Category:A", "found", item="Q1", redirects=("Category:Old A",)),
        Page("Category:B", "found", item="Q2"),
        Page("Category:D", "found", item="Q4"),
        Item("Q1", "found", instances=("Q23397", "Q3253281"), revision=77, modified="2024-01-02T03:04:05Z"),
        Item("Q2", "found"),
        Item("Q4", "found", instances=("Q4167410",)),
        Label("Q23397", "lake (1999)", "en"),
        Label("Q3253281", "pond", "en"),
        Label("Q4167410", "Wikimedia disambiguation page", "en"),
    ]
    with Store(path) as open_store:
        open_store.add_landmarks(LandmarkRow(str(n), f"C{n}", f"Category:{'ABCD'[n]}", None) for n in range(4))
        open_store.save(facts, source="api", time=1_700_000_000)
    return path


@pytest.fixture
def table_of_landmarks(tmp_path):
    path = tmp_path / "listed.csv"
    path.write_text("id,category\n" + "".join(f"{n},C{n}\n" for n in range(4)))
    return path


def test_a_table_is_cleaned_into_a_folder_with_its_counts(landmarks, instances, tmp_path):
    report = clean_step(landmarks, instances=instances, out=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["landmarks"], report["scraped"], report["with_label"], report["kept"]) == (19, 18, 17, 15)
    assert report["dropped"] == {"Wikimedia page": 1, "no label": 1, "not scraped": 1, "several labels": 1}
    landmarks_kept, dropped = read_kept(tmp_path / "out"), read_dropped(tmp_path / "out")
    assert [landmark.landmark_id for landmark in landmarks_kept] == list(map(str, range(15)))
    assert [drop.values for drop in dropped] == [("castle", "palace"), ("Wikimedia category",), (), ()]
    assert (tmp_path / "out" / "labels.csv").read_text().splitlines()[1:3] == ["road bridge,3", "church building,2"]


def test_a_store_gives_ids_revisions_times_and_reasons(store, table_of_landmarks, tmp_path):
    columns, settings = ColumnNames(landmark_id="id"), CleanSettings(multi="all")
    report = clean_step(table_of_landmarks, store=store, out=tmp_path / "out", columns=columns, settings=settings)
    (landmark,) = read_kept(tmp_path / "out")
    assert (landmark.landmark_id, landmark.labels, landmark.item_ids) == ("0", ("lake", "pond"), ("Q23397", "Q3253281"))
    origin = landmark.origin
    assert (origin.item, origin.revision, origin.modified) == ("Q1", "77", "2024-01-02T03:04:05Z")
    assert (origin.source, origin.time, origin.redirects) == ("api", "1700000000", '["Category:Old A"]')
    reasons = {drop.landmark_id: (drop.reason, drop.origin.reason) for drop in read_dropped(tmp_path / "out")}
    assert reasons == {
        "1": ("no label", "no instance of"),
        "2": ("not scraped", "not asked for yet"),
        "3": ("Wikimedia page", "Wikimedia page"),
    }
    assert "1 dropped: no label (1 no instance of)" in describe_cleaning(report)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [file["name"] for file in manifest["inputs"]] == ["listed.csv", "store.sqlite"]


def test_columns_that_no_step_reads_are_named_once_for_each_table(store, tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "a.csv").write_text("id,category,supercategory,count,note\n0,C0,,3,x\n")
    (tmp_path / "b.csv").write_text("id,instance_of,time,photos\n0,lake,5,7\n")
    for instances in (None, tmp_path / "b.csv"):
        columns = ColumnNames(landmark_id="id", instance_of="instance_of" if instances else "supercategory")
        read_landmarks(tmp_path / "a.csv", instances, columns=columns)
        messages = [record.getMessage() for record in caplog.records]
        expected = ["a.csv: columns not used: 'count', 'note'", "b.csv: columns not used: 'photos'"]
        assert messages == expected[: 2 if instances else 1]
        caplog.clear()
    with Store(store) as open_store:
        write_instances(open_store, tmp_path / "scraped.csv")
    read_landmarks(tmp_path / "scraped.csv")
    assert not caplog.records


def test_files_hold_every_field(tmp_path):
    origin = Origin(*"abcdefgh")
    landmarks = [
        KeptLandmark("1", "C, 1", ("a", "b"), ("Q1", ""), 0.75, origin),
        KeptLandmark("ü/2", "", ("é",), ("",)),
    ]
    dropped = [
        DroppedLandmark("03", "C", ("a", "b"), "several labels", origin),
        DroppedLandmark("4", "", (), "no label"),
    ]
    write_kept(tmp_path / "landmarks.csv", landmarks)
    write_dropped(tmp_path / "dropped.csv", dropped)
    assert read_kept(tmp_path) == landmarks
    assert read_dropped(tmp_path) == dropped


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        (" ,C,lake,,", "landmark_id ''"),
        ("1,C,,,", "a label"),
        ("1,C,lake,Q1|Q2,", "as many ids"),
        ("1,C,lake,,high", "confidence 'high'"),
        ("1,C,lake,,nan", "confidence 'nan'"),
        ("1,C,lake,,1.5", "confidence '1.5'"),
    ],
)
def test_a_changed_file_is_refused_by_its_line(tmp_path, cells, complaint):
    write_kept(tmp_path / "landmarks.csv", [])
    with (tmp_path / "landmarks.csv").open("a") as file:
        file.write(f"{cells}{',' * (1 + len(Origin._fields))}\n")
    with pytest.raises(TableError, match=rf"line 2: .*{complaint}"):
        read_kept(tmp_path)


def test_a_table_that_was_cut_at_a_line_is_named_by_the_next_step(landmarks, instances, tmp_path, caplog):
    clean_step(landmarks, instances=instances, out=tmp_path / "cleaned")
    table = tmp_path / "cleaned" / "dropped.csv"
    table.write_bytes(b"".join(table.read_bytes().splitlines(keepends=True)[:-2]))
    with caplog.at_level("INFO"):
        cluster_step(tmp_path / "cleaned", out=tmp_path / "out", settings=ClusterSettings(clusters=2, restarts=1))
        cluster_step(tmp_path / "out", out=tmp_path / "again", settings=ClusterSettings(clusters=2, restarts=1))
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("hiertree")]
    assert messages == [f"{tmp_path / 'cleaned'}: dropped.csv changed since it was written"]


def test_other_sources_are_refused(landmarks, instances, store, tmp_path):
    with pytest.raises(OptionError, match="both instances and a store"):
        clean_step(landmarks, instances=instances, store=store, out=tmp_path / "out")
    with pytest.raises(ScrapeError, match="a store of 'labels scrape'"):
        clean_step(landmarks, store=instances, out=tmp_path / "out")
    with pytest.raises(TableError, match=r"no '\|' in a label"):
        write_kept(tmp_path / "landmarks.csv", [KeptLandmark(1, "", ("a|b",))])
    assert not (tmp_path / "out").exists()


def test_a_bar_in_a_label_does_not_separate_labels_of_the_table(store, tmp_path):
    with Store(store) as open_store:
        open_store.save([Label("Q3253281", "pond|pool", "en")], source="api", time=1_700_000_000)
        write_instances(open_store, tmp_path / "scraped.csv")
    landmarks, _ = read_landmarks(tmp_path / "scraped.csv")
    assert [value.text for value in landmarks[0].values] == ["lake (1999)", "pond/pool"]
