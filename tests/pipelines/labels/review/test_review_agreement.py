"""How far two reviews agree, and the third log that decides between them."""

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
from hiertree.pipelines.labels.review import reviewed
from hiertree.pipelines.labels.review.actions import (
    Approve,
    MarkEither,
    MarkLabels,
    Merge,
    Move,
    Rename,
    SetKind,
    Settle,
)
from hiertree.pipelines.labels.review.agreement import cohen_kappa, compare, match_clusters
from hiertree.pipelines.labels.review.history import History, Undo
from hiertree.pipelines.labels.review.log_file import replayed
from hiertree.pipelines.labels.review.session import Session
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
    anna, bert = History.beginning(start, annotator="anna"), History.beginning(start, annotator="bert")
    assert compare(anna, bert).agreement["place_kappa"] == 1
    for action in ANNA:
        anna = anna.apply(action)
    for action in BERT:
        bert = bert.apply(action)
    comparison = compare(anna, bert)
    numbers = comparison.agreement
    counts = {"labels": 15, "relevant": 14, "clusters": (4, 6), "matched": 4}
    assert numbers.items() >= counts.items()
    # kept by both: all but pond. Of other kinds: museum and art museum for bert, church's three labels for anna
    assert numbers["kind_share"] == pytest.approx((14 - 2 - 3) / 14)
    both = [history.apply(MarkEither(labels=("reservoir",), either=True)) for history in (anna, bert)]
    assert compare(both[0], bert).agreement["kind_share"] == pytest.approx((14 - 2 - 3 - 1) / 14)
    assert compare(*both).agreement["kind_share"] == numbers["kind_share"]
    # of mountain and church, merged by anna, one is matched; castle left museum
    assert numbers["place_share"] == pytest.approx((14 - 3 - 1) / 14)
    assert numbers["name_share"] == pytest.approx(3 / 4)  # crossing is no bridge
    assert {label for label, *_ in comparison.labels} == {
        "pond",
        "castle",
        *(
            {"church building", "cathedral", "temple"}
            if comparison.matches[3] == 3
            else {"mountain", "summit", "volcano"}
        ),
    }
    assert {first for first, _ in comparison.clusters} >= {0, 2}


def test_the_command_prints_the_numbers_and_writes_everything(logs, tmp_path):
    out = tmp_path / "agreement.json"
    run = CliRunner().invoke(commands, ["labels", "agreement", *map(str, logs), "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert "anna and bert: 15 labels, 14 kept by both; 4 and 6 clusters, 4 matched" in run.output
    assert "κ of kinds" in run.output
    record = json.loads(out.read_text())
    printed = json.loads(CliRunner().invoke(commands, ["labels", "agreement", *map(str, logs), "--json"]).output)
    assert {name: value for name, value in record.items() if name != "manifest"} == printed
    assert len(record["manifest"]["inputs"]) == 3
    (pond,) = (row for row in printed["labels"] if row["label"] == "pond")
    assert (pond["first"], pond["second"]["name"]) == (None, "lake")


def test_a_log_is_not_compared_with_itself(logs):
    folder, anna, _ = logs
    with pytest.raises(ReviewError, match="two logs of anna"):
        compare(replayed(SMALL, anna)[0], replayed(SMALL, anna)[0])
    run = CliRunner().invoke(commands, ["labels", "agreement", str(folder), str(anna), str(anna)])
    assert run.exit_code != 0


def test_an_adjudication_begins_with_the_first_and_stands_alone(logs, tmp_path):
    folder, anna, bert = logs
    chief = session(tmp_path / "chief.jsonl", "chief")
    adjudication = compare(replayed(SMALL, anna)[0], replayed(SMALL, bert)[0])
    adjudication.begin(chief)
    adjudication.begin(chief)  # going on is not beginning anew
    chief.act(Settle(labels=("castle",), choice="second", name="fort", kind="human-made"), seq=1)
    chief.act(Settle(labels=("pond",), choice="second", to=1), seq=2)
    chief.act(Approve(clusters=(0,), approved=True), seq=3)
    anna.unlink()
    bert.unlink()
    result = reviewed(folder, tmp_path / "chief.jsonl")
    names = result.proposal.cluster_of()
    assert (names["castle"].name, names["pond"].name, names["footbridge"].name) == ("fort", "lake", "crossing")
    assert names["volcano"].name == names["temple"].name == "mountain"
    assert result.irrelevant == frozenset()
    history = chief.news(0).history
    with pytest.raises(ReviewError, match="nothing to undo"):
        history.apply(Undo()).apply(Undo()).apply(Undo()).apply(Undo())


def test_an_adjudication_does_not_go_on_with_reviews_that_changed(logs, tmp_path):
    _, anna, bert = logs
    chief = session(tmp_path / "chief.jsonl", "chief")
    compare(replayed(SMALL, anna)[0], replayed(SMALL, bert)[0]).begin(chief)
    session(anna, "anna", Rename(cluster=1, name="water"))
    with pytest.raises(ReviewError, match="began from anna's 3 events and bert's 2 events, not from anna's 4"):
        compare(replayed(SMALL, anna)[0], replayed(SMALL, bert)[0]).begin(chief)
    review = session(tmp_path / "other.jsonl", "chief", Rename(cluster=1, name="water"))
    with pytest.raises(ReviewError, match="began from the proposal"):
        compare(replayed(SMALL, anna)[0], replayed(SMALL, bert)[0]).begin(review)
