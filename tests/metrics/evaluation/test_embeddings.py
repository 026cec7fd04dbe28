"""Embeddings: blocks, masks and types, against score matrices and plain loops."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import reference_metrics as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import cosines, names_for, random_paths, reference_metric
from small_tiles import small_tiles

import hiertree as ht
from hiertree.errors import DeviceError, EmbeddingError
from hiertree.metrics import Rules, evaluate, evaluate_scores
from hiertree.metrics.engine import blocks, compute


def grid_embeddings(random, num_items, dtype=np.float64):
    """Unit vectors along few directions: their cosines are exact in any type, and many are equal."""
    directions = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [1, 1, -1, -1], [-1, 0, 0, 0]], dtype)
    return directions[random.integers(0, len(directions), num_items)]


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 7),
    st.sampled_from(["self", "gallery", "junk"]),
    st.booleans(),
    st.sampled_from(["average", "paper", "index"]),
)
def test_self_gallery_and_junk_follow_the_definitions(seed, num_levels, retrieval, tied, ties):
    random, separate = np.random.default_rng(seed), retrieval != "self"
    draw = grid_embeddings if tied else lambda random, count: random.standard_normal((count, 4))
    embeddings, paths = draw(random, 6), random_paths(random, 6, num_levels)
    gallery = draw(random, 5) if separate else embeddings
    gallery_paths = random_paths(random, 5, num_levels) if separate else paths
    names, mask = names_for(num_levels), np.ones((6, len(gallery)), bool)
    options = {}
    if retrieval == "junk":
        options["junk"] = [random.permutation(5)[: random.integers(0, 4)] for _ in range(6)]
        for query, junk in enumerate(options["junk"]):
            mask[query, junk] = False
    elif retrieval == "self":
        np.fill_diagonal(mask, False)
    given_gallery = (gallery, gallery_paths) if separate else ()
    result = evaluate(embeddings, paths, *given_gallery, metrics=names, ties=ties, **options).per_query()
    scores, levels = cosines(embeddings, gallery), ht.levels(paths, gallery_paths)
    for query in range(6):
        own_scores, own_levels = scores[query][mask[query]].tolist(), levels[query][mask[query]].tolist()
        for name in names:
            metric = reference_metric(name, num_levels)
            expected = metric(own_scores, own_levels, ties == "paper")
            if ties == "average" and expected is not None:
                orders = reference.tied_orders(own_scores)
                expected = np.mean([metric(order, own_levels, False) for order in orders])
            value = result[name].iloc[query]
            assert (None if np.isnan(value) else value) == pytest.approx(expected, abs=1e-12), name


@pytest.fixture(scope="module")
def retrieval():
    random = np.random.default_rng(7)
    paths = random_paths(random, 301, 3)
    embeddings = random.standard_normal((301, 16)).astype(np.float32)
    embeddings[5] = embeddings[200]  # a duplicate ties with itself in every list
    return embeddings, paths


@pytest.mark.parametrize("ties", ["average", "worst", "best", "paper", "index"])
def test_the_block_size_and_the_threads_change_no_number(retrieval, ties, monkeypatch):
    embeddings, paths = retrieval
    monkeypatch.setattr(compute, "PRODUCT_ROWS", 16)
    expected = evaluate(embeddings, paths, ties=ties, block_size=301)
    for block_size in (None, 1, 17, 64):
        blocks = evaluate(embeddings, paths, ties=ties, block_size=block_size)
        np.testing.assert_array_equal(expected.values, blocks.values)
    for threads in (1, 7):
        monkeypatch.setattr("hiertree.metrics.engine.blocks.num_threads", lambda threads=threads: threads)
        np.testing.assert_array_equal(evaluate(embeddings, paths, ties=ties).values, expected.values)


@pytest.mark.parametrize("ties", ["average", "worst", "best", "paper", "index"])
@pytest.mark.parametrize("separate", [False, True])
def test_tiles_of_the_gallery_change_no_number(ties, separate, monkeypatch, tmp_path):
    random = np.random.default_rng(11)
    embeddings, paths = grid_embeddings(random, 90), random_paths(random, 90, 3)  # exact products, many ties
    junk = [[(query + 1) % 60, (query + 7) % 60] for query in range(30)]
    arrays = (embeddings[:30], paths[:30], embeddings[30:], paths[30:]) if separate else (embeddings, paths)
    options = {"ties": ties, "metrics": names_for(3)} | ({"junk": junk} if separate else {})
    expected = evaluate(*arrays, **options).values
    np.save(tmp_path / "gallery.npy", arrays[-2])
    mapped = (*arrays[:-2], np.load(tmp_path / "gallery.npy", mmap_mode="r"), arrays[-1])
    for ranking in ("whole lists", "tile by tile")[: 1 if ties == "index" else 2]:  # indices order whole lists alone
        layout = blocks.Layout(ranking, 16, 32)
        monkeypatch.setattr("hiertree.metrics.engine.compute.choose_layout", lambda *_, layout=layout, **__: layout)
        for items in (arrays, mapped):
            with small_tiles(7):
                np.testing.assert_array_equal(evaluate(*items, **options).values, expected)


def test_where_positives_are_few_only_a_tile_of_scores_is_held(monkeypatch):
    random = np.random.default_rng(12)
    embeddings = random.standard_normal((3000, 8)).astype(np.float32)
    paths = np.stack([np.arange(3000) // 20, np.arange(3000) // 5], axis=1)
    expected = evaluate(embeddings, paths).values
    monkeypatch.delattr("hiertree.metrics.engine.compute._Host._rank_lists")
    with small_tiles(500):
        tiled = evaluate(embeddings, paths).values
    np.testing.assert_allclose(tiled, expected, atol=1e-6)  # products of another shape may round differently


def test_a_memory_map_gives_the_numbers_of_the_array(retrieval, tmp_path):
    embeddings, paths = retrieval
    for dtype in (np.float16, np.float32, np.float64):
        np.save(tmp_path / "e.npy", embeddings.astype(dtype))
        mapped = np.load(tmp_path / "e.npy", mmap_mode="r")
        expected = evaluate(embeddings.astype(dtype), paths).values
        np.testing.assert_array_equal(evaluate(mapped, paths).values, expected)
        values = evaluate(mapped[:40], paths[:40], mapped, paths).values
        np.testing.assert_array_equal(values, evaluate(mapped[:40].copy(), paths[:40], mapped.copy(), paths).values)


@pytest.mark.parametrize(("ranking", "device"), [("whole lists", None), ("tile by tile", None), ("on a device", "cpu")])
def test_progress_rises_to_the_number_of_queries(ranking, device, retrieval, monkeypatch, capsys):
    layout = blocks.Layout(ranking, 16, 32)
    monkeypatch.setattr("hiertree.metrics.engine.compute.choose_layout", lambda *_, **__: layout)
    monkeypatch.setattr("hiertree.io.progress.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.delenv("HIERTREE_PROGRESS", raising=False)
    with small_tiles(50):
        evaluate(*retrieval, device=device, progress=True)
    lines = capsys.readouterr().err.splitlines()
    done = [int(line.removeprefix("queries: ").split("/")[0]) for line in lines]
    assert done == sorted(done)
    assert len(done) >= 10
    assert lines[-1] == "queries: 301/301"
    assert "s left" in lines[-2]


def test_memory_holds_no_block_of_scores_with_a_large_gallery(tmp_path):
    random = np.random.default_rng(13)
    np.save(tmp_path / "gallery.npy", random.standard_normal((200_000, 8), dtype=np.float32))
    gallery, labels = np.load(tmp_path / "gallery.npy", mmap_mode="r"), np.arange(200_000) // 5
    queries = np.array(gallery[:1000])
    evaluate(queries, labels[:1000], metrics=["AP"])
    tracemalloc.start()
    with small_tiles(8192):
        evaluate(queries, labels[:1000], gallery, labels, metrics=["AP"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # the scores of one product with the whole gallery take 205 MB


def test_bad_rows_of_a_memory_map_are_named(tmp_path):
    embeddings = np.ones((700, 3), np.float32)
    embeddings[600, 1] = np.nan
    np.save(tmp_path / "e.npy", embeddings)
    with pytest.raises(EmbeddingError, match=r"e\.npy.*rows from 512"):
        evaluate(np.load(tmp_path / "e.npy", mmap_mode="r"), np.zeros(700, int))


def test_torch_multiplies_on_the_device_asked_for(retrieval):
    embeddings, paths = retrieval
    double = embeddings.astype(np.float64)
    np.testing.assert_allclose(evaluate(double, paths, device="cpu").values, evaluate(double, paths).values, atol=1e-12)
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="cuda"):
            evaluate(embeddings, paths, device="cuda")
    with pytest.raises(DeviceError, match="abacus"):
        evaluate(embeddings, paths, device="abacus")


def test_float32_sorting_agrees_with_float64_sorting_of_the_same_scores():
    random = np.random.default_rng(3)
    scores = random.standard_normal((5, 4000)).astype(np.float32)
    scores[1] = np.round(scores[1], 1)
    scores[2] = 1e30 * scores[2] ** 3
    scores[3, ::2] = -0.0
    scores[3, 1::4] = 0.0
    scores[4, 0] = 1e6  # an outlier leaves all the others in one interval
    levels = random.integers(0, 4, scores.shape)
    for ties in ("average", "worst", "best", "paper", "index"):
        narrow, double = (evaluate_scores(s, levels, ties=ties).values for s in (scores, scores.astype(np.float64)))
        np.testing.assert_allclose(narrow, double, atol=1e-12)


def test_the_order_of_the_gallery_matters_to_index_ties_alone():
    random = np.random.default_rng(1)
    embeddings, paths = grid_embeddings(random, 40), random_paths(random, 40, 2)
    order = random.permutation(40)
    for ties in ("average", "worst", "best", "paper"):
        straight = evaluate(embeddings, paths, embeddings, paths, ties=ties)
        shuffled = evaluate(embeddings, paths, embeddings[order], paths[order], ties=ties)
        np.testing.assert_allclose(straight.values, shuffled.values, atol=1e-12)
    straight = evaluate(embeddings, paths, embeddings, paths, ties="index")
    shuffled = evaluate(embeddings, paths, embeddings[order], paths[order], ties="index")
    assert not np.allclose(straight.values, shuffled.values)


def test_the_same_array_given_as_gallery_is_a_separate_gallery():
    embeddings, paths = np.eye(3), np.arange(3)
    assert evaluate(embeddings, paths, metrics=["R@1"]).skipped == {"R@1": 3}
    assert evaluate(embeddings, paths, embeddings, paths, metrics=["R@1"]).summary()["R@1"] == 1.0


def test_tensors_and_other_float_types_give_the_numbers_of_float32(retrieval):
    embeddings, paths = retrieval
    half = embeddings.astype(np.float16)
    expected = evaluate(half.astype(np.float32), paths).values
    np.testing.assert_array_equal(evaluate(half, paths).values, expected)
    np.testing.assert_array_equal(evaluate(torch.from_numpy(half), torch.from_numpy(paths)).values, expected)
    brain = torch.from_numpy(embeddings).bfloat16()
    np.testing.assert_array_equal(evaluate(brain, paths).values, evaluate(brain.float(), paths).values)
    strided = np.repeat(embeddings, 2, axis=1)[:, ::2]
    assert not strided.flags.c_contiguous
    np.testing.assert_array_equal(evaluate(strided, paths).values, evaluate(embeddings, paths).values)


def test_a_duplicate_of_the_query_stays_and_the_query_itself_goes():
    result = evaluate([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 0], metrics=["AP"], ties="index")
    assert result.per_query()["AP"].tolist()[0] == 0.5  # the duplicate, of another class, comes first
    assert result.skipped == {"AP": 1}


def test_infinite_scores_rank_first_and_last():
    scores = np.array([[-np.inf, 0.0, np.inf, 1.0]], np.float32)
    for dtype in (np.float32, np.float64):
        assert evaluate_scores(scores.astype(dtype), [[0, 0, 1, 0]], metrics=["AP"]).summary()["AP"] == 1.0
        assert evaluate_scores(scores.astype(dtype), [[1, 0, 0, 0]], metrics=["AP"]).summary()["AP"] == 0.25


def test_official_counts_weigh_the_finest_level_less():
    random = np.random.default_rng(4)
    embeddings, paths = random.standard_normal((60, 8)), random_paths(random, 60, 3)
    result = evaluate(embeddings, paths, metrics=["H-AP"], compat=Rules(counts="official")).per_query()["H-AP"]
    scores, levels = cosines(embeddings, embeddings), ht.levels(paths, paths)
    for query in range(0, 60, 7):
        mask = np.arange(60) != query
        row_levels = levels[query][mask].tolist()
        expected = reference.h_ap(
            scores[query][mask].tolist(), row_levels, reference.hap_relevance(row_levels, 3, itself=1)
        )
        assert result[query] == pytest.approx(expected, abs=1e-12)


def test_tiny_and_huge_embeddings_are_normalized():
    random = np.random.default_rng(8)
    embeddings = random.standard_normal((20, 5)).astype(np.float32)
    paths = np.arange(20) // 4
    scaled = embeddings * np.exp2(random.integers(-120, 120, (20, 1))).astype(np.float32)
    np.testing.assert_array_equal(evaluate(embeddings, paths).values, evaluate(scaled, paths).values)


def test_the_query_set_may_be_empty():
    result = evaluate(np.zeros((0, 4)), np.zeros((0, 2), int), np.ones((3, 4)), np.zeros((3, 2), int))
    assert len(result) == 0
    assert result.summary().empty
