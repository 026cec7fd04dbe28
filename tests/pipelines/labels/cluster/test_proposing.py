"""Encoding, clustering, kinds and names."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples

from hiertree.errors import EmbeddingError, OptionError
from hiertree.pipelines.labels import PlaceNounEncoder, choose_k, propose, spherical_kmeans
from hiertree.pipelines.labels.cluster.clustering import silhouettes
from hiertree.pipelines.labels.cluster.embedding import embed, known_margin
from hiertree.pipelines.labels.cluster.naming import groups_above, propose_names
from hiertree.pipelines.labels.cluster.proposing import settle_kinds, settle_senses
from hiertree.pipelines.labels.cluster.step import agreement, measure_quality
from hiertree.pipelines.labels.encode.hypernyms import Hypernyms
from hiertree.pipelines.labels.encode.place_nouns import thesaurus

COUNTS = {
    "lake": 9,
    "glacial lake": 2,
    "pond": 1,
    "road bridge": 4,
    "railway bridge": 3,
    "footbridge": 1,
    "church building": 5,
    "Catholic cathedral": 2,
    "mosque": 2,
    "urban park": 3,
    "botanical garden": 1,
    "Washington state park": 6,
    "national park": 2,
}


ROOTS = {"water": "Q15324", "built": "Q811979"}
NOTHING = Hypernyms({}, {})


def unit(seed, n, d):
    vectors = np.random.default_rng(seed).normal(size=(n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_place_noun_vectors_are_unit_and_see_sense_before_letters():
    texts = ["lodge", "hotel", "bridge", "viaduct"]
    vectors = PlaceNounEncoder().encode(texts)
    lodge, hotel, bridge, viaduct = vectors
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert lodge @ hotel > lodge @ bridge < bridge @ viaduct


def test_owners_and_proper_names_weigh_little():
    texts = ["Washington state park", "Oregon state park", "Washington lighthouse"]
    first, second, third = PlaceNounEncoder().encode(texts)
    assert first @ second > 0.8 > first @ third + 0.5


def test_without_senses_only_letters_speak():
    lake, lakes, pond = PlaceNounEncoder(senses=False).encode(["lake", "lakes", "pond"])
    assert lake @ lakes > 0.9
    assert abs(lake @ pond) < 0.1


def test_a_text_without_letters_is_named():
    with pytest.raises(EmbeddingError, match="'123'"):
        PlaceNounEncoder(senses=False).encode(["lake", "pond", "123"])


def test_kmeans_finds_planted_clusters():
    centers = np.eye(4, dtype=np.float32)
    truth = np.repeat(np.arange(4), 10)
    vectors = centers[truth] + 0.05 * np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assignment = spherical_kmeans(vectors, 4)
    assert len({(a, b) for a, b in zip(truth, assignment, strict=True)}) == 4
    assert choose_k(vectors)[0] == 4


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_clusters_are_numbered_by_size_and_repeatable(seed, k):
    vectors = unit(seed, 12, 3)
    first, second = (spherical_kmeans(vectors, k, seed=seed, restarts=3) for _ in range(2))
    sizes = np.bincount(first)
    assert (sizes[:-1] >= sizes[1:]).all()
    assert (sizes > 0).all()
    assert np.array_equal(first, second)


def test_clusters_hardly_depend_on_where_the_runs_start():
    """The best of twenty runs has an adjusted Rand index of 0.67 with the best of twenty others, on the average."""
    vectors = PlaceNounEncoder().encode(thesaurus().anchors("natural")[:400])
    assignments = [spherical_kmeans(vectors, 40, seed=seed).tolist() for seed in range(4)]
    assert np.mean([agreement(assignment, second)["ari"] for assignment, second in combinations(assignments, 2)]) > 0.75


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_silhouettes_are_those_of_rousseeuw(seed, k):
    vectors = unit(seed, 30, 4)
    vectors[1] = vectors[0]
    assignment = np.random.default_rng(seed).integers(0, k, 30)
    distances, expected = 1 - vectors.astype(np.float64) @ vectors.T, np.zeros(30)
    for row, cluster in enumerate(assignment):
        means = {other: distances[row, assignment == other].mean() for other in set(assignment) - {cluster}}
        size = (assignment == cluster).sum()
        if size > 1 and means:
            cohesion, separation = distances[row, assignment == cluster].sum() / (size - 1), min(means.values())
            expected[row] = (separation - cohesion) / max(cohesion, separation)
    assert np.allclose(silhouettes(vectors, assignment), expected, atol=1e-5)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(1, 3))
def test_the_number_of_clusters_lies_between_half_a_root_and_a_third_of_the_labels(seed, n, restarts):
    k, scores = choose_k(unit(seed, n, 3), seed=seed, restarts=restarts)
    assert k in scores
    assert max(2, round(np.sqrt(n) / 2)) >= min(scores) >= 2
    assert max(scores) == max(2, n // 3)


@pytest.mark.parametrize("labels", [{"lake": 1}, {"lake": 2, "church": 1}])
def test_one_label_or_two_have_no_silhouette(labels):
    proposal = propose(labels, PlaceNounEncoder())
    assert [cluster.name for cluster in proposal.clusters] == list(labels)
    assert proposal.silhouettes == {}
    assert measure_quality(proposal, embed(labels, PlaceNounEncoder()))["silhouette"] is None


@pytest.mark.parametrize(("labels", "k", "sample_size"), [(8192, 3, 8192), (8193, 3, 4096), (8193, 1100, 4400)])
def test_distances_are_taken_of_all_labels_up_to_512_mb_and_of_some_beyond(monkeypatch, labels, k, sample_size):
    def pdist(runs, _):
        raise MemoryError(len(runs))

    monkeypatch.setattr("scipy.spatial.distance.pdist", pdist)
    with pytest.raises(MemoryError, match=f"^{sample_size}$"):
        spherical_kmeans(unit(0, labels, 3), k, restarts=1)


def test_of_many_labels_those_not_drawn_join_the_cluster_that_most_runs_put_them_in():
    truth = np.random.default_rng(0).integers(0, 12, 9000)
    vectors = np.eye(12, dtype=np.float32)[truth] + 0.1 * unit(1, 9000, 12)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assignment = spherical_kmeans(vectors, 12, restarts=3)
    assert agreement(assignment.tolist(), truth.tolist())["ari"] == 1
    some = np.random.default_rng(1).permutation(9000)[:8000]
    expected = spherical_kmeans(vectors[some], 12, restarts=3)
    assert agreement(assignment[some].tolist(), expected.tolist())["ari"] == 1
    assert np.allclose(
        silhouettes(vectors, assignment), silhouette_samples(vectors, assignment, metric="cosine"), atol=1e-6
    )


def test_no_more_clusters_are_proposed_than_people_can_review():
    """The silhouette of pairs is best at 150 clusters."""
    pairs = np.repeat(unit(0, 150, 200), 2, axis=0) + 0.01 * unit(1, 300, 200)
    pairs /= np.linalg.norm(pairs, axis=1, keepdims=True)
    assert choose_k(pairs, restarts=2)[0] == 100


@pytest.mark.parametrize("k", [0, 5])
def test_k_must_lie_between_one_and_the_number_of_different_rows(k):
    with pytest.raises(OptionError, match=f"k={k}"):
        spherical_kmeans(unit(0, 4, 3), k)


def test_weights_and_restarts_are_checked():
    with pytest.raises(OptionError, match="positive"):
        spherical_kmeans(unit(0, 4, 3), 2, weights=np.array([1.0, 0, 1, 1]))
    with pytest.raises(OptionError, match="restarts=0"):
        spherical_kmeans(unit(0, 4, 3), 2, restarts=0)
    with pytest.raises(OptionError, match="restarts=0"):
        choose_k(unit(0, 4, 3), restarts=0)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_after_settling_every_label_agrees_with_its_cluster_and_uncertain_ones_are_human_made(seed, k):
    rng = np.random.default_rng(seed)
    vectors, margins = unit(seed, 20, 3), rng.uniform(-2, 2, 20)
    start = np.unique(rng.integers(0, k, 20), return_inverse=True)[1]
    centers = unit(seed + 1, start.max() + 1, 3)
    kinds, means = settle_kinds(vectors, start, centers, margins)
    votes = np.where((margins >= 0.5) | (margins <= -1), margins, 0)
    sums = np.array([votes[kinds == c].sum() for c in range(kinds.max() + 1)])
    assert set(kinds) == set(range(len(means)))
    assert ((margins >= 0.5) == (sums > 0)[kinds]).all()
    assert np.allclose(means, sums / np.bincount(kinds))


def edges_between(names, *pairs, items=None):
    item_of = {name: f"Q{index}" for index, name in enumerate(names, 900_000_001)} | ROOTS
    edges = {(item_of[child], item_of[parent]): "api" for child, parent in pairs}
    return Hypernyms(edges, {item: name for name, item in item_of.items()}, items or {})


def test_list_and_source_say_a_kind_together_and_where_they_disagree_it_is_uncertain():
    names = ["lake", "Bergsee", "monster truck", "onsen", "hot spring", "harbor"]
    pairs = [("lake", "built"), ("Bergsee", "water"), ("monster truck", "built"), ("onsen", "hot spring")]
    graph = edges_between(names, *pairs, ("hot spring", "water"), ("harbor", "built"))
    of = {label: known_margin(label, graph) for label in ["salt lake", "Bergsee", "lake monster truck", *names]}
    assert of["Bergsee"] == of["hot spring"] == 2
    assert of["monster truck"] <= -1
    assert of["harbor"] == -2
    assert 0.5 <= of["onsen"] < 1  # the list has a bath, the source water above it
    assert -1 < of["lake"] == of["salt lake"] < 1
    assert known_margin("studio glass", graph) is None
    assert known_margin("lake monster", NOTHING) == 0.6


def test_a_noun_of_both_kinds_is_certain_by_its_item_alone():
    pairs = [("saddle", "water")]
    by_name, by_item = (edges_between(["saddle"], *pairs, items=item) for item in ({}, {"saddle": ("Q900000001",)}))
    assert (known_margin("saddle", by_name), known_margin("saddle", by_item)) == (0.9, 2)


@given(st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4), min_size=1, max_size=8), st.randoms())
def test_names_are_unique_and_not_empty(sizes, random):
    nouns = ["lake", "park", "state park", "glass", "odd thing", "church building", "Road bridge", "123", "x y"]
    labels = iter(f"{random.choice(nouns)} {suffix}".strip() for suffix in ["", *map(chr, range(97, 97 + 40))])
    names = propose_names([{next(labels): size for size in cluster} for cluster in sizes])
    assert len(set(names)) == len(names) == len(sizes)
    assert all(name.strip() for name in names)


def test_a_proposal_is_a_tree_a_person_would_accept():
    proposal = propose(COUNTS, PlaceNounEncoder(), clusters=5)
    clusters = {
        cluster.name: (cluster.kind, {member.label for member in cluster.labels}) for cluster in proposal.clusters
    }
    assert clusters == {
        "lake": ("natural", {"lake", "glacial lake", "pond"}),
        "bridge": ("human-made", {"road bridge", "railway bridge", "footbridge"}),
        "church": ("human-made", {"church building", "Catholic cathedral", "mosque"}),
        "urban park": ("human-made", {"urban park", "botanical garden"}),
        "state park": ("natural", {"Washington state park", "national park"}),
    }


def test_the_order_of_labels_does_not_matter():
    backwards = dict(reversed(COUNTS.items()))
    assert propose(COUNTS, PlaceNounEncoder()) == propose(backwards, PlaceNounEncoder())


def test_what_nothing_is_known_of_stands_in_a_cluster_for_people_with_guesses():
    proposal = propose({**COUNTS, "samadhi": 1, "lakeish": 2}, PlaceNounEncoder(), clusters=5, levels=1)
    members = {member.label: member for member in proposal.cluster_of()["samadhi"].labels}
    assert (proposal.cluster_of()["lakeish"].name, set(members)) == ("unknown", {"samadhi", "lakeish"})
    assert members["lakeish"].doubt.startswith("kind, unknown: lake")
    assert members["lakeish"].margin == 0
    assert proposal.cluster_of()["lake"].labels[0].doubt == ""
    assert proposal.cluster_of()["lakeish"].above == ("unknown",)


def test_what_is_no_landmark_stands_apart_with_the_reason():
    reasons = {"film": "no landmark: creative work", "human": "no landmark: person"}
    reasons["listed building"] = "any look: heritage designation"
    proposal = propose({**COUNTS, **dict.fromkeys(reasons, 1)}, PlaceNounEncoder())
    for label, reason in reasons.items():
        members = {member.label: member for member in proposal.cluster_of()[label].labels}
        assert members[label].doubt.startswith(reason)
        assert members.keys() <= reasons.keys()


def test_cosines_alone_are_never_certain_of_natural():
    class Meaning(PlaceNounEncoder):
        kind_margin = 0.001

    embedding = embed(["lakeish", "river", "bridgeish"], Meaning(), hypernyms=NOTHING)
    margins = dict(zip(embedding.labels, embedding.margins.tolist(), strict=True))
    assert margins["bridgeish"] <= -1 < 0.5 <= margins["lakeish"] < 1 <= margins["river"]


def test_a_label_at_the_edge_of_another_sense_makes_a_cluster_of_its_own_where_the_number_is_free():
    vectors = np.repeat(np.eye(3, 4, dtype=np.float32), [3, 3, 1], axis=0)
    senses = np.array([*["lake"] * 3, *["church"] * 3, "hotel"], dtype=object)
    assignment = np.array([0, 0, 0, 1, 1, 1, 1])
    assert settle_senses(vectors, assignment, senses).tolist() == [0, 0, 0, 1, 1, 1, 2]
    nothing_known = np.array([*["lake"] * 3, *["church"] * 3, ""], dtype=object)
    assert settle_senses(vectors, assignment, nothing_known).tolist() == assignment.tolist()
    assert settle_senses(vectors, np.array([0, 0, 1, 1, 1, 1, 2]), senses).tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_an_encoder_that_knows_meaning_leaves_nothing_unknown():
    class Meaning(PlaceNounEncoder):
        kind_margin = 0.1

    proposal = propose({**COUNTS, "samadhi": 1}, Meaning(), clusters=6)
    assert "unknown" not in {cluster.name for cluster in proposal.clusters}


def test_a_label_stands_with_the_label_right_above_it_unless_the_list_tells_them_apart():
    names = ["fjord lake", "zeta water", "viaduct", "keep"]
    pairs = [("fjord lake", "zeta water"), ("zeta water", "water"), ("viaduct", "keep"), ("keep", "built")]
    graph = edges_between(names, *pairs)
    counts = {**COUNTS, **dict.fromkeys(names, 1), "river": 3, "stream": 1}
    for clusters in range(9, 13):  # fewer would leave the keep with the bridges
        of = propose(counts, PlaceNounEncoder(), clusters=clusters, hypernyms=graph).cluster_of()
        assert of["zeta water"].name == of["fjord lake"].name
        assert of["viaduct"].name != of["keep"].name
        doubt = {member.label: member.doubt for member in of["viaduct"].labels}["viaduct"]
        assert ("above it: keep" in doubt) == (len(of["viaduct"].labels) > 1)


@pytest.mark.parametrize("clusters", [0, 14])
def test_more_clusters_than_labels_are_refused(clusters):
    with pytest.raises(OptionError, match=f"k={clusters}"):
        propose(COUNTS, PlaceNounEncoder(), clusters=clusters)


@pytest.mark.parametrize("labels", [{"lake": 3}, {"samadhi": 1}, {"lake": 1, "samadhi": 1}])
def test_few_labels_make_a_tree_too(labels):
    proposal = propose(labels, PlaceNounEncoder(), levels=2)
    assert {member.label for cluster in proposal.clusters for member in cluster.labels} == set(labels)
    assert len(proposal.clusters) == len(labels)
    with pytest.raises(OptionError, match="no label"):
        propose({}, PlaceNounEncoder())


@pytest.mark.parametrize("clusters", [1, 2, 3])
def test_few_clusters_of_a_kind_have_as_many_levels_as_are_asked_for(clusters):
    nouns = ["lake", "mountain", "church"][:clusters]
    levels_above = groups_above(
        np.eye(3, dtype=np.float32)[:clusters], ["natural"] * clusters, nouns, [{n: 1} for n in nouns], levels=3
    )
    assert [len(groups) for groups in levels_above] == [3] * clusters
