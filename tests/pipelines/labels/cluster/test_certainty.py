"""Which labels certainly belong to their cluster."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiertree.pipelines.labels import PlaceNounEncoder, propose
from hiertree.pipelines.labels.cluster.certainty import (
    are_catch_alls,
    are_outside_core,
    bears_names,
    likelier_cluster,
    nearest_clusters,
    specific_classes,
    vouching_fractions,
)
from hiertree.pipelines.labels.cluster.embedding import embed
from hiertree.pipelines.labels.cluster.proposing import AssignedCluster, propose_assigned
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms

CLASSES = st.frozensets(st.sampled_from("abcdefgh"), max_size=4)


def members_of(proposal):
    return {member.label: member for cluster in proposal.clusters for member in cluster.labels}


def graph(*chains):
    """Edges along chains of names; the first of each stands for the label of its name."""
    edges = {(child, parent): "" for chain in chains for child, parent in pairwise(chain)}
    return Hypernyms(
        edges, {name: name for pair in edges for name in pair}, {chain[0]: (chain[0],) for chain in chains}
    )


@given(st.lists(st.tuples(CLASSES, st.integers(0, 2)), min_size=1, max_size=14))
def test_fractions_and_cores_are_those_of_labels_one_by_one(labels):
    lineages, assignment = [lineage for lineage, _ in labels], np.array([cluster for _, cluster in labels])
    below = {name: sum(name in lineage for lineage in lineages) for name in "abcdefgh"}
    specific = [{name for name in lineage if below[name] <= max(3, len(labels) / 10)} for lineage in lineages]
    classes, has_chain = specific_classes(lineages), np.array([bool(lineage) for lineage in lineages])
    fractions = vouching_fractions(classes, has_chain, assignment)
    outside = are_outside_core(classes, has_chain, assignment)
    for row, (lineage, own) in enumerate(labels):
        kin = [other for other in np.flatnonzero(assignment == own) if other != row]
        others = [other for other in kin if lineages[other]]
        expected = sum(bool(specific[row] & specific[other]) for other in others) / max(len(others), 1)
        assert fractions[row] == (pytest.approx(expected) if kin else 1)
        holders = {name: [other for other in others if name in specific[other]] for name in below}
        common_classes = [name for name in below if len(holders[name]) >= max(2, len(others) / 2)]
        core = [name for name in common_classes if below[name] == min(below[other] for other in common_classes)]
        is_above = any(specific[row] <= specific[other] for name in core for other in holders[name])
        assert outside[row] == bool(lineage and core and not specific[row] & set(core) and not is_above)


def test_a_cluster_of_a_general_name_or_of_one_that_others_stand_below_is_a_catch_all():
    names = ["structure", "religious building", "church", "mosque", "temple", "lake"]
    lineages = [frozenset({name, "religious building"}) for name in names[:5]] + [frozenset({"lake"})]
    assignment = np.arange(6)
    bears = bears_names(lineages, names, names)
    assert are_catch_alls(names, bears, assignment).tolist() == [True, True, False, False, False, False]
    two = np.array([0, 1, 2, 3])
    assert not are_catch_alls(names[:4], bears[:4, :4], two)[2:].any()


def test_a_likelier_cluster_is_that_of_the_narrowest_core_or_named_by_the_nearest_class_above():
    names = ["lake", "river", "fort", ""]
    assert likelier_cluster({0: 2, 1: 9, 2: 7}, ("lakes",), names, 0) == 2
    assert likelier_cluster({0: 2}, ("castle", "forts", "river"), names, 0) == 2
    assert likelier_cluster({}, ("lake",), names, 0) is None


def test_an_archive_among_museums_is_in_doubt_and_goes_to_where_most_are_archives():
    chains = [(f"{name} museum", "museum", "institution") for name in ("art", "sea")]
    chains += [("town archive", "archive", "institution"), ("state archive", "archive"), ("film archive", "archive")]
    labels = [chain[0] for chain in chains]
    hypernyms = Hypernyms(
        {edge: "" for chain in chains for edge in pairwise(chain) if edge != ("archive", "institution")}
        | {("town archive", "institution"): ""},
        {name: name for chain in chains for name in chain},
        {label: (label,) for label in labels},
    )
    clusters = [AssignedCluster(labels=tuple(labels[:3])), AssignedCluster(labels=tuple(labels[3:]))]
    embedding = embed(labels, PlaceNounEncoder(), hypernyms=hypernyms)
    members = members_of(propose_assigned(embedding, dict.fromkeys(labels, 1), clusters, levels=0))
    assert members["town archive"].vouched == 1
    assert (members["town archive"].doubt, members["town archive"].target) == ("above it: archive", "archive")
    assert [members[label].doubt for label in labels if label != "town archive"] == [""] * 4


def test_a_second_encoder_compares_the_three_nearest_of_each_cluster():
    axes = np.eye(4, dtype=np.float32)
    vectors = axes[[0, 0, 1, 1, 1, 1, 2]]
    assert nearest_clusters(vectors, np.array([0, 1, 1, 1, 1, 0, 2]), 3).tolist() == [1, 0, 1, 1, 1, 1, 0]
    assert nearest_clusters(axes[:1], np.zeros(1, dtype=int), 1).tolist() == [-1]


def test_a_noun_that_contradicts_its_own_chain_is_never_certain_and_what_its_kin_vouch_for_is():
    chains = [("salar", "salt flat", "landform")]
    lakes = [(name, "lake", "body of water") for name in ("glacial lake", "crater lake", "tarn")]
    names = [chain[0] for chain in (*chains, *lakes)]
    labels = dict.fromkeys([*names, "road bridge", "footbridge"], 1)
    members = members_of(propose(labels, PlaceNounEncoder(), clusters=2, hypernyms=graph(*chains, *lakes)))
    assert members["tarn"].doubt == ""
    assert members["tarn"].vouched == pytest.approx(2 / 3, abs=1e-4)  # the salt flat does not
    assert "above it: salt flat" in members["salar"].doubt
    # what has no chain is judged as before
    assert members["footbridge"].doubt == members["road bridge"].doubt == "few alike"


def test_what_a_chain_calls_no_landmark_is_marked_and_a_reserve_is_natural():
    chains = [("weaver", "animal colony"), ("zapovednik x", "protected area"), ("lake", "body of water")]
    labels = dict.fromkeys(["weaver", "zapovednik x", "lake", "pond", "city"], 1)
    hypernyms = graph(*chains)
    ids = {"protected area": "Q473972", "body of water": "Q15324"}
    edges = {(child, ids.get(parent, parent)): "" for child, parent in hypernyms.edges}
    proposal = propose(labels, PlaceNounEncoder(), hypernyms=Hypernyms(edges, hypernyms.names, hypernyms.items))
    assert members_of(proposal)["weaver"].doubt.startswith("no landmark: animal colony")
    assert proposal.cluster_of()["zapovednik x"].kind == "natural"


def test_a_label_whose_chain_says_both_kinds_is_either():
    both = Hypernyms({("gorge bath", "Q15324"): "", ("gorge bath", "Q811979"): ""}, {}, {"gorge bath": ("gorge bath",)})
    assert both.is_either("gorge bath")
    assert not graph(("lake", "body of water")).is_either("lake")
