"""How far two reviews agree, logs or tables, and what they differ in."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from review_server import SMALL
from sklearn.metrics import cohen_kappa_score

from hiertree.errors import ReviewError
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.labels.cluster.proposal_files import write_proposal
from hiertree.pipelines.labels.review.actions import MarkEither, MarkLabels, Merge, Move, Rename, SetKind
from hiertree.pipelines.labels.review.agreement import cohen_kappa, compare, match_clusters
from hiertree.pipelines.labels.review.log_file import replayed
from hiertree.pipelines.labels.review.results import Outcome, read_outcome, write_review_table
from hiertree.pipelines.labels.review.serving import Session
from hiertree.pipelines.labels.review.state import initial_state

ANNA = (
    Rename(cluster=0, name="crossing"),
    Merge(clusters=(3, 4), into=3),
    MarkLabels(labels=("pond",), irrelevant=True),
)
BERT = (SetKind(clusters=(2,), kind="natural"), Move(labels=("castle",), name="fort", kind="human-made"))


def session(path, annotator, *actions):
    at = Session(SMALL, path, annotator)
    for action in actions:
        at.act(action, seq=at.news(0).history.seq)
    return at


@pytest.fixture
def logs(tmp_path):
    folder = tmp_path / "clustered"
    folder.mkdir()
    write_proposal(folder / "proposal.json", SMALL)
    session(tmp_path / "anna.jsonl", "anna", *ANNA)
    session(tmp_path / "bert.jsonl", "bert", *BERT)
    return folder, tmp_path / "anna.jsonl", tmp_path / "bert.jsonl"


def test_kappa_by_hand():
    # alike in 35 of 50, so p = 0.7; by chance (25·30 + 25·20) / 50² = 0.5
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)


def outcome(annotator, actions):
    state = initial_state(SMALL)
    for action in actions:
        state = state.changed(action.change(state))
    return Outcome(annotator, state)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30))
def test_kappa_is_scikit_learns_and_has_no_value_where_that_is_nan(pairs):
    first, second = zip(*pairs, strict=True)
    if len(set(first) | set(second)) == 1:
        assert cohen_kappa(first, second) is None
    else:
        assert cohen_kappa(first, second) == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
        assert cohen_kappa(first, second) == pytest.approx(cohen_kappa(second, first), abs=1e-12)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_no_other_matching_holds_more_labels(pairs):
    matches = match_clusters(pairs)
    common_labels = sum(matches.get(cluster) == partner for cluster, partner in pairs)
    assert common_labels == max(
        sum(order[cluster] == partner for cluster, partner in pairs) for order in permutations(range(4))
    )
    assert len(set(matches.values())) == len(matches)
    assert all((cluster, partner) in pairs for cluster, partner in matches.items())


def test_the_numbers_and_differences_of_two_small_reviews():
    start = initial_state(SMALL)
    assert compare(Outcome("anna", start), Outcome("bert", start))["agreement"]["place_kappa"] == 1
    anna, bert = outcome("anna", ANNA), outcome("bert", BERT)
    comparison = compare(anna, bert)
    measures = comparison["agreement"]
    counts = {"labels": 15, "relevant": 14, "clusters": [4, 6], "matched": 4}
    assert measures.items() >= counts.items()
    # kept by both: all but pond. Of other kinds: museum and art museum for bert, church's three labels for anna
    assert measures["kind_share"] == pytest.approx((14 - 2 - 3) / 14)
    either = MarkEither(labels=("reservoir",), either=True)
    both = [outcome("anna", (*ANNA, either)), outcome("bert", (*BERT, either))]
    assert compare(both[0], bert)["agreement"]["kind_share"] == pytest.approx((14 - 2 - 3 - 1) / 14)
    assert compare(*both)["agreement"]["kind_share"] == measures["kind_share"]
    # of mountain and church, merged by anna, one is matched; castle left museum
    assert measures["place_share"] == pytest.approx((14 - 3 - 1) / 14)
    assert measures["name_share"] == pytest.approx(3 / 4)  # crossing is no bridge
    churches, mountains = {"church building", "cathedral", "temple"}, {"mountain", "summit", "volcano"}
    differing = {row["label"] for row in comparison["labels"]}
    assert differing in ({"pond", "castle", *churches}, {"pond", "castle", *mountains})
    assert {"crossing", "museum"} <= {pair["first"]["name"] for pair in comparison["clusters"]}


def test_the_command_prints_the_numbers_and_writes_everything(logs, tmp_path):
    out = tmp_path / "agreement.json"
    run = CliRunner().invoke(commands, ["labels", "agreement", *map(str, logs), "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert "anna and bert: 15 labels, 14 kept by both; 4 and 6 clusters, 4 matched" in run.output
    assert "κ of kinds" in run.output
    assert "  castle: museum | fort" in run.output
    assert "  pond: left out | lake" in run.output
    record = json.loads(out.read_text())
    printed = json.loads(CliRunner().invoke(commands, ["labels", "agreement", *map(str, logs), "--json"]).output)
    assert {name: value for name, value in record.items() if name != "manifest"} == printed
    assert len(record["manifest"]["inputs"]) == 3
    (pond,) = (row for row in printed["labels"] if row["label"] == "pond")
    assert (pond["first"], pond["second"]["name"]) == (None, "lake")


def test_a_log_is_not_compared_with_itself(logs):
    folder, anna, _ = logs
    with pytest.raises(ReviewError, match="two reviews of anna"):
        compare(read_outcome(SMALL, anna), read_outcome(SMALL, anna))
    run = CliRunner().invoke(commands, ["labels", "agreement", str(folder), str(anna), str(anna)])
    assert run.exit_code != 0


def test_an_edited_table_is_compared_with_a_log(logs, tmp_path):
    _, anna, bert = logs
    table = tmp_path / "berta.csv"
    write_review_table(table, SMALL, replayed(SMALL, bert)[0].state, {"pond": "Green Lake"})
    assert "Green Lake" in table.read_text()
    assert compare(read_outcome(SMALL, table), read_outcome(SMALL, bert))["labels"] == []
    with_log = compare(read_outcome(SMALL, anna), read_outcome(SMALL, bert))["agreement"]
    assert compare(read_outcome(SMALL, anna), read_outcome(SMALL, table))["agreement"] == with_log
