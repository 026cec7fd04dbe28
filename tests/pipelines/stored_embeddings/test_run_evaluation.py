"""``hiertree evaluate-run`` and ``hiertree qrels``: ranked lists on disk, judged or labeled."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from printed_commands import status_of

from hiertree.errors import EmptyLabelError, TableError
from hiertree.metrics import evaluate_ranking, read_trec_qrels
from hiertree.pipelines.cli.application import commands


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text(
        "image,kind,name\na.jpg,pet,dog\nb.jpg,pet,dog\nc.jpg,pet,cat\nd.jpg,car,van\n", encoding="utf-8"
    )
    (tmp_path / "run.txt").write_text(
        "a.jpg Q0 c.jpg 1 0.9 t\na.jpg Q0 b.jpg 2 0.8 t\nb.jpg Q0 b.jpg 1 1.0 t\nb.jpg Q0 a.jpg 2 0.7 t\n"
    )
    (tmp_path / "qrels.txt").write_text("a.jpg 0 b.jpg 2\na.jpg 0 c.jpg 1\na.jpg 0 d.jpg -1\n")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(commands, arguments, catch_exceptions=False)


def test_a_run_is_measured_by_the_labels_of_a_table(folder):
    output = run("evaluate-run", "run.txt", "--tree", "labels.csv", "--json", "--per-query", "q.csv", "--out", "r.json")
    assert output.exit_code == 0
    names = ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]
    paths = [[0, 0], [0, 0], [0, 1], [1, 2]]
    expected = evaluate_ranking("run.txt", query_paths=paths, query_names=names)
    assert json.loads(output.stdout)["summary"] == json.loads(expected.to_json())["summary"]
    assert (folder / "q.csv").read_text().splitlines()[1].startswith("a.jpg,")
    record = json.loads((folder / "r.json").read_text())
    assert [source["name"] for source in record["manifest"]["inputs"]] == ["run.txt", "labels.csv"]


def test_an_item_whose_labels_are_all_empty_counts_as_unlabeled(folder):
    labels_text = (folder / "labels.csv").read_text()
    (folder / "labels.csv").write_text(labels_text.replace("c.jpg,pet,cat", "c.jpg,,"))
    output = run("evaluate-run", "run.txt", "--tree", "labels.csv", "--json", "--metrics", "AP")
    assert json.loads(output.stdout)["summary"] == {"AP": 0.75}
    with pytest.raises(TableError, match=r"run\.txt, line 1: item 'c\.jpg'"):
        run("evaluate-run", "run.txt", "--tree", "labels.csv", "--unjudged", "error")
    assert run("qrels", "labels.csv", "--out", "made.txt").exit_code == 0
    assert set(read_trec_qrels("made.txt")) == {"a.jpg", "b.jpg"}
    (folder / "labels.csv").write_text(labels_text.replace("d.jpg,car,van", "d.jpg,car,"))
    with pytest.raises(EmptyLabelError, match=r"line 5.*--uneven unknown"):
        run("evaluate-run", "run.txt", "--tree", "labels.csv")


def test_a_run_is_measured_by_qrels_whose_spam_is_said_to_be_irrelevant(folder):
    refused = CliRunner().invoke(commands, ["evaluate-run", "run.txt", "--qrels", "qrels.txt"])
    assert "--negative-qrels irrelevant" in str(refused.exception)
    output = run("evaluate-run", "run.txt", "--qrels", "qrels.txt", "--negative-qrels", "irrelevant", "--json",
               "--metrics", "AP[1],AP[2]")  # fmt: skip
    assert json.loads(output.stdout)["summary"] == {"AP[1]": 1.0, "AP[2]": 0.5}


def test_qrels_of_a_tree_judge_a_run_as_the_tree_does(folder):
    assert run("qrels", "labels.csv", "--out", "made.txt").exit_code == 0
    assert read_trec_qrels("made.txt")["c.jpg"] == {"a.jpg": 1, "b.jpg": 1}
    assert (
        run("qrels", "labels.csv", "--out", "gains.txt.gz", "--grades", "0,1,3", "--levels", "kind,name").exit_code == 0
    )
    assert read_trec_qrels("gains.txt.gz")["a.jpg"] == {"b.jpg": 3, "c.jpg": 1}
    (folder / "queries.csv").write_text("image,kind,name\nq.jpg,car,van\n")
    assert run("qrels", "labels.csv", "--query-labels", "queries.csv", "--out", "apart.txt").exit_code == 0
    assert read_trec_qrels("apart.txt") == {"q.jpg": {"d.jpg": 2}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument 'RUNS...'"),
        (["run.txt"], "judgments (--qrels) or a table of labels (--tree)"),
        (["run.txt", "--tree", "labels.csv", "--qrels", "qrels.txt"], "exactly one of them"),
        (["run.txt", "--tree", "labels.csv", "--device", "cpu"], "No such option"),
        (["run.txt", "--tree", "labels.csv", "--ids", "nothing"], "no column 'nothing'"),
        (["run.txt", "--tree", "labels.csv", "--ids", "kind"], "labels.csv, line 3: 'pet' again"),
        (["labels.csv", "--tree", "labels.csv"], "columns"),
        (["run.txt", "--tree", "labels.csv", "--relevance", "1,1", "--alpha", "2"], "alpha=2.0 beside relevance"),
        (["run.txt", "--tree", "labels.csv", "--relevance", "flat"], "'flat': expected weights of levels, or hap"),
        (["run.txt", "--tree", "labels.csv", "--out", "run.txt"], "run.txt"),
    ],
)
def test_calls_that_mean_nothing_end_with_status_2(arguments, words, folder, capsys):
    run_content = (folder / "run.txt").read_bytes()
    assert status_of("evaluate-run", *arguments) == 2
    assert words in capsys.readouterr().err
    assert (folder / "run.txt").read_bytes() == run_content
