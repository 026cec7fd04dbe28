"""Washington's 844 landmarks from ids to a reviewed export, by both sources, beside the column someone else scraped."""

import csv

import pytest
from wikimedia import Wikimedia, World
from wikimedia.tools import FakeTime, scrape

from hiertree.pipelines.labels import (
    ClusterSettings,
    ColumnNames,
    ExportSettings,
    clean_step,
    cluster_step,
    export_step,
    read_landmarks,
    read_proposal,
)
from hiertree.pipelines.labels.review.actions import Approve, MarkLabels, Merge, Move, Rename, SetKind
from hiertree.pipelines.labels.review.serving import Session
from hiertree.pipelines.labels.scrape.outcomes import write_instances
from hiertree.pipelines.labels.scrape.scraping import read_subjects
from hiertree.pipelines.labels.scrape.store import Store

SOURCES = ("api", "html")


@pytest.fixture(scope="module")
def scraped_table(shared_data, tmp_path_factory):
    """The table of landmarks and the folder of the sources' stores and tables."""
    landmarks = shared_data / "gldv2_washington" / "landmarks_washington_full.csv"
    folder = tmp_path_factory.mktemp("washington")
    for name in SOURCES:
        with Wikimedia(World.washington(landmarks)) as wikimedia, Store(folder / f"{name}.sqlite") as store:
            store.add_landmarks(read_subjects(landmarks)[0])
            scrape(store, wikimedia, FakeTime(), source=name)
            write_instances(store, folder / f"{name}.csv")
    return landmarks, folder


@pytest.mark.parametrize("source", SOURCES)
def test_both_sources_differ_from_the_scraped_column_only_where_that_is_wrong_or_empty(scraped_table, source):
    landmarks, folder = scraped_table
    with landmarks.open(encoding="utf-8-sig", newline="") as file:
        column = {row["landmark_id"]: row["supercategory"] for row in csv.DictReader(file)}
    landmarks_read, unknown_ids = read_landmarks(
        landmarks, folder / f"{source}.csv", columns=ColumnNames(item_ids="item_ids")
    )
    values_of_id = {landmark.landmark_id: [value.text for value in landmark.values] for landmark in landmarks_read}
    differences = {key: (column[key], values_of_id[key]) for key in column if values_of_id[key] != [column[key]]}
    assert (len(column), unknown_ids, len(differences)) == (844, 0, 4)
    assert sorted(differences.values()) == [
        ("", []),  # no such statement
        ("", []),
        ("Wikimedia category", []),  # a category item's own class; its main topic, which counts, is not named
        ("county hall (", ["county hall (United States)"]),  # the column holds the text up to the link within it
    ]
    assert all(value.item_id.startswith("Q") for landmark in landmarks_read for value in landmark.values)


def test_either_source_cleans_to_the_same_labels(scraped_table, tmp_path):
    results = []
    for source in SOURCES:
        out = tmp_path / source
        assert clean_step(scraped_table[0], store=scraped_table[1] / f"{source}.sqlite", out=out)["kept"] == 841
        with (out / "landmarks.csv").open(encoding="utf-8", newline="") as file:
            labels = {row["landmark_id"]: (row["labels"], row["item_ids"]) for row in csv.DictReader(file)}
        results.append((labels, *((out / name).read_bytes() for name in ("labels.csv", "hypernyms.csv"))))
    assert results[0] == results[1]


def test_store_seed_and_review_log_decide_every_byte_of_the_export(scraped_table, tmp_path):
    for name in ("one", "two"):
        clean_step(scraped_table[0], store=scraped_table[1] / "api.sqlite", out=tmp_path / name / "cleaned")
        settings = ClusterSettings(clusters=43, restarts=1)
        cluster_step(tmp_path / name / "cleaned", out=tmp_path / name / "clustered", settings=settings)
    review(tmp_path / "one" / "clustered", tmp_path / "anna.jsonl")
    first, two = (
        export_step(
            tmp_path / name / "clustered",
            out=tmp_path / name / "exported",
            review=tmp_path / "anna.jsonl",
            settings=ExportSettings(keep_unfit=True),
        )
        for name in ("one", "two")
    )
    for file in sorted(first.folder.iterdir()):
        if file.name != "manifest.json":
            assert file.read_bytes() == (two.folder / file.name).read_bytes(), file.name
    assert first.report["review"]["events"] == 6
    assert first.report["kept"] == 841 - 2
    with (first.folder / "hierarchical.csv").open(encoding="utf-8", newline="") as file:
        row_of_category = {row["supercategory"]: row for row in csv.DictReader(file)}
    assert "tourist attraction" not in row_of_category
    assert row_of_category["county hall"]["hierarchical_label"] == "seat of government"
    assert row_of_category["lake"]["hierarchical_label"] == "standing water"
    assert row_of_category["bay"]["hierarchical_label"] == "standing water"


def review(folder, log):
    """Six things that an annotator does, found by their labels, whatever numbers the clusters have."""
    session = Session(read_proposal(folder), log, "anna", clock=lambda: "2025-01-31T09:00:00+00:00")

    def number(label):
        groups = session.news(0).history.state.clusters.values()
        return next(group.number for group in groups if label in group.labels)

    def act(action):
        session.act(action, seq=session.news(0).history.seq)

    act(MarkLabels(labels=("tourist attraction",), irrelevant=True))
    act(Rename(cluster=number("lake"), name="standing water"))
    act(Merge(clusters=(number("bay"), number("lake")), into=number("lake")))
    act(Move(labels=("county hall",), name="seat of government", kind="human-made"))
    act(SetKind(clusters=(number("artificial island"),), kind="human-made"))
    act(Approve(clusters=(number("lake"),), approved=True))
