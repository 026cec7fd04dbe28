"""A sample of the certain labels: how it is drawn, what it says, and what it puts in doubt."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from review_server import CLUSTERS, SMALL, proposal_of
from scipy.stats import beta

from hiertree.pipelines.labels.cluster.proposing import Cluster, LabelPlace, Proposal
from hiertree.pipelines.labels.review import sampling
from hiertree.pipelines.labels.review.actions import Check, MarkLabels, Move, Sample
from hiertree.pipelines.labels.review.results import read_outcome, reviewed_proposal, write_review_table
from hiertree.pipelines.labels.review.sampling import SampleResult, draw, next_sample, refit, sample_result, upper_bound
from hiertree.pipelines.labels.review.serving import Session
from hiertree.pipelines.labels.review.state import initial_state


def after(state, *actions):
    for action in actions:
        state = state.changed(action.change(state))
    return state


@settings(max_examples=30)
@given(st.integers(1, 9), st.data())
def test_the_bound_is_that_of_all_draws_one_by_one(certain, data):
    checked = data.draw(st.integers(1, certain))
    wrong = data.draw(st.integers(0, checked))
    likely = []
    for count in range(wrong, certain - (checked - wrong) + 1):
        draws = list(combinations(range(certain), checked))
        so_few = sum(sum(label < count for label in one) <= wrong for one in draws)
        likely += [count] if so_few / len(draws) >= 0.05 - 1e-12 else []
    assert upper_bound(wrong, checked, certain) == max(likely) / certain


def test_of_many_labels_the_bound_is_clopper_and_pearsons():
    assert upper_bound(6, 40, 10**6) == pytest.approx(beta.ppf(0.95, 7, 34), abs=1e-4)
    assert str(SampleResult(40, 40, 6, 10**6)) == "of 40 certain ones 6 were wrong: 15 %, at most 27 % (95 %)"
    assert str(SampleResult(40, 2, 1, 90)) == "of 2 certain labels looked at 1 was wrong; 38 are left to check"
    assert str(SampleResult(40, 0, 0, 90)) == "40 certain labels to check; if none is wrong, at most 4 % are (95 %)"


@given(st.integers(1, 400))
def test_a_sample_is_the_smallest_of_which_none_wrong_reaches_the_target(certain):
    size = sampling.sample_size(certain)
    assert upper_bound(0, size, certain) <= sampling.TARGET < upper_bound(0, size - 1, certain)


@given(st.integers(0, 10**6), st.integers(1, 15))
def test_certain_labels_are_drawn_by_the_size_of_their_cluster(seed, size):
    state = initial_state(SMALL)
    sample_labels = draw(SMALL, state, seed=seed, size=size)
    assert len(sample_labels) == len(set(sample_labels)) == min(size, 14)
    assert "reservoir" not in sample_labels  # in doubt
    assert sample_labels == draw(SMALL, state, seed=seed, size=size)
    for cluster in state.clusters.values():
        expected = len(cluster.labels - {"reservoir"}) * min(size, 14) / 14
        assert abs(len(cluster.labels & set(sample_labels)) - expected) < 1


def test_the_first_that_happens_to_a_label_is_its_verdict():
    state = after(initial_state(SMALL), Sample(labels=("lake", "castle", "temple", "pond", "summit")))
    assert sample_result(SMALL, state) == SampleResult(5, 0, 0, 14)
    state = after(
        state, Check(labels=("lake",)), Move(labels=("castle",), to=0), MarkLabels(labels=("pond",), irrelevant=True)
    )
    assert sample_result(SMALL, state) == SampleResult(5, 3, 2, 14)
    assert sample_result(SMALL, after(state, Move(labels=("lake",), to=0))).wrong == 2


def poor_and_good(count=60):
    """Labels that their cluster vouches for, and as many that it does not."""
    rows = [(f"good {n}", 1.0) for n in range(count)] + [(f"poor {n}", 0.0) for n in range(count)]
    members = tuple(LabelPlace(label, 1, 0.9, 0.3, -1, "", ("hall",), vouched=vouched) for label, vouched in rows)
    return Proposal((Cluster("hall", "human-made", -1, members, ""), *proposal_of(CLUSTERS).clusters), {})


def test_what_resembles_the_wrong_ones_loses_its_certainty_and_others_are_drawn():
    proposal = poor_and_good()
    state = initial_state(proposal)
    sample_labels = draw(proposal, state, seed=0)
    wrong = [label for label in sample_labels if label.startswith("poor")]
    state = after(state, Sample(labels=sample_labels))
    assert next_sample(proposal, state, seed=1) is None  # not looked at yet
    state = after(state, Move(labels=tuple(wrong), to=1), Check(labels=tuple(set(sample_labels) - set(wrong))))
    sample = next_sample(proposal, state, seed=1)
    assert sum(label.startswith("poor") for label in sample.doubted) >= 40  # of those that are left
    assert sum(label.startswith("good") for label in sample.doubted) < 10
    assert not set(sample.labels) & (set(sample.doubted) | set(sample_labels))
    doubts = {m.label: m.doubt for c in reviewed_proposal(proposal, after(state, sample)).clusters for m in c.labels}
    assert set(wrong) < set(sample.doubted)  # the next bound is not of those
    assert {doubts[label] for label in set(sample.doubted) - set(wrong)} == {"like those that were wrong"}
    assert {doubts[label] for label in sample_labels} == {""}


def test_without_verdicts_the_shipped_fit_stays_and_each_verdict_moves_it():
    rows = {"a": np.array([1, 1, 1, 2, 1.0]), "b": np.array([1, 0, 0, 2, 0.5])}
    shipped = {label: 1 / (1 + np.exp(-row @ np.array(sampling.SHIPPED))) for label, row in rows.items()}
    assert refit(rows, {}) == pytest.approx(shipped)
    assert refit(rows, {"b": True})["b"] > shipped["b"] > refit(rows, {"b": False})["b"]


def test_a_session_draws_anew_by_itself_and_writes_it_down(tmp_path):
    proposal = poor_and_good(30)
    session = Session(proposal, tmp_path / "log.jsonl", "anna")
    session.draw_sample(20)
    sample_labels = sorted(session.news(0).history.state.marked("sampled"))
    for label in sample_labels:
        action = Move(labels=(label,), to=1) if label.startswith("poor") else Check(labels=(label,))
        session.act(action, seq=session.news(0).history.seq)
    state = session.news(0).history.state
    assert state.marked("doubted")
    assert not state.marked("sampled") & set(sample_labels)
    assert Session(proposal, tmp_path / "log.jsonl", "anna").news(0).history.state == state


def test_a_table_says_what_was_checked_moved_and_left_out(tmp_path, caplog):
    caplog.set_level("INFO")
    table, start = tmp_path / "t.csv", after(initial_state(SMALL), Sample(labels=("lake", "castle", "summit")))
    write_review_table(table, SMALL, start, {})
    rows = table.read_text().splitlines()
    assert {row.split(",")[0] for row in rows[1:4]} == {"lake", "castle", "summit"}
    assert rows[4].startswith("reservoir,")  # in doubt; then the others
    assert (read_outcome(SMALL, table).events, caplog.text) == (0, "")
    edited = [row.replace("lake,20,lake,natural,,sample", "lake,20,lake,natural,,") for row in rows]
    edited = [row.replace("castle,3,museum", "castle,3,Fort") for row in edited]
    left_out = ("pond,", "summit,")
    edited = [
        ",".join([*row.split(",")[:2], "", *row.split(",")[3:]]) if row.startswith(left_out) else row for row in edited
    ]
    table.write_text("\n".join(edited))
    outcome = read_outcome(SMALL, table)
    state = outcome.state
    assert sample_result(SMALL, state) == SampleResult(3, 3, 2, 14)  # lake is right
    assert state.marked("irrelevant") == {"pond", "summit"}
    assert outcome.events == sum(old != new for old, new in zip(rows, edited, strict=True)) == 4
    assert "t.csv: new clusters: 1 ('Fort')" in caplog.text
    assert {cluster.name for cluster in state.clusters.values()} - {c.name for c in SMALL.clusters} == {"Fort"}
