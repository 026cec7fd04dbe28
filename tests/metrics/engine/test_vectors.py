"""Equal and parallel vectors have equal scores, however a matrix product rounds; small integers have exact ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from small_tiles import small_tiles

from hiertree.metrics import evaluate, evaluate_scores
from hiertree.metrics.engine import vectors as engine_vectors
from hiertree.metrics.engine.vectors import first_of_equal, hashes_of

DEVICES = [None, "cpu", *(["cuda"] if torch.cuda.is_available() else [])]
SIZES = (*range(2, 34), 47, 64, 65, 100, 111, 333, 500, 1001, 2000)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tile_size", [None, 37])
def test_a_gallery_of_one_vector_is_one_tie_at_every_size(device, dtype, tile_size):
    random = np.random.default_rng(0)
    query, item = random.standard_normal((2, 64)).astype(dtype)
    for size in SIZES:
        labels = random.integers(0, 2, size)
        with small_tiles(tile_size):
            result = evaluate([query], [1], np.tile(item, (size, 1)), labels, device=device)
        expected = evaluate_scores(np.zeros((1, size)), [labels], num_levels=1)
        np.testing.assert_array_equal(result.values, expected.values, err_msg=str(size))


def drawn_with_duplicates(random, size, dtype):
    """Vectors that stand at several places, under several labels; so few that no two scores are nearly equal."""
    vectors = random.standard_normal((min(size // 3, 25), 64)).astype(dtype)
    return vectors[random.integers(0, len(vectors), size)], random.integers(0, 5, size)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ties", ["average", "worst"])
def test_tiles_threads_and_the_order_of_the_gallery_change_no_tie(device, dtype, ties, monkeypatch, tmp_path):
    for size in (111, 333):
        random = np.random.default_rng(size)
        embeddings, labels = drawn_with_duplicates(random, size, dtype)
        options = {"metrics": ["AP", "NDCG", "ASI"], "ties": ties, "device": device}
        expected = evaluate(embeddings, labels, **options).values
        np.save(tmp_path / "e.npy", embeddings)
        mapped = np.load(tmp_path / "e.npy", mmap_mode="r")
        for vectors, tile_size in ((embeddings, 64), (embeddings, 7), (mapped, None), (mapped, 50)):
            with small_tiles(tile_size):
                values = evaluate(vectors, labels, **options).values
            np.testing.assert_array_equal(values, expected)
        order = random.permutation(size)
        ids = np.arange(size)
        permuted = evaluate(
            embeddings, labels, embeddings[order], labels[order], query_ids=ids, gallery_ids=ids[order], **options
        )
        np.testing.assert_array_equal(permuted.values, expected)
        with monkeypatch.context() as patched, small_tiles(40):
            patched.setattr("hiertree.metrics.engine.compute.BUDGET", 2**12)  # tiles, and many products
            np.testing.assert_array_equal(evaluate(mapped, labels, **options).values, expected)


def test_equal_rows_are_found_whatever_their_hashes(monkeypatch):
    random = np.random.default_rng(2)
    vectors = random.integers(-1, 1, (200, 3)) * np.float32(0.5)
    vectors[vectors == 0] = random.choice([0.0, -0.0], (vectors == 0).sum())
    expected = [next(i for i in range(200) if (vectors[i] == row).all()) for row in vectors]
    np.testing.assert_array_equal(first_of_equal(hashes_of(vectors), lambda rows: vectors[rows]), expected)
    monkeypatch.setattr(engine_vectors, "_BYTES_AT_ONCE", 100)
    hashes = np.zeros(len(vectors), np.uint64)
    np.testing.assert_array_equal(first_of_equal(hashes, lambda rows: vectors[rows]), expected)
    distinct = np.arange(12, dtype=np.float32).reshape(6, 2)
    assert first_of_equal(hashes_of(distinct), lambda rows: distinct[rows]) is None


@pytest.mark.parametrize("device", DEVICES)
def test_parallel_vectors_tie(device):
    result = evaluate([[3.0, 2.0]], [1], [[3.0, 3.0], [2.0, 2.0]], [0, 1], metrics=["AP"], device=device)
    assert result.summary()["AP"] == 0.75
    random = np.random.default_rng(3)
    for dtype, digits in ((np.float16, 2**5), (np.float32, 2**15), (np.float64, 2**40)):
        direction = random.integers(1, digits, 40) * 2.0 ** random.integers(-3, 3, 40) * random.choice([-1, 1], 40)
        factors = np.array([1, 2, 3, 5, 0.75, 3 / 64, 9, 13, 7 / 2, 25])[:, None]  # no digit of a product is lost
        gallery, query = (factors * direction).astype(dtype), random.standard_normal((1, 40)).astype(dtype)
        labels = random.integers(0, 2, len(gallery))
        expected = evaluate_scores(np.zeros((1, len(gallery))), [labels], num_levels=1).values
        for tile_size in (None, 3):
            with small_tiles(tile_size):
                values = evaluate(query, [1], gallery, labels, device=device).values
            np.testing.assert_array_equal(values, expected)


def exact_order(queries, items):
    """Scores that rank exactly as the cosines of integers do."""
    squares, products = (items**2).sum(axis=1), queries @ items.T
    cosines = [[Fraction(int(x) * abs(int(x)), int(n)) for x, n in zip(row, squares, strict=True)] for row in products]
    return np.array([[sorted(set(row)).index(value) for value in row] for row in cosines], np.float64)


def test_scores_of_small_integers_are_exact_in_every_tile_type_and_device(tmp_path):
    random = np.random.default_rng(4)
    for largest, dimensions, size in ((1, 8, 50), (2, 3, 20), (3, 33, 50), (9, 5, 111), (127, 64, 70)):
        items, queries = (random.integers(-largest, largest + 1, (n, dimensions)) for n in (size, 10))
        items[:, 0], queries[:, 0] = 1, 1  # not all 0
        items[: size // 3] = random.permuted(items[size // 3 : 2 * (size // 3)], axis=1)
        labels, query_labels = random.integers(0, 3, size), random.integers(0, 3, 10)
        options = {"metrics": ["AP", "NDCG", "ASI"]}
        levels = (query_labels[:, None] == labels).astype(int)
        expected = evaluate_scores(exact_order(queries, items), levels, num_levels=1, **options).values
        np.save(tmp_path / "items.npy", items.astype(np.float32) / 8)
        mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
        for gallery in (items, mapped, items.astype(np.int8), items.astype(np.float64) * 12):
            for device in DEVICES:
                for tile_size in (None, 3, 16):
                    with small_tiles(tile_size):
                        result = evaluate(queries, query_labels, gallery, labels, device=device, **options)
                    np.testing.assert_array_equal(result.values, expected)
