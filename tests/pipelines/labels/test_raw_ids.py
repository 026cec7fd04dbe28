"""Tables of raw ids without types: each command says how to ask for these, and what came of nothing."""

import json
from pathlib import Path

import pytest

from hiertree.pipelines.cli import main
from hiertree.pipelines.labels.scrape.store import Item, Label, LandmarkRow, Store


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """A command of ``hiertree labels`` in an empty folder: its status, and what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["labels", *arguments])
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return run


def write(name, header, *rows):
    Path(name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return name


@pytest.mark.parametrize("command", ["build", "clean", "cluster", "fill"])
def test_a_table_of_ids_and_categories_is_to_be_scraped_first(run, command):
    Path("photos").mkdir()
    table = write("my places.csv", "landmark_id,category", "1,http://commons.wikimedia.org/wiki/Category:Comet_Falls")
    options = ("--images", "photos") if command == "fill" else ()
    status, _, error = run(command, table, "--out", "out", *options)
    assert status == 2
    assert ("hiertree labels scrape" if command in ("build", "clean") else "hiertree labels clean") in error


@pytest.mark.parametrize("command", ["build", "clean"])
def test_the_landmarks_own_items_are_no_types(run, command):
    table = write("items.csv", "landmark_id,wikidata_id", "1,Q1001", "2,Q1002", "3,Q1003")
    status, _, error = run(command, table, "--instance-column", "wikidata_id", "--out", "out")
    assert status == 2
    assert "only a Wikidata id" in error
    assert "labels scrape TABLE --category-column wikidata_id --store STORE" in error
    assert "next:" not in error
    status, printed, _ = run("clean", table, "--instance-column", "wikidata_id", "--unnamed", "keep", "--out", "kept")
    assert status == 0
    assert "labels scrape TABLE --category-column wikidata_id --store STORE" in printed


def test_items_that_landmarks_share_are_types(run):
    table = write("items.csv", "landmark_id,wikidata_id", "1,Q1001", "2,Q1001", "3,Q1003")
    status, _, error = run("clean", table, "--instance-column", "wikidata_id", "--out", "out")
    assert status == 2
    assert "--unnamed keep" in error
    assert "labels hypernyms" in error


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ([], r"not scraped (not asked for yet): expected some; 'hiertree labels scrape'"),
        ([Item("Q7", "found")], "no label (no instance of): expected some"),
        (
            [Item("Q7", "found", instances=("Q1", "Q2")), Label("Q1", "lake", "en"), Label("Q2", "dam", "en")],
            "several labels: expected some; --multi first or --multi all keeps them",
        ),
    ],
)
def test_a_cleaning_that_keeps_nothing_names_the_cause_and_what_helps(run, facts, cause):
    table = write("items.csv", "landmark_id,category", "7,Q7")
    with Store("store.sqlite") as store:
        store.add_landmarks([LandmarkRow("7", "Q7", "Q7", None)])
        store.save(facts, source="api", time=1)
    status, _, error = run("clean", table, "--store", "store.sqlite", "--out", "out")
    assert status == 2
    assert cause in error
    assert "out/dropped.csv lists each landmark" in error
    assert json.loads(Path("out/report.json").read_text(encoding="utf-8"))["kept"] == 0
