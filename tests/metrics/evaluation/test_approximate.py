"""Search through faiss: exact where the index is exhaustive, honest where it is not, refused where it cannot do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hiertree.errors import InputError, OptionError
from hiertree.metrics import Approximate, evaluate

NAMES = ["R@1", "R@10[1]", "TR@10", "P@5[1]", "P@5", "mAP@20", "NDCG@10"]
EXHAUSTIVE = Approximate("ivf", lists=7, probes=7)


@pytest.fixture(scope="module")
def retrieval():
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(400) // 100, np.arange(400) // 10], axis=1)
    centers = random.standard_normal((40, 8))[paths[:, 1]]
    return (centers + random.standard_normal((400, 8))).astype(np.float32), paths


def share_found(result):
    return float(re.search(r"([\d.]+) % of the exact top", result.convention.approximation)[1]) / 100


def check_same(result, expected):
    """Equal values, but where two scores differ by no more than a rounding: then either item may come first."""
    np.testing.assert_array_equal(np.isnan(result.values), np.isnan(expected.values))
    differs = np.nan_to_num(np.abs(result.values - expected.values)) > 1e-12
    assert differs.sum() <= 2
    assert result.names == expected.names
    assert result.convention.self_rule == expected.convention.self_rule


@pytest.mark.parametrize("ties", ["average", "worst", "index"])
def test_an_exhaustive_index_gives_the_exact_numbers(retrieval, ties):
    embeddings, paths = retrieval
    files = np.arange(400) // 2
    masks = {"query_ids": files[:50], "gallery_ids": files, "junk": [[(query + 9) % 400] for query in range(50)]}
    for inputs, options in (
        ((embeddings, paths), {}),
        ((embeddings, paths), {"compat": "delf"}),
        ((embeddings[:50], paths[:50], embeddings, paths), masks),
        ((embeddings[:50], paths[:50], embeddings[50:], paths[50:]), {"distractors": np.arange(350) % 3 == 0}),
        ((embeddings[:50].astype(np.float64), paths[:50], embeddings[50:], paths[50:]), {"protocol": "inshop"}),
    ):
        settings = {"metrics": None if "protocol" in options else NAMES, "ties": ties, **options}
        expected = evaluate(*inputs, **settings)
        result = evaluate(*inputs, **settings, approximate=EXHAUSTIVE)
        check_same(result, expected)
        assert share_found(result) == 1.0


def test_others_rules_and_lists_as_long_as_the_gallery_keep_their_meaning(retrieval):
    embeddings, paths = retrieval
    names = ["P@500", "R@5", "NDCG@400"]
    for compat in ("official", None):
        settings = {"metrics": names, "compat": compat, "ties": "index"}
        check_same(
            evaluate(embeddings, paths, **settings, approximate=EXHAUSTIVE), evaluate(embeddings, paths, **settings)
        )


@pytest.mark.parametrize(
    "method", ["hnsw", "ivf", Approximate("hnsw", links=2, breadth=1), Approximate("ivf", probes=1)]
)
def test_the_card_says_how_much_of_real_data_was_found(shared_data, method):
    """Pixels of handwritten characters, 784 dimensions, whose neighborhoods no one designed."""
    with np.load(shared_data / "omniglot" / "omniglot_28x28.npz") as file:
        images = file["images"].reshape(len(file["images"]), -1)[::10].astype(np.float32)
    labels = np.arange(len(images)) // 2  # two of the twenty drawings of each character
    names = ["R@1", "R@10", "TR@10"]
    exact = evaluate(images, labels, metrics=names).summary()
    result = evaluate(images, labels, metrics=names, approximate=method)
    assert "APPROXIMATE" in str(result)
    assert result.as_dict()["convention"]["approximation"] == result.convention.approximation
    share = share_found(result)
    assert (exact - result.summary()).abs().max() <= 1.5 * (1 - share) + 0.02
    if isinstance(method, Approximate):
        assert share < 0.999


def test_the_recall_on_the_card_is_the_share_of_neighbors_found_the_query_itself_aside(retrieval):
    embeddings, names = retrieval[0], np.arange(400)
    method = Approximate("ivf", lists=20, probes=1, sample=400)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    order = np.argsort(3 * np.eye(400) - unit @ unit.T, axis=1)  # the query itself last
    for k in (1, 10):
        result = evaluate(embeddings, names // 2, metrics=[f"P@{k}"], approximate=method)
        one_a_query = evaluate(
            np.repeat(embeddings, k, axis=0),
            order[:, :k].ravel(),
            embeddings,
            names,
            metrics=[f"R@{k}"],
            query_ids=np.repeat(names, k),
            gallery_ids=names,
            approximate=method,
        )
        assert f"exact top {k} found" in result.convention.approximation
        assert share_found(result) == pytest.approx(one_a_query.summary()[f"R@{k}"], abs=1e-4)
    repeat = evaluate(embeddings, names // 2, metrics=["P@10"], approximate=method)
    np.testing.assert_array_equal(result.values, repeat.values)


def test_an_empty_query_set_and_lists_without_any_item_are_searched():
    embeddings, labels = np.eye(3, dtype=np.float32), [0, 0, 1]
    empty = evaluate(np.zeros((0, 3)), np.zeros(0, int), embeddings, labels, metrics=["R@1"], approximate="ivf")
    assert "no query to measure" in empty.convention.approximation
    junk = evaluate(
        embeddings, labels, embeddings, labels, metrics=["R@1"], junk=[[0, 1, 2], [0], []], approximate="hnsw"
    )
    assert junk.per_query()["R@1"].isna().tolist() == [True, False, False]


def exact_engine(embeddings):
    """A search of one's own that gives a query's neighbors in random order, without scores."""
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)

    def nearest(queries, k):
        best = np.argsort(-(queries @ units.T), axis=1)[:, :k]
        return np.random.default_rng(0).permuted(best, axis=1)

    return nearest


@pytest.mark.parametrize("size", [400, 50])
def test_any_engine_that_finds_all_gives_the_exact_numbers(retrieval, size):
    embeddings, paths = retrieval
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(8)
    index.add(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True))
    inputs = (embeddings, paths) if size == 400 else (embeddings[:size], paths[:size], embeddings, paths)
    expected = evaluate(*inputs, metrics=NAMES)
    for engine in (index, exact_engine(embeddings), Approximate(exact_engine(embeddings), sample=9)):
        result = evaluate(*inputs, metrics=NAMES, approximate=engine)
        check_same(result, expected)
        assert share_found(result) == 1.0
    assert "exact_engine.<locals>.nearest: 100.00 %" in result.convention.approximation


def test_an_engine_that_finds_one_item_in_two_is_said_to(retrieval):
    embeddings, paths = retrieval
    nearest = exact_engine(embeddings[::2])
    gaps = evaluate(
        embeddings,
        paths,
        metrics=["TR@10"],
        approximate=lambda query, k: np.pad(2 * nearest(query, 3), [(0, 0), (0, 4)], constant_values=-1),
    )
    assert 0.1 < share_found(gaps) < 0.3
    halves = evaluate(embeddings, paths, metrics=["TR@10"], approximate=lambda queries, k: 2 * nearest(queries, k))
    assert 0.35 < share_found(halves) < 0.65


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda queries, k: np.zeros((len(queries), k)), "float64 of shape"),
        (lambda queries, k: np.zeros((len(queries), k + 1), int), r"int64 of shape \(400, 7\)"),
        (lambda queries, k: np.zeros((len(queries), k), int), "outside the gallery or twice"),
        (lambda queries, k: np.full((len(queries), 1), 400), "outside the gallery or twice"),
        (lambda queries, k: np.arange(k), r"int64 of shape \(6,\): expected \(400, up to 6\)"),
    ],
)
def test_answers_that_are_no_neighbors_are_refused(retrieval, answer, words):
    with pytest.raises(InputError, match=words):
        evaluate(*retrieval, metrics=["R@5"], approximate=answer)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": None}, "H-AP, NDCG, ASI"),
        ({"metrics": ["R@1", "mAP@R"]}, "approximate= with mAP@R"),
        ({"metrics": ["AP"]}, "rank of every positive"),
        ({"metrics": ["P@5"], "compat": "revisitop"}, "look beyond"),
        ({"metrics": ["R@1"], "tile_size": 10}, "with approximate="),
        ({"metrics": ["R@1"], "approximate": "pq"}, "'hnsw' or 'ivf'"),
        ({"metrics": ["R@1"], "approximate": Approximate("ivf", lists=401)}, "401 lists"),
    ],
)
def test_what_needs_the_whole_ranking_is_refused(retrieval, options, words):
    with pytest.raises(OptionError, match=words):
        evaluate(*retrieval, **{"approximate": "ivf", **options})
    with pytest.raises(OptionError, match="probes=0"):
        Approximate("ivf", probes=0)


def test_the_worst_item_is_not_known_to_a_search(retrieval):
    embeddings, paths = retrieval
    with pytest.raises(OptionError, match="look beyond"):
        evaluate(embeddings, paths, embeddings, paths, metrics=["R@1"], compat="official", approximate="ivf")
