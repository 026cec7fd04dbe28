"""Which labels certainly belong to their cluster."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiertree.pipelines.labels import PlaceNounEncoder, propose
from hiertree.pipelines.labels.cluster.certainty import (
    are_catch_alls,
    bears_names,
    likelier_cluster,
    nearest_clusters,
    vouching_fractions,
)
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
def test_fractions_are_those_of_pairs_one_by_one(labels):
    lineages, assignment = [lineage for lineage, _ in labels], np.array([cluster for _, cluster in labels])
    below = {name: sum(name in lineage for lineage in lineages) for name in "abcdefgh"}
    specific = [{name for name in lineage if below[name] <= max(3, len(labels) / 10)} for lineage in lineages]
    fractions = vouching_fractions(lineages, assignment, 3)
    for row, (_, own) in enumerate(labels):
        for cluster in range(3):
            others = [other for other in np.flatnonzero(assignment == cluster) if other != row and lineages[other]]
            expected = sum(bool(specific[row] & specific[other]) for other in others) / max(len(others), 1)
            alone = cluster == own and (assignment == cluster).sum() == 1
            assert fractions[row, cluster] == (1 if alone else pytest.approx(expected))


def test_a_cluster_of_a_general_name_or_of_one_that_others_stand_below_is_a_catch_all():
    names = ["structure", "religious building", "church", "mosque", "temple", "lake"]
    lineages = [frozenset({name, "religious building"}) for name in names[:5]] + [frozenset({"lake"})]
    assignment = np.arange(6)
    bears = bears_names(lineages, names, names)
    assert are_catch_alls(names, bears, assignment).tolist() == [True, True, False, False, False, False]
    two = np.array([0, 1, 2, 3])
    assert not are_catch_alls(names[:4], bears[:4, :4], two)[2:].any()


def test_a_likelier_cluster_vouches_or_is_named_by_the_nearest_class_above():
    names, none = ["lake", "river", "fort"], np.zeros(3, dtype=bool)
    assert likelier_cluster(np.array([0.2, 0.6, 0.0]), (), names, none, 0) == 1
    assert likelier_cluster(np.array([0.2, 0.4, 0.0]), ("castle", "forts"), names, none, 0) == 2
    assert likelier_cluster(np.array([0.9, 0.4, 0.0]), ("lake",), names, none, 0) is None
    assert likelier_cluster(np.array([0.2, 0.6, 0.0]), (), names, np.array([False, True, False]), 0) is None


def test_a_second_encoder_compares_the_three_nearest_of_each_cluster():
    axes = np.eye(4, dtype=np.float32)
    vectors = axes[[0, 0, 1, 1, 1, 1, 2]]
    assert nearest_clusters(vectors, np.array([0, 1, 1, 1, 1, 0, 2]), 3).tolist() == [1, 0, 1, 1, 1, 1, 0]
    assert nearest_clusters(axes[:1], np.zeros(1, dtype=int), 1).tolist() == [-1]


def test_a_noun_that_contradicts_its_own_chain_is_never_certain_and_what_its_kin_vouch_for_is():
    chains = [("salar", "salt flat", "landform"), ("salt pan", "salt flat", "landform")]
    lakes = [(name, "lake", "body of water") for name in ("glacial lake", "crater lake", "tarn")]
    labels = dict.fromkeys(["salar", "salt pan", "glacial lake", "crater lake", "tarn", "road bridge", "footbridge"], 1)
    members = members_of(propose(labels, PlaceNounEncoder(), clusters=2, hypernyms=graph(*chains, *lakes)))
    assert members["tarn"].doubt == ""
    assert members["tarn"].vouched == 0.5  # two of four; the salt flats do not
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
