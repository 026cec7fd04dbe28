"""Whitening, expansion, augmentation and k-reciprocal scores beside slow references, and what they are worth."""

from __future__ import annotations

import numpy as np
import pytest
from reference_hyperbolic import distance, point
from reference_reranking import augmented, expanded_queries, reciprocal_scores, whitened

from hiertree.errors import InputError, OptionError
from hiertree.metrics import evaluate, evaluate_scores, rerank

RANDOM = np.random.default_rng(0)
QUERY, GALLERY = RANDOM.normal(size=(7, 5)), RANDOM.normal(size=(40, 5))


@pytest.mark.parametrize("dimensions", [1, 3, 5])
def test_whitening_is_that_of_the_singular_vectors(dimensions):
    vectors = rerank.pca_whitening(QUERY, GALLERY, dimensions=dimensions)
    expected = whitened(QUERY, GALLERY, dimensions)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-9)


def test_whitened_vectors_are_uncorrelated_and_directions_without_variance_are_left_out():
    flat = np.c_[GALLERY, GALLERY[:, 0]]
    assert rerank.pca_whitening(flat, flat).shape == (40, 5)
    with pytest.raises(OptionError, match=r"dimensions=6.*1 to 5"):
        rerank.pca_whitening(flat, flat, dimensions=6)


@pytest.mark.parametrize(("k", "alpha"), [(1, 3.0), (5, 0.0), (40, 2.5)])
def test_expanded_queries_are_those_of_the_definition(k, alpha):
    vectors = rerank.alpha_query_expansion(QUERY, GALLERY, k=k, alpha=alpha)
    if alpha == 0:  # where 0 ** 0 is 1 in the reference, the neighbors have positive cosines
        assert (GALLERY @ QUERY.T > 0).sum(axis=0).min() >= k
    np.testing.assert_allclose(vectors, expanded_queries(QUERY, GALLERY, k, alpha), atol=1e-12)


@pytest.mark.parametrize("k", [1, 4, 40])
def test_augmented_items_are_those_of_the_definition(k):
    np.testing.assert_allclose(rerank.database_augmentation(GALLERY, k=k), augmented(GALLERY, k), atol=1e-12)


@pytest.mark.parametrize(("k1", "k2", "weight"), [(6, 3, 0.3), (20, 6, 0.0), (5, 1, 1.0)])
def test_reciprocal_scores_are_those_of_the_definition(k1, k2, weight):
    values = rerank.k_reciprocal(QUERY, GALLERY, k1=k1, k2=k2, lambda_=weight)
    np.testing.assert_allclose(values, reciprocal_scores(QUERY, GALLERY, k1, k2, weight), atol=1e-9)
    scores_of_gallery = rerank.k_reciprocal(GALLERY, k1=k1, k2=k2, lambda_=weight)
    np.testing.assert_allclose(scores_of_gallery, scores_of_gallery.T, atol=1e-9)


def test_equal_vectors_are_their_own_first_neighbors():
    copies = np.repeat(GALLERY[:3], 5, axis=0)
    np.testing.assert_allclose(
        rerank.database_augmentation(copies, k=2), copies / np.linalg.norm(copies, axis=1)[:, None]
    )
    assert np.isfinite(rerank.k_reciprocal(copies, k1=3, k2=2)).all()


def test_types_stay_and_tensors_are_taken():
    torch = pytest.importorskip("torch")
    single = torch.from_numpy(GALLERY).float()
    assert rerank.database_augmentation(single).dtype == np.float32
    assert rerank.pca_whitening(single, single).dtype == np.float32
    assert rerank.alpha_query_expansion(single, single).dtype == np.float32
    assert rerank.k_reciprocal(single).dtype == np.float32


@pytest.mark.parametrize(
    "call",
    [
        lambda: rerank.alpha_query_expansion(QUERY, GALLERY, k=41),
        lambda: rerank.alpha_query_expansion(QUERY, GALLERY, alpha=-1),
        lambda: rerank.database_augmentation(GALLERY, k=0),
        lambda: rerank.k_reciprocal(QUERY, GALLERY, k1=47),
        lambda: rerank.k_reciprocal(QUERY, GALLERY, lambda_=1.5),
        lambda: rerank.k_reciprocal(QUERY, GALLERY[:, :4]),
        lambda: rerank.pca_whitening(QUERY[:, :2], GALLERY),
    ],
)
def test_what_cannot_be_is_refused(call):
    with pytest.raises(InputError):
        call()


def test_digits_are_found_better():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    pixels, labels = digits.data[:600], digits.target[:600]
    paths = np.c_[labels % 2, labels]
    first_score = evaluate(pixels, paths, metrics=["H-AP"]).summary()["H-AP"]
    augmented_pixels = rerank.database_augmentation(pixels, k=10)
    assert evaluate(augmented_pixels, paths, metrics=["H-AP"]).summary()["H-AP"] > first_score + 0.02
    levels = (paths[:, None] == paths[None]).cumprod(axis=2).sum(axis=2)
    valid = ~np.eye(len(paths), dtype=np.bool_)
    scored = evaluate_scores(rerank.k_reciprocal(pixels), levels, valid=valid, metrics=["H-AP"])
    assert scored.summary()["H-AP"] > first_score + 0.02


@pytest.mark.parametrize(("curvature", "scale"), [(0.1, 1.0), (1.0, 0.5), (0.02, 0.7)])
def test_search_by_cosine_of_poincare_vectors_is_search_by_hyperbolic_distance(curvature, scale):
    ball = {"curvature": curvature, "radius": 2.0, "scale": scale}
    labels = RANDOM.integers(0, 8, 40)
    paths = np.stack([labels // 3, labels], axis=1)
    points = [point(row, **ball) for row in GALLERY.tolist()]
    distances = np.array([[distance(x, y, curvature) for y in points] for x in points])
    assert len({round(np.linalg.norm(row), 6) for row in points}) > 10  # of different lengths, or cosines would do
    vectors = [rerank.poincare_vectors(GALLERY, role, **ball) for role in ("query", "item")]
    cosines = vectors[0] @ vectors[1].T
    lengths = 2 * curvature**0.5 * np.minimum(scale * np.linalg.norm(GALLERY, axis=1), 2.0)
    expected = (
        -np.cosh(curvature**0.5 * distances) / np.sqrt(np.cosh(2 * lengths) * np.cosh(8 * curvature**0.5))[:, None]
    )
    np.testing.assert_allclose(cosines, expected, rtol=1e-9)
    options = {"metrics": ["H-AP", "NDCG", "AP[1]", "R@1", "mAP@R"]}
    ids = np.arange(40)
    result = evaluate(vectors[0], paths, vectors[1], paths, query_ids=ids, gallery_ids=ids, **options)
    levels = (paths[:, None] == paths).cumprod(axis=2).sum(axis=2)
    brute = evaluate_scores(-distances, levels, valid=~np.eye(40, dtype=bool), **options)
    np.testing.assert_allclose(result.per_query(), brute.per_query(), rtol=1e-12)


def test_poincare_vectors_keep_their_type_and_refuse_another_role():
    vectors = rerank.poincare_vectors(np.float16(GALLERY), "item")
    assert vectors.dtype == np.float32
    assert vectors.shape == (40, 7)
    with pytest.raises(OptionError, match="role='gallery'"):
        rerank.poincare_vectors(GALLERY, "gallery")
    with pytest.raises(OptionError, match="radius=0"):
        rerank.poincare_vectors(GALLERY, "item", radius=0)
