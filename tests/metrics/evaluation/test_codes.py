"""Binary codes: Hamming distances, counting sort, and every metric against score matrices and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference_metrics as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import names_for, random_paths
from scipy.stats import hypergeom

import hiertree as ht
from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.metrics import evaluate, evaluate_codes, evaluate_scores

TIES = ("average", "worst", "best", "paper", "index")


def random_case(random, num_items, num_levels, num_bits):
    paths = random_paths(random, num_items, num_levels)
    return random.random((num_items, num_bits)) < 0.5, paths


def loop_distances(queries, gallery):
    return np.array([[sum(a != b for a, b in zip(query, item, strict=True)) for item in gallery] for query in queries])


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([1, 3, 8, 64, 70]), st.sampled_from(TIES))
def test_codes_give_the_numbers_of_their_negated_distances(seed, num_levels, num_bits, ties):
    random = np.random.default_rng(seed)
    bits, paths = random_case(random, 12, num_levels, num_bits)
    names = names_for(num_levels)
    result = evaluate_codes(bits, paths, metrics=names, ties=ties)
    expected = evaluate_scores(
        -loop_distances(bits, bits),
        ht.levels(paths, paths),
        valid=~np.eye(12, dtype=bool),
        num_levels=num_levels,
        metrics=names,
        ties=ties,
    )
    np.testing.assert_allclose(result.values, expected.values, atol=1e-12)
    separate = evaluate_codes(bits[:4], paths[:4], bits[4:], paths[4:], metrics=names, ties=ties)
    expected = evaluate_scores(
        -loop_distances(bits[:4], bits[4:]),
        ht.levels(paths[:4], paths[4:]),
        num_levels=num_levels,
        metrics=names,
        ties=ties,
    )
    np.testing.assert_allclose(separate.values, expected.values, atol=1e-12)


def test_every_way_to_write_a_code_is_the_same_code():
    random = np.random.default_rng(1)
    bits, paths = random_case(random, 50, 2, 24)
    expected = evaluate_codes(bits, paths).values
    signs = np.where(bits, 1, -1)
    packed = np.packbits(bits, axis=1)
    for codes in (signs, signs.astype(np.int8), signs.astype(np.float32), packed, torch.from_numpy(signs).half()):
        np.testing.assert_array_equal(evaluate_codes(codes, paths).values, expected)


def test_ids_mask_items_of_both_counts():
    random = np.random.default_rng(3)
    bits, paths = random_case(random, 40, 2, 6)
    ids = random.integers(0, 15, 40)
    for ties in TIES:
        result = evaluate_codes(bits[:10], paths[:10], bits, paths, query_ids=ids[:10], gallery_ids=ids, ties=ties)
        expected = evaluate_scores(
            -loop_distances(bits[:10], bits),
            ht.levels(paths[:10], paths),
            valid=ids[:10, None] != ids[None],
            num_levels=2,
            ties=ties,
        )
        np.testing.assert_allclose(result.values, expected.values, atol=1e-12)


def test_junk_distractors_and_protocols_mean_what_they_mean_for_embeddings():
    random = np.random.default_rng(5)
    bits, paths = random_case(random, 60, 2, 16)  # 16 bits: every cosine is a multiple of 1/8, exact in float64
    signs, gallery_paths = np.where(bits, 1.0, -1.0), np.where(np.arange(40)[:, None] >= 30, -1, paths[20:])
    masks = {"junk": [[(query + 3) % 40, (query + 11) % 40] for query in range(20)], "protocol": "gldv2"}
    for ties in ("average", "worst", "index"):
        options = {**masks, "ties": ties, "compat": "delf"}
        expected = evaluate(signs[:20], paths[:20], signs[20:], gallery_paths, **options)
        result = evaluate_codes(bits[:20], paths[:20], bits[20:], gallery_paths, **options)
        assert result.names == expected.names
        np.testing.assert_allclose(result.values, expected.values, atol=1e-12)
        assert result.convention.self_rule == expected.convention.self_rule
        assert result.convention.rules == expected.convention.rules


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("ties", ["average", "index"])
def test_codes_follow_the_official_rules_as_embeddings_do(separate, ties):
    random = np.random.default_rng(6)
    bits, paths = random_case(random, 40, 2, 16)
    signs, names = np.where(bits, 1.0, -1.0), ["H-AP", "AP[1]", "R@3", "P@50", "NDCG", "ASI"]
    options = {"metrics": names, "compat": "official", "ties": ties}
    gallery = ((signs[10:], paths[10:]), (bits[10:], paths[10:])) if separate else ((), ())
    expected = evaluate(signs, paths, *gallery[0], **options)
    np.testing.assert_allclose(evaluate_codes(bits, paths, *gallery[1], **options).values, expected.values, atol=1e-12)


def found_precision(scores, levels, level, k, paper):
    """AP@k of HashNet and MIHash: precisions at the positives in the top k, by how many they are."""
    if not any(item_level >= level for item_level in levels):
        return None
    hits = reference.hits(scores, levels, level, k, paper)
    return reference.precision_terms(scores, levels, level, k, paper) / hits if hits else 0.0


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 4, 9]))
def test_ap_at_k_of_hashing_is_averaged_and_bounded_over_all_orders(seed, num_bits, k):
    random = np.random.default_rng(seed)
    bits, paths = random_case(random, 8, 2, num_bits)
    names = ["AP", f"AP@{k}", "R@1", f"AP@{k}[1]"]
    results = {
        ties: evaluate_codes(bits[:1], paths[:1], bits[1:], paths[1:], metrics=names, ties=ties) for ties in TIES
    }
    scores, levels = (-loop_distances(bits[:1], bits[1:])[0]).tolist(), ht.levels(paths[:1], paths[1:])[0].tolist()
    for name, level in ((f"AP@{k}", 2), (f"AP@{k}[1]", 1)):
        values = reference.over_tied_orders(
            lambda strict, level=level: found_precision(strict, levels, level, k, False), scores
        )
        expected = [None] * 3 if values is None else [np.mean(values), min(values), max(values)]
        expected += [found_precision(scores, levels, level, k, paper) for paper in (True, False)]
        for ties, expected_value in zip(("average", "worst", "best", "paper", "index"), expected, strict=True):
            assert results[ties].names == tuple(names)
            value = results[ties].per_query()[name].iloc[0]
            assert (None if np.isnan(value) else value) == pytest.approx(expected_value, abs=1e-12), (ties, name)


def test_hashing_divides_by_what_it_found_and_embeddings_are_told_so():
    codes, labels = [[1, 1], [1, 1], [-1, -1], [1, -1], [-1, -1]], [0, 0, 0, 1, 0]
    result = evaluate_codes(codes[:1], labels[:1], codes[1:], labels[1:], metrics=["AP@2", "mAP@2"])
    assert result.summary().to_dict() == {"AP@2": 1.0, "mAP@2": 0.5}
    by_scores = evaluate_scores([[0, -2, -1, -2]], [[1, 1, 0, 1]], metrics=["AP@2", "mAP@2"])
    assert by_scores.summary().to_dict() == result.summary().to_dict()
    assert all("AP@k divided by the positives in the top k" in str(message) for message in (result, by_scores))
    with pytest.raises(OptionError, match=r"binary codes.*mAP@2 divides by min"):
        evaluate([[1.0, 0.0], [0.0, 1.0]], [0, 0], metrics=["AP@2"])


def test_galleries_longer_than_a_chunk_are_counted_whole():
    random = np.random.default_rng(4)
    bits, paths = random_case(random, 9001, 2, 10)
    result = evaluate_codes(bits[:3], paths[:3], bits, paths)
    expected = evaluate_scores(-(bits[:3, None] != bits[None]).sum(axis=2), ht.levels(paths[:3], paths), num_levels=2)
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-12)


@pytest.mark.parametrize(("leading", "size"), [(0, 257), (3, 5000), (70, 300), (200_000, 257), (100_000, 100_000)])
def test_long_tie_groups_agree_with_their_sum_place_by_place(leading, size):
    """Eq. 6 of He et al. for a group with half of its members positive, behind a single positive and other items."""
    members, hits = size // 2, int(leading > 0)
    scores = np.zeros((1, leading + size), np.float32)
    scores[0, :leading] = np.arange(leading, 0, -1)
    levels = np.zeros(scores.shape, np.uint8)
    levels[0, :hits] = 1
    levels[0, leading : leading + members] = 1
    terms = [(hits + 1 + t * (members - 1) / (size - 1)) / (leading + t + 1) for t in range(size)]
    expected = (hits + members / size * math.fsum(terms)) / (hits + members)
    result = evaluate_scores(scores, levels, metrics=["AP", "H-AP"]).summary()
    assert result["AP"] == pytest.approx(expected, rel=1e-13)
    assert result["H-AP"] == pytest.approx(expected, rel=1e-11)  # its relevances are summed one by one


def test_the_card_names_distance_and_bits():
    result = evaluate_codes(np.zeros((3, 8), np.uint8), [0, 0, 1])
    assert result.convention.scores == "Hamming distance, 64 bits"


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        (EmbeddingError, {"query_codes": [[0.5, 1.0], [1.0, 1.0]]}),
        (EmbeddingError, {"query_codes": [[0, 1], [1, 0]]}),
        (EmbeddingError, {"query_codes": [["a", "b"], ["c", "d"]]}),
        (ShapeError, {"query_codes": [1, -1]}),
        (ShapeError, {"query_codes": np.zeros((2, 0), np.uint8)}),
        (ShapeError, {"query_codes": np.zeros((2, 8192), np.uint8)}),
        (ShapeError, {"query_codes": [[1, -1]], "query_paths": [0]}),
        (ShapeError, {"query_paths": [0, 0, 0]}),
        (PathError, {"query_paths": [0, -1]}),
        (OptionError, {"gallery_codes": [[1, -1]]}),
        (ShapeError, {"gallery_codes": [[1, -1, 1]], "gallery_paths": [0]}),
        (ShapeError, {"gallery_codes": np.zeros((0, 2), bool), "gallery_paths": np.zeros(0, int)}),
        (OptionError, {"metrics": ["mAP@0"]}),
        (OptionError, {"ties": "random"}),
        (OptionError, {"metrics": []}),
        (OptionError, {"metrics": ["AP@5", "AP@5"]}),
        (OptionError, {"metrics": ["AP@0"]}),
        (OptionError, {"metrics": ["AP@5[2]"]}),
        (OptionError, {"protocol": "gldv2"}),
        (OptionError, {"distractors": [True, False]}),
        (OptionError, {"compat": "hashnet"}),
    ],
)
def test_bad_codes_are_refused(error, changed):
    with pytest.raises(error):
        evaluate_codes(**{"query_codes": [[1, -1], [1, 1]], "query_paths": [0, 1], **changed})


def test_asi_and_ndcg_of_long_tie_groups_are_means_place_by_place():
    random = np.random.default_rng(8)
    scores = -np.repeat(np.arange(6), [3, 700, 1, 900, 2, 1200])
    levels = random.choice(3, size=len(scores), p=[0.3, 0.4, 0.3])
    result = evaluate_scores(scores[None], levels[None], metrics=["ASI", "NDCG"]).summary()
    totals, asi, gain, best = np.bincount(levels), 0.0, 0.0, np.sort(levels)[::-1]
    for rank in range(1, len(scores) + 1):
        leading, tied = levels[scores > scores[rank - 1]], levels[scores == scores[rank - 1]]
        gain += (2.0**tied - 1).mean() / np.log2(1 + rank)
        for level in (1, 2) if rank <= totals[1:].sum() else ():
            ideal = min(max(rank - totals[level + 1 :].sum(), 0), totals[level])
            counts = np.arange((tied == level).sum() + 1)
            chances = hypergeom.pmf(counts, len(tied), counts[-1], rank - len(leading))
            asi += chances @ np.minimum((leading == level).sum() + counts, ideal) / rank
    assert result["ASI"] == pytest.approx(asi / totals[1:].sum(), rel=1e-11)
    expected = gain / ((2.0**best - 1) / np.log2(np.arange(2, len(best) + 2))).sum()
    assert result["NDCG"] == pytest.approx(expected, rel=1e-13)
