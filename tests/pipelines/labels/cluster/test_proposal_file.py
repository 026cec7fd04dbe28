"""proposal.json is read back exactly, and refused where it would not become a tree; tables of clusters come in."""

import json
import re
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
from hiertree.pipelines.labels.cluster.embedding import embed
from hiertree.pipelines.labels.cluster.proposal_files import read_assignments
from hiertree.pipelines.labels.cluster.proposing import propose_assigned

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
        (lambda document: document.update(format="hiertree-proposal-2"), "format: Input should be"),
        (lambda document: document.pop("clusters"), "clusters: Field required"),
        (lambda document: document["clusters"][0].update(name=7), r"clusters.0.name: .* valid string"),
        (lambda document: document["clusters"][0]["labels"][0].update(landmarks="3"), "labels.0.landmarks"),
        (lambda document: document["clusters"].reverse(), "ids 0, 1, 2"),
        (lambda document: document["clusters"][0].update(color="red"), "only keys"),
        (lambda document: document["clusters"][1].update(name="lake"), "two clusters named"),
    ],
)
def test_a_file_that_was_changed_says_where(path, mend, complaint):
    document = json.loads(path.read_text())
    mend(document)
    path.write_text(json.dumps(document))
    with pytest.raises(TableError, match=complaint):
        read_proposal(path)


def test_a_file_that_is_cut_or_not_there_is_refused(path, tmp_path):
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError, match="EOF while parsing"):
        read_proposal(path)
    with pytest.raises(TableError, match="No such file"):
        read_proposal(tmp_path / "absent.json")


def assignments(tmp_path, *rows):
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["label,cluster,name,kind,group", *rows]) + "\n")
    return table


def test_clusters_from_elsewhere_stay_and_what_they_lack_is_added(tmp_path):
    labels = ["Lake", "pond", "road bridge", "footbridge", "stray", "odd"]
    rows = [
        "lake,3,standing water,,",
        "pond,3,,,",
        "road bridge,x,,human-made,",
        "footbridge,x,,either,",
        "stray,-1,,,",
    ]
    clusters = read_assignments(assignments(tmp_path, *rows, "elsewhere,9,,,"), labels)
    embedding = embed(labels, PlaceNounEncoder())
    of = propose_assigned(embedding, dict.fromkeys(labels, 1), clusters, levels=0).cluster_of()
    assert {label: (of[label].name, of[label].kind) for label in labels} == {
        "Lake": ("standing water", "natural"),
        "pond": ("standing water", "natural"),
        "road bridge": ("x", "human-made"),
        "footbridge": ("x", "human-made"),
        "stray": ("unknown", "human-made"),
        "odd": ("unknown", "human-made"),
    }
    assert [member.label for member in of["footbridge"].labels if member.either] == ["footbridge"]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["lake,1,,,", "Lake,2,,,"], "line 3: 'Lake' (cluster '2') again, after 'lake' (cluster '1') on line 2"),
        (["lake,1,,natur,"], "line 2: kind 'natur': expected natural, human-made or either"),
        (["lake,1,a,,", "pond,1,b,,"], "line 3: name 'b' for a cluster of name 'a'"),
        (["church,1,,,"], "lacks 2 of 2 labels, 'lake' for one"),
    ],
)
def test_odd_rows_of_a_table_are_named(tmp_path, rows, complaint):
    with pytest.raises(TableError, match=re.escape(complaint)):
        read_assignments(assignments(tmp_path, *rows), ["lake", "pond"])
    with pytest.raises(TableError, match="line 2: the label 'fjord'"):
        read_assignments(assignments(tmp_path, "fjord,1,,,"), ["lake"], whole=True)
