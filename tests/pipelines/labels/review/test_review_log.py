"""Reviews as logs: what they replay to, what they refuse, and what a crash leaves of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from review_server import SMALL

from hiertree.errors import OptionError, ReviewConflictError, ReviewError
from hiertree.pipelines.labels.cluster.proposal_files import write_proposal
from hiertree.pipelines.labels.review import reviewed
from hiertree.pipelines.labels.review.actions import (
    Accept,
    Approve,
    Check,
    MarkEither,
    MarkLabels,
    Merge,
    Move,
    Placement,
    Rename,
    Sample,
    SetAbove,
    SetKind,
    Split,
)
from hiertree.pipelines.labels.review.log_file import History, Redo, Undo
from hiertree.pipelines.labels.review.results import reviewed_proposal
from hiertree.pipelines.labels.review.serving import Session, open_review
from hiertree.pipelines.labels.review.state import State, initial_state

RECORDED = Path(__file__).with_name("review_recorded.jsonl")
BEGINNING = History.beginning(initial_state(SMALL), annotator="anna")
LABELS = sorted(BEGINNING.state.labels)


@pytest.fixture
def proposal(tmp_path):
    folder = tmp_path / "clustered"
    folder.mkdir()
    write_proposal(folder / "proposal.json", SMALL)
    return folder


def session(path, annotator="anna"):
    return Session(SMALL, path, annotator, clock=lambda: "2025-01-31T09:00:00+00:00")


def act(at, *requests):
    for request in requests:
        at.act(request, seq=at.news(0).history.seq)
    return at.news(0).history


def requests():
    """Any action on small numbers of clusters, old and new, and on real labels."""
    cluster_ids, names = st.integers(0, 8), st.sampled_from(["lake", "bridge", "x", "y", "naïve ☃"])
    labels = st.lists(st.sampled_from(LABELS), min_size=1, max_size=4, unique=True).map(tuple)
    select = st.lists(cluster_ids, min_size=1, max_size=3).map(tuple)
    kinds = st.sampled_from(["natural", "human-made"])
    return st.one_of(
        st.builds(Rename, cluster=cluster_ids, name=names),
        st.tuples(cluster_ids, cluster_ids).map(lambda pair: Merge(clusters=pair, into=pair[1])),
        st.builds(Move, labels=labels, to=cluster_ids),
        st.builds(Move, labels=labels, name=names, kind=kinds),
        st.builds(Split, cluster=cluster_ids, labels=labels, name=names, method=st.just("selection")),
        st.builds(MarkLabels, labels=labels, irrelevant=st.booleans()),
        st.builds(MarkEither, labels=labels, either=st.booleans()),
        st.builds(
            Accept,
            moves=st.lists(st.builds(Placement, labels=labels, to=cluster_ids), min_size=1, max_size=3).map(tuple),
        ),
        st.builds(SetKind, clusters=select, kind=kinds),
        st.builds(SetAbove, clusters=select, above=st.lists(names, max_size=2).map(tuple)),
        st.builds(Approve, clusters=select, approved=st.booleans()),
        st.builds(Check, labels=labels),
        st.builds(Sample, labels=labels, doubted=st.just(())),
        st.builds(Undo),
        st.builds(Redo),
    )


@settings(max_examples=60)
@given(st.lists(requests(), max_size=25))
def test_any_actions_replay_from_their_log_to_the_same_state_and_undo_to_the_first(tmp_path_factory, actions):
    path = tmp_path_factory.mktemp("log") / "anna.jsonl"
    at = session(path)
    for request in actions:
        history_before = at.news(0).history
        try:
            state = act(at, request)
        except ReviewError:
            assert at.news(0).history == history_before  # refused as a whole
            continue
        assert state.state.digest == State.of(state.state.clusters.values()).digest  # kept up to date, and from scratch
        assert state.state.labels == frozenset(LABELS)
        if not isinstance(request, Undo | Redo) and state.seq == history_before.seq + 1:  # no sample was drawn after it
            assert state.apply(Undo()).state == history_before.state
            assert state.apply(Undo()).apply(Redo()).state == state.state
    history = at.news(0).history
    assert session(path).news(0).history == history
    names = [cluster.name for cluster in history.state.clusters.values()]
    assert len(names) == len(set(names))
    while history.done:
        history = history.apply(Undo())
    assert history.state == BEGINNING.state


def test_a_recorded_review_leads_to_the_clusters_it_led_to(proposal):
    result = reviewed(proposal, RECORDED)
    left = {
        cluster.name: (cluster.kind, cluster.above, [member.label for member in cluster.labels])
        for cluster in result.proposal.clusters
    }
    assert left == {
        "lake": ("human-made", ("town",), ["lake"]),
        "crossing": ("human-made", ("crossing",), ["road bridge", "railway bridge", "footbridge"]),
        "museum": ("human-made", ("town",), ["museum", "art museum"]),
        "church": ("human-made", ("church",), ["church building", "cathedral"]),
        "mountain": ("human-made", ("mountain",), ["mountain", "summit", "volcano"]),
        "still water": ("natural", ("still water",), ["reservoir", "pond"]),
        "castle": ("human-made", ("castle",), ["castle"]),
    }
    assert (result.events, result.approved, result.torn, result.irrelevant) == (16, 2, 0, {"temple"})
    assert [member.doubt for member in result.proposal.cluster_of()["reservoir"].labels] == ["", ""]
    assert reviewed(proposal, RECORDED) == result


def test_a_review_that_changes_nothing_leaves_the_proposal(proposal, tmp_path):
    session(tmp_path / "log.jsonl")
    assert set(reviewed(proposal, tmp_path / "log.jsonl").proposal.clusters) == set(SMALL.clusters)


def test_a_log_cut_anywhere_keeps_what_is_whole_and_sets_the_rest_aside(tmp_path):
    log_bytes = RECORDED.read_bytes()
    ends = [at for at, byte in enumerate(log_bytes) if byte == ord("\n")]
    for cut in sorted({*range(0, len(log_bytes), 37), *ends, *(end + 1 for end in ends)}):
        path = tmp_path / f"{cut}" / "log.jsonl"
        path.parent.mkdir()
        path.write_bytes(log_bytes[:cut])
        at = session(path)
        complete = sum(end <= cut for end in ends)  # a line whose end alone is lacking counts
        assert at.news(0).history.seq == max(complete - 1, 0)
        set_aside = path.with_name("log.jsonl.torn")
        torn = log_bytes[:cut].rpartition(b"\n")[2] if cut not in ends else b""
        assert (set_aside.read_bytes() if set_aside.exists() else b"") == (torn + b"\n" if torn else b"")
        assert bool(at.log.notices) == bool(torn)
        if complete:
            assert path.read_bytes() == log_bytes[: ends[complete - 1] + 1]


def test_reading_a_cut_log_counts_what_is_torn_and_touches_nothing(proposal, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(RECORDED.read_bytes()[:-40])
    result = reviewed(proposal, path)
    assert (result.events, result.torn > 0) == (15, True)
    assert path.read_bytes() == RECORDED.read_bytes()[:-40]
    assert list(tmp_path.glob("*.torn")) == []


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda lines: [*lines[:3], lines[3][:30], *lines[4:]], "line 4: .*JSON"),
        (lambda lines: [*lines[:3], *lines[4:]], "line 4: event 4: expected event 3"),
        (lambda lines: [*lines[:3], lines[3].replace("fortification", "castles"), *lines[4:]], "line 5: made in state"),
        (lambda lines: [*lines[:3], lines[3].replace('"do":"move"', '"do":"fly"'), *lines[4:]], "line 4: action"),
        (lambda lines: [*lines[:3], lines[3].replace('"castle"', '"pyramid"'), *lines[4:]], "line 4: label 'pyramid'"),
        (lambda lines: ["", *lines], "line 1: "),
        (lambda lines: [lines[0].replace("review-1", "review-9"), *lines[1:]], "line 1: format"),
        (lambda lines: [lines[0].replace('proposal":"', 'proposal":"0'), *lines[1:]], "another proposal"),
        (lambda _: [], "no complete line"),
    ],
)
def test_damage_before_the_last_line_is_refused_by_its_line(proposal, tmp_path, damage, complaint):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{line}\n" for line in damage(RECORDED.read_text().splitlines())))
    log_bytes = path.read_bytes()
    with pytest.raises(ReviewError, match=complaint):
        reviewed(proposal, path)
    assert path.read_bytes() == log_bytes


def test_two_servers_on_one_log_see_each_other_and_refuse_what_is_stale(tmp_path):
    first, second = session(tmp_path / "log.jsonl"), session(tmp_path / "log.jsonl")
    first.act(Rename(cluster=0, name="crossing"), seq=0)
    with pytest.raises(ReviewConflictError, match="log is at event 1"):
        second.act(Rename(cluster=1, name="water"), seq=0)
    news = second.act(Rename(cluster=1, name="water"), seq=1)
    assert news.messages == ("Renamed lake to water",)
    assert first.news(1).messages == ("Renamed lake to water",)
    assert set(first.news(0).clusters) == {0, 1}
    assert first.news(0).history == second.news(0).history


def test_a_disk_that_refuses_leaves_log_and_state_as_they_were(tmp_path, monkeypatch):
    at = session(tmp_path / "log.jsonl")
    act(at, Rename(cluster=0, name="crossing"))
    log_bytes = (tmp_path / "log.jsonl").read_bytes()

    def refuse(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("hiertree.pipelines.labels.review.log_file.os.fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            at.act(Rename(cluster=1, name="water"), seq=1)
    assert (tmp_path / "log.jsonl").read_bytes() == log_bytes
    assert act(at, Rename(cluster=1, name="water")).seq == 2


def test_a_log_has_one_annotator_and_one_proposal(tmp_path, proposal):
    session(tmp_path / "log.jsonl")
    with pytest.raises(ReviewError, match="is anna's, not bert's"):
        session(tmp_path / "log.jsonl", "bert")
    with pytest.raises(ReviewError, match="another proposal"):
        Session(
            reviewed_proposal(SMALL, BEGINNING.apply(Rename(cluster=0, name="x")).state), tmp_path / "log.jsonl", "anna"
        )
    with pytest.raises(OptionError, match="annotator"):
        open_review(proposal, annotator="../anna")


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        (Rename(cluster=0, name="lake"), "another cluster is named 'lake'"),
        (Rename(cluster=0, name="bridge"), "changes nothing"),
        (Rename(cluster=99, name="x"), "no cluster 99"),
        (Merge(clusters=(1, 1), into=1), "two clusters or more"),
        (Merge(clusters=(0, 1), into=2), "two clusters or more"),
        (Move(labels=("lake",), to=1), "changes nothing"),
        (Move(labels=("lake",)), "without name or kind"),
        (Move(labels=("atlantis",), to=1), "label 'atlantis'"),
        (
            Split(cluster=0, labels=("road bridge", "railway bridge", "footbridge"), name="x", method="selection"),
            "not all",
        ),
        (Undo(), "nothing to undo"),
        (Redo(), "nothing to redo"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(action, complaint):
    with pytest.raises(ReviewError, match=complaint):
        BEGINNING.apply(action)


def test_a_group_above_has_one_place_in_the_tree():
    water = BEGINNING.apply(SetAbove(clusters=(1, 3), above=("water",)))
    with pytest.raises(ReviewError, match="'water' would lie in"):
        water.apply(SetAbove(clusters=(0,), above=("water",)))
    merged = water.apply(SetKind(clusters=(1, 3), kind="human-made"))
    assert {cluster.above for cluster in reviewed_proposal(SMALL, merged.state).clusters} == {
        ("water",),
        ("bridge",),
        ("museum",),
        ("church",),
    }


def test_a_cluster_of_another_kind_leaves_a_group_that_stays_behind():
    """As where ``labels cluster --levels 1`` puts every cluster into a group."""
    state = BEGINNING.apply(SetAbove(clusters=(1, 3), above=("landscape",)))
    state = state.apply(SetAbove(clusters=(0, 2, 4), above=("building", "public")))
    changed = state.apply(SetKind(clusters=(1,), kind="human-made"))
    assert changed.message == "Made lake human-made and took it out of landscape"
    lake = changed.state.clusters[1]
    assert (lake.kind, lake.above) == ("human-made", ())
    assert changed.state.clusters[3].above == ("landscape",)
    assert {cluster.name: cluster.above for cluster in reviewed_proposal(SMALL, changed.state).clusters} == {
        "lake": ("lake", "lake"),
        "mountain": ("landscape", "mountain"),
        "bridge": ("building", "public"),
        "museum": ("building", "public"),
        "church": ("building", "public"),
    }
    assert changed.apply(Undo()).state == state.state
    for cluster_id in range(5):  # whatever changes its kind, alone or together
        for kind in ("natural", "human-made"):
            if state.state.clusters[cluster_id].kind != kind:
                reviewed_proposal(SMALL, state.apply(SetKind(clusters=(cluster_id,), kind=kind)).state)
    state_of_all = state.apply(SetKind(clusters=(0, 1, 2, 3, 4), kind="natural")).state
    assert {cluster.above for cluster in state_of_all.clusters.values()} == {("landscape",), ("building", "public")}


def test_a_cluster_that_left_a_group_of_its_own_name_has_another_in_the_tree():
    state = BEGINNING.apply(SetAbove(clusters=(1, 3), above=("lake",)))
    left = reviewed_proposal(SMALL, state.apply(SetKind(clusters=(1,), kind="human-made")).state)
    group_of_cluster = {cluster.name: cluster.above for cluster in left.clusters}
    assert (group_of_cluster["lake"], group_of_cluster["mountain"]) == (("lake (human-made)",), ("lake",))


@pytest.mark.parametrize("sign", "\u202e\u202a\u2066\u2069\u200e\u061c\u200b\ufeff\u00ad\u2028\x07")
def test_names_hold_no_signs_that_are_not_seen(sign):
    """Such as those that turn the direction of what follows: two names that look alike would differ."""
    for values in ({"do": "rename", "cluster": 0}, {"do": "move", "labels": ("lake",), "kind": "natural"}):
        model = Rename if values["do"] == "rename" else Move
        with pytest.raises(ValidationError, match="invisible characters"):
            model.model_validate({**values, "name": f"la{sign}ke"})
    with pytest.raises(ValidationError, match="invisible characters"):
        SetAbove(clusters=(0,), above=(f"wa{sign}ter",))


@pytest.mark.parametrize("name", ["دریاچه\u200cها", "क्\u200dष", "אגם", "naïve ☃"])
def test_names_of_any_script_are_taken(name):
    assert BEGINNING.apply(Rename(cluster=0, name=name)).state.clusters[0].name == name


def test_clusters_may_change_places_at_once():
    cluster_ids = {cluster.name: cluster.number for cluster in BEGINNING.state.clusters.values()}
    lake, bridge = (BEGINNING.state.cluster(cluster_ids[name]) for name in ("lake", "bridge"))
    pairs = ((lake, bridge), (bridge, lake))
    moves = tuple(Placement(labels=tuple(sorted(a.labels)), to=b.number) for a, b in pairs)
    state = BEGINNING.apply(Accept(moves=moves)).state
    assert state.cluster(lake.number).labels == bridge.labels
    assert state.cluster(bridge.number).labels == lake.labels


def test_a_label_of_either_kind_keeps_its_mark_and_has_no_doubt_of_it(proposal, tmp_path):
    log = tmp_path / "anna.jsonl"
    act(session(log), MarkEither(labels=("reservoir",), either=True), Move(labels=("reservoir",), to=0))
    result = reviewed(proposal, log)
    assert result.either == {"reservoir"}
    (member,) = (p for cluster in result.proposal.clusters for p in cluster.labels if p.label == "reservoir")
    assert (member.doubt, result.proposal.cluster_of()["reservoir"].kind) == ("", "human-made")


def test_numbers_of_clusters_are_never_given_twice():
    split = BEGINNING.apply(Move(labels=("castle",), name="castle", kind="human-made"))
    state_after_undo = split.apply(Undo()).apply(Move(labels=("pond",), name="pond", kind="natural"))
    assert set(split.state.clusters) - set(BEGINNING.state.clusters) == {5}
    assert set(state_after_undo.state.clusters) - set(BEGINNING.state.clusters) == {6}


def test_the_log_says_when_and_by_whom_from_which_state(tmp_path):
    act(session(tmp_path / "log.jsonl"), Rename(cluster=0, name="crossing"), Approve(clusters=(0,), approved=True))
    header, first, second = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert header["proposal"] == first["base"] == BEGINNING.state.digest
    assert (first["seq"], first["annotator"], first["time"]) == (1, "anna", "2025-01-31T09:00:00+00:00")
    assert second["base"] == BEGINNING.apply(Rename(cluster=0, name="crossing")).state.digest
    assert first["action"] == {"do": "rename", "cluster": 0, "name": "crossing"}


def test_a_log_with_a_byte_order_mark_is_read_and_goes_on(proposal, tmp_path):
    log = tmp_path / "log.jsonl"
    act(session(log), Rename(cluster=0, name="crossing"))
    log.write_bytes(b"\xef\xbb\xbf" + log.read_bytes())
    assert "crossing" in {cluster.name for cluster in reviewed(proposal, log).proposal.clusters}
    assert act(session(log), Rename(cluster=0, name="span")).seq == 2
    assert reviewed(proposal, log).events == 2
