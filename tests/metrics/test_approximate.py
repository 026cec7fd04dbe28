"""Search through faiss: exact where the index is exhaustive, honest where it is not, refused where it cannot do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hiertree.errors import OptionError
from hiertree.metrics import Approximate, evaluate

NAMES = ["R@1", "R@10[1]", "TR@10", "P@5[1]", "P@5", "mAP@20", "NDCG@10"]
EXHAUSTIVE = Approximate("ivf", lists=7, probes=7)


@pytest.fixture(scope="module")
def retrieval():
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(400) // 100, np.arange(400) // 10], axis=1)
    centres = random.standard_normal((40, 8))[paths[:, 1]]
    return (centres + random.standard_normal((400, 8))).astype(np.float32), paths


def share_found(result):
    return float(re.search(r"([\d.]+) % of the exact top", result.convention.approximation)[1]) / 100


def check_same(found, expected):
    """Equal values, but where two scores differ by no more than a rounding: then either item may come first."""
    np.testing.assert_array_equal(np.isnan(found.values), np.isnan(expected.values))
    differs = np.nan_to_num(np.abs(found.values - expected.values)) > 1e-12
    assert differs.sum() <= 2
    assert found.names == expected.names
    assert found.convention.self_rule == expected.convention.self_rule


@pytest.mark.parametrize("ties", ["average", "worst", "index"])
def test_an_exhaustive_index_gives_the_exact_numbers(retrieval, ties):
    embeddings, paths = retrieval
    files = np.arange(400) // 2
    masks = {"query_ids": files[:50], "gallery_ids": files, "junk": [[(query + 9) % 400] for query in range(50)]}
    for given, options in (
        ((embeddings, paths), {}),
        ((embeddings, paths), {"compat": "delf"}),
        ((embeddings[:50], paths[:50], embeddings, paths), masks),
        ((embeddings[:50], paths[:50], embeddings[50:], paths[50:]), {"distractors": np.arange(350) % 3 == 0}),
        ((embeddings[:50].astype(np.float64), paths[:50], embeddings[50:], paths[50:]), {"protocol": "inshop"}),
    ):
        asked = {"metrics": None if "protocol" in options else NAMES, "ties": ties, **options}
        expected = evaluate(*given, **asked)
        found = evaluate(*given, **asked, approximate=EXHAUSTIVE)
        check_same(found, expected)
        assert share_found(found) == 1.0


def test_others_rules_and_lists_as_long_as_the_gallery_keep_their_meaning(retrieval):
    embeddings, paths = retrieval
    names = ["P@500", "R@5", "NDCG@400"]
    for compat in ("official", None):
        asked = {"metrics": names, "compat": compat, "ties": "index"}
        check_same(evaluate(embeddings, paths, **asked, approximate=EXHAUSTIVE), evaluate(embeddings, paths, **asked))


@pytest.mark.parametrize("how", ["hnsw", "ivf", Approximate("hnsw", links=2, breadth=1), Approximate("ivf", probes=1)])
def test_the_card_says_how_much_of_real_data_was_found(shared_data, how):
    """Pixels of handwritten characters, 784 dimensions, whose neighbourhoods no one designed."""
    with np.load(shared_data / "omniglot" / "omniglot_28x28.npz") as file:
        images = file["images"].reshape(len(file["images"]), -1)[::10].astype(np.float32)
    labels = np.arange(len(images)) // 2  # two of the twenty drawings of each character
    names = ["R@1", "R@10", "TR@10"]
    exact = evaluate(images, labels, metrics=names).summary()
    result = evaluate(images, labels, metrics=names, approximate=how)
    assert "APPROXIMATE" in str(result)
    assert result.as_dict()["convention"]["approximation"] == result.convention.approximation
    found = share_found(result)
    assert (exact - result.summary()).abs().max() <= 1.5 * (1 - found) + 0.02
    if isinstance(how, Approximate):
        assert found < 0.999


def test_the_recall_of_the_sample_is_that_of_all_queries(retrieval):
    embeddings, _ = retrieval
    how = Approximate("ivf", lists=20, probes=1, sample=400)
    found = evaluate(embeddings, np.arange(400), embeddings, np.arange(400), metrics=["P@10"], approximate=how)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    best = np.argsort(-(unit @ unit.T), axis=1)[:, :10]
    one_a_query = evaluate(
        np.repeat(embeddings, 10, axis=0), best.ravel(), embeddings, np.arange(400), metrics=["R@10"], approximate=how
    )
    assert share_found(found) == pytest.approx(one_a_query.summary()["R@10"], abs=1e-4)
    again = evaluate(embeddings, np.arange(400), embeddings, np.arange(400), metrics=["P@10"], approximate=how)
    np.testing.assert_array_equal(found.values, again.values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": None}, "H-AP, NDCG, ASI"),
        ({"metrics": ["R@1", "mAP@R"]}, "approximate= with mAP@R"),
        ({"metrics": ["AP"]}, "rank of every positive"),
        ({"metrics": ["P@5"], "compat": "revisitop"}, "look beyond"),
        ({"metrics": ["R@1"], "tile_size": 10}, "beside approximate="),
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
