"""proposal.json is read back exactly, and refused where it would not become a tree."""

import json
from dataclasses import replace

import pytest

from hiertree.errors import TableError
from hiertree.pipelines.labels import (
    Cluster,
    LabelPlace,
    PlaceNounEncoder,
    Proposal,
    propose,
    read_proposal,
    write_proposal,
)

POND = LabelPlace("pond", 3, 0.9, 0.2, 0.5, "")
LAKE = Cluster("lake", "natural", 0.5, (POND,), "", above=("water",))
BRIDGE = Cluster("bridge", "human-made", -0.5, (replace(POND, label="viaduct"),), "kind", above=("transport",))
PROPOSAL = Proposal((LAKE, BRIDGE), {2: 0.25})


@pytest.fixture
def path(tmp_path):
    write_proposal(tmp_path / "proposal.json", PROPOSAL)
    return tmp_path / "proposal.json"


def test_a_proposal_is_read_back_exactly_from_the_same_bytes(path, tmp_path):
    assert read_proposal(path) == read_proposal(tmp_path) == PROPOSAL
    first = path.read_bytes()
    write_proposal(path, read_proposal(path))
    assert path.read_bytes() == first
    assert [cluster["id"] for cluster in json.loads(first)["clusters"]] == [0, 1]


def test_what_is_proposed_can_be_written(tmp_path):
    labels = {"lake": 9, "pond": 1, "road bridge": 4, "church building": 5, "mosque": 2, "café": 1}
    proposal = propose(labels, PlaceNounEncoder())
    write_proposal(tmp_path / "proposal.json", proposal)
    assert read_proposal(tmp_path) == proposal


@pytest.mark.parametrize(
    ("clusters", "complaint"),
    [
        ((), "no cluster"),
        ((replace(LAKE, labels=()),), "has no label"),
        ((replace(LAKE, kind="mineral"),), "'mineral'"),
        ((replace(LAKE, name=" "),), "the name ' '"),
        ((LAKE, replace(BRIDGE, name="lake")), "two clusters named 'lake'"),
        ((LAKE, replace(BRIDGE, labels=(POND,))), "'pond' is there twice"),
        ((LAKE, replace(BRIDGE, above=())), "different numbers of groups"),
        ((replace(LAKE, labels=(replace(POND, landmarks=-1),)),), "-1 landmarks"),
        ((replace(LAKE, margin=float("nan")),), "the number nan"),
    ],
)
def test_what_is_no_tree_is_neither_written_nor_read(tmp_path, clusters, complaint):
    with pytest.raises(TableError, match=complaint):
        write_proposal(tmp_path / "proposal.json", Proposal(clusters, {}))
    assert not (tmp_path / "proposal.json").exists()


@pytest.mark.parametrize(
    ("mend", "complaint"),
    [
        (lambda content: content.update(format="hiertree-proposal-2"), "format: Input should be"),
        (lambda content: content.pop("clusters"), "clusters: Field required"),
        (lambda content: content["clusters"][0].update(name=7), r"clusters.0.name: .* valid string"),
        (lambda content: content["clusters"][0]["labels"][0].update(landmarks="3"), "labels.0.landmarks"),
        (lambda content: content["clusters"].reverse(), "ids 0, 1, 2"),
        (lambda content: content["clusters"][0].update(color="red"), "only keys"),
        (lambda content: content["clusters"][1].update(name="lake"), "two clusters named"),
    ],
)
def test_a_file_that_was_changed_says_where(path, mend, complaint):
    content = json.loads(path.read_text())
    mend(content)
    path.write_text(json.dumps(content))
    with pytest.raises(TableError, match=complaint):
        read_proposal(path)


def test_a_file_that_is_cut_or_not_there_is_refused(path, tmp_path):
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError, match="EOF while parsing"):
        read_proposal(path)
    with pytest.raises(TableError, match="No such file"):
        read_proposal(tmp_path / "absent.json")
