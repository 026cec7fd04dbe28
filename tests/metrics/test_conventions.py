"""Protocols, others' conventions, masks by id and distractors."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import reference_metrics as reference
from hypothesis import given, settings
from metric_cases import cosines, score_matrices

import hiertree as ht
from hiertree.errors import OptionError, PathError
from hiertree.metrics import Rules, evaluate, evaluate_scores, overall, revisitop_levels
from hiertree.metrics.conventions import COMPATIBLE, PROTOCOLS


@pytest.fixture(scope="module")
def retrieval():
    random = np.random.default_rng(0)
    coarse = random.integers(0, 3, 60)
    paths = np.stack([coarse, 4 * coarse + random.integers(0, 4, 60)], axis=1)
    paths[7] = [9, 99]  # alone in its kind
    return random.standard_normal((60, 5)) + paths[:, :1], paths


@settings(max_examples=40)
@given(score_matrices(max_items=6, distinct=2))
def test_trapezoids_last_positives_and_exact_levels_are_means_over_all_tied_orders(case):
    scores, levels, valid, num_levels = case
    levelled = {
        f"AP[{num_levels}]": reference.revisitop_average_precision,
        "P@2": lambda s, row_levels, level: reference.revisitop_precision_at_k(s, row_levels, level, 2),
        "P@4": lambda s, row_levels, level: reference.revisitop_precision_at_k(s, row_levels, level, 4),
        "R@3": lambda s, row_levels, level: reference.delf_recall_at_k(s, row_levels, level, 3),
    }
    result = evaluate_scores(
        scores, levels, valid=valid, num_levels=num_levels, metrics=levelled, compat="revisitop"
    ).per_query()
    exact = {f"AP#{level}": level for level in range(1, num_levels + 1)}
    bounds = {
        ties: evaluate_scores(scores, levels, valid=valid, num_levels=num_levels, metrics=exact, ties=ties).per_query()
        for ties in ("average", "worst", "best")
    }
    for row in range(len(scores)):
        row_levels, row_scores = levels[row][valid[row]].tolist(), scores[row][valid[row]].tolist()
        for name, metric in levelled.items():
            values = reference.over_tied_orders(
                lambda s, row_levels=row_levels, metric=metric: metric(s, row_levels, num_levels), row_scores
            )
            expected = np.nan if values is None else np.mean(values)
            assert result[name].iloc[row] == pytest.approx(expected, abs=1e-12, nan_ok=True), name
        for name, level in exact.items():
            values = reference.over_tied_orders(
                lambda s, row_levels=row_levels, level=level: reference.exact_average_precision(s, row_levels, level),
                row_scores,
            )
            for ties, combine in (("average", np.mean), ("worst", min), ("best", max)):
                expected = np.nan if values is None else combine(values)
                assert bounds[ties][name].iloc[row] == pytest.approx(expected, abs=1e-12, nan_ok=True), (name, ties)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("duplicates", [False, True])
def test_official_compat_is_the_authors_code(retrieval, separate, duplicates):
    embeddings, paths = retrieval
    if duplicates:
        embeddings = embeddings.copy()
        embeddings[20:30] = embeddings[30:40]
    gallery, gallery_paths = (embeddings[15:], paths[15:]) if separate else (embeddings, paths)
    names = ["R@5", "P@5", "AP", "mAP@R", "NDCG", "NDCG@5", "H-AP"]
    given_gallery = (gallery, gallery_paths) if separate else ()
    result = evaluate(embeddings, paths, *given_gallery, metrics=names, compat="official", ties="index").per_query()
    scores, levels = cosines(embeddings, gallery), ht.levels(paths, gallery_paths)
    for query in range(60):
        # what the engine scores is rounded otherwise: a query and its duplicate tie in both
        rounded = np.round(scores[query], 12).tolist()
        ranked_levels = [int(levels[query, j]) for j in reference.official_list(rounded, not separate)]
        relevance = reference.hap_relevance(ht.levels(paths, paths)[query].tolist(), 2)
        expected = reference.official_metrics(ranked_levels, relevance, level=2, k=5)
        for name in names:
            assert result[name][query] == pytest.approx(expected[name.replace("5", "k")], abs=1e-9), (query, name)


def test_the_ideal_of_the_retrieved_top_k_needs_an_order_of_ties():
    with pytest.raises(OptionError, match="ties='index'"):
        evaluate_scores([[6, 5]], [[0, 1]], metrics=["NDCG@2"], compat="official")


def test_delf_scores_queries_without_positives_zero(retrieval):
    embeddings, paths = retrieval
    query, query_paths, gallery, gallery_paths = embeddings[:20], paths[:20], embeddings[20:], paths[20:]
    skipped = evaluate(query, query_paths, gallery, gallery_paths, protocol="gldv2")
    delf = evaluate(query, query_paths, gallery, gallery_paths, protocol="gldv2", compat="delf")
    rankings = np.argsort(-cosines(query, gallery), axis=1).tolist()
    solutions = [set(np.flatnonzero(gallery_paths[:, 1] == path[1])) for path in query_paths]
    expected = reference.delf_mean_average_precision(rankings, solutions, 100)
    assert delf.summary()["mAP@100"] == pytest.approx(expected, abs=1e-12)
    assert skipped.skipped["mAP@100"] > 0
    assert delf.skipped["mAP@100"] == 0
    judged_fraction = 1 - skipped.skipped["mAP@100"] / 20
    assert skipped.summary()["mAP@100"] * judged_fraction == pytest.approx(delf.summary()["mAP@100"])


@pytest.mark.parametrize("setup", ["easy", "medium", "hard"])
def test_revisited_benchmarks_follow_their_evaluation(setup):
    random = np.random.default_rng(3)
    truth = []
    for _ in range(8):
        images = random.permutation(40)
        truth.append({"easy": images[:4], "hard": images[4:9], "junk": images[9:12]})
    truth[5]["easy"] = truth[5]["hard"] = []
    scores = random.standard_normal((8, 40))
    levels, valid = revisitop_levels(truth, 40, setup=setup)
    result = evaluate_scores(scores, levels, valid=valid, protocol="revisitop").per_query()
    assert list(result.columns) == ["AP", "P@1", "P@5", "P@10"]
    for query, lists in enumerate(truth):
        junk = {"easy": ["junk", "hard"], "medium": ["junk"], "hard": ["junk", "easy"]}[setup]
        positives = {"easy": ["easy"], "medium": ["easy", "hard"], "hard": ["hard"]}[setup]
        dropped = {int(j) for name in junk for j in lists[name]}
        relevant = {int(j) for name in positives for j in lists[name]}
        items = [j for j in range(40) if j not in dropped]
        item_scores, marks = [scores[query][j] for j in items], [int(j in relevant) for j in items]
        expected = [reference.revisitop_average_precision(item_scores, marks, 1)]
        expected += [reference.revisitop_precision_at_k(item_scores, marks, 1, k) for k in (1, 5, 10)]
        wanted_values = [np.nan if value is None else value for value in expected]
        np.testing.assert_allclose(result.iloc[query].to_numpy(float), wanted_values, atol=1e-12)


def test_masks_by_id_and_junk_leave_items_out_of_lists_and_counts(retrieval):
    embeddings, paths = retrieval
    files = np.array([f"{i // 2}.jpg" for i in range(60)])
    junk = [[(i + 3) % 60, (i + 5) % 60] for i in range(20)]
    result = evaluate(
        embeddings[:20], paths[:20], embeddings, paths, query_ids=files[:20], gallery_ids=files.tolist(), junk=junk
    )
    valid = files[:20, None] != files[None]
    for query, items in enumerate(junk):
        valid[query, items] = False
    expected = evaluate_scores(
        cosines(embeddings[:20], embeddings), ht.levels(paths[:20], paths), valid=valid, num_levels=2
    )
    np.testing.assert_allclose(result.values, expected.values, atol=1e-12)
    assert "own id masked" in result.convention.self_rule
    sequences = np.arange(60) // 3
    result = evaluate(embeddings, paths, query_ids=sequences)
    valid = sequences[:, None] != sequences[None]
    expected = evaluate_scores(cosines(embeddings, embeddings), ht.levels(paths, paths), valid=valid, num_levels=2)
    np.testing.assert_allclose(result.values, expected.values, atol=1e-12)


def test_distractors_and_queries_of_no_class_have_paths_that_are_unknown_throughout(retrieval):
    embeddings, paths = retrieval
    query_paths, gallery_paths = paths[:20].copy(), paths[20:].copy()
    query_paths[3:5], gallery_paths[25:] = -1, -1
    result = evaluate(embeddings[:20], query_paths, embeddings[20:], gallery_paths)
    levels = ht.levels(paths[:20], paths[20:])
    levels[3:5], levels[:, 25:] = 0, 0
    expected = evaluate_scores(cosines(embeddings[:20], embeddings[20:]), levels, num_levels=2)
    np.testing.assert_allclose(result.values, expected.values, atol=1e-12)
    assert np.isnan(result.values[3:5]).all()
    assert result.convention.self_rule.endswith("2 queries of no class, 15 distractors at level 0")


def test_asi_of_one_level_is_asi_of_its_labels_alone(retrieval):
    embeddings, paths = retrieval
    values = evaluate(embeddings, paths, metrics=["ASI[1]", "ASI[2]"]).values
    for level in (1, 2):
        level_values = evaluate(embeddings, paths[:, level - 1], metrics=["ASI"]).values[:, 0]
        np.testing.assert_allclose(values[:, level - 1], level_values, atol=1e-12)


def test_overall_is_the_mean_over_benchmarks_and_levels(retrieval):
    embeddings, paths = retrieval
    product = evaluate(embeddings, paths, protocol="dyml")
    means = product.summary()
    assert overall(product)["AP"] == pytest.approx((means["AP[1]"] + means["AP[2]"]) / 2)
    pairs = {
        name: evaluate(embeddings, paths[:, level], protocol="dyml") for level, name in enumerate(("coarse", "fine"))
    }
    np.testing.assert_allclose(overall(pairs), overall(product), atol=1e-12)
    with pytest.raises(OptionError, match="same metrics"):
        overall({"a": pairs["fine"], "b": product})
    with pytest.raises(OptionError, match="without a value"):
        overall(evaluate(embeddings, np.arange(60)))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_names_its_metrics_and_says_so_on_the_card(retrieval, name):
    embeddings, paths = retrieval
    separate = PROTOCOLS[name].gallery == "separate"
    given_gallery = (embeddings[20:], paths[20:]) if separate else ()
    result = evaluate(embeddings[:40], paths[:40], *given_gallery, protocol=name)
    assert result.names == PROTOCOLS[name].names(2)
    assert f"protocol      {name}" in str(result)
    card = json.loads(result.to_json())["convention"]
    assert card["protocol"] == name
    assert card["rules"] == asdict(PROTOCOLS[name].rules)


@pytest.mark.parametrize("name", COMPATIBLE)
def test_every_switch_of_a_convention_is_on_the_card(retrieval, name):
    embeddings, paths = retrieval
    result = evaluate(embeddings, paths, compat=name, metrics=["AP", "P@5", "R@5"])
    card = json.loads(result.to_json())["convention"]
    assert card["rules"] == asdict(COMPATIBLE[name])
    for message in (card["counts"], card["gains"], card["denominators"], card["empty"], card["self_rule"]):
        assert message in str(result)
    with_copy = evaluate(embeddings, paths, compat=replace(COMPATIBLE[name]), metrics=["AP", "P@5", "R@5"])
    np.testing.assert_array_equal(with_copy.values, result.values)


def test_cut_precision_over_all_positives_is_ap_at_k_of_talr():
    scores, levels = [[2, 2, 2, 1, 1, 0]], [[1, 0, 1, 1, 0, 1]]
    reachable, positives = (
        evaluate_scores(scores, levels, metrics=["mAP@2"], compat=Rules(cut_precision=rule)).summary()["mAP@2"]
        for rule in ("reachable", "positives")
    )
    assert positives == pytest.approx(reachable * 2 / 4)  # four positives, two of them reachable
    assert "mAP@k: positives" in Rules(cut_precision="positives").denominators


def test_bad_rules_and_ground_truths_are_refused():
    with pytest.raises(OptionError, match="'hit' or 'share'"):
        Rules(recall="fraction")
    with pytest.raises(OptionError, match="medium"):
        revisitop_levels([], 3, setup="middle")
    with pytest.raises(OptionError, match="easy, hard and junk"):
        revisitop_levels([{"ok": [1]}], 3)
    for bad in ([3], [-1], [1]):
        with pytest.raises(PathError, match="query 0"):
            revisitop_levels([{"easy": bad, "hard": [1], "junk": []}], 3)


def test_vehicleid_searches_every_image_among_all_others_of_its_list(retrieval):
    embeddings, paths = retrieval
    classes = paths[:, 1]
    scores = cosines(embeddings, embeddings)
    first_but_itself = np.argsort(-scores, axis=1)[:, 1]  # as Smooth-AP's code: it drops the first hit, the query
    has_others = np.bincount(classes)[classes] > 1
    expected = np.mean((classes[first_but_itself] == classes)[has_others])
    assert evaluate(embeddings, classes, protocol="vehicleid").summary()["R@1"] == pytest.approx(expected)
    with pytest.raises(OptionError, match=r"vehicleid-one-image.*without a gallery"):
        evaluate(embeddings, classes, protocol="vehicleid-one-image")


def test_official_compat_leaves_queries_without_an_item_at_the_level_out_of_the_exact_ap():
    scores, levels = [[3, 2, 1], [3, 2, 1]], [[0, 1, 2], [2, 0, 2]]
    for compat in (None, "official"):
        result = evaluate_scores(scores, levels, metrics=["AP#1", "AP[1]"], ties="index", compat=compat)
        assert result.summary()["AP#1"] == 0.5
        assert result.skipped["AP#1"] == 1


def test_map_at_1000_is_that_of_ilias():
    """Its evaluate.py: scikit-learn's AP of the retrieved, times the share of min(k, positives) that is among them."""
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    scores, levels = random.permuted(np.tile(np.arange(40.0), (30, 1)), axis=1), random.integers(0, 2, (30, 40))
    for k in (3, 10, 1000):
        values = evaluate_scores(scores, levels, metrics=[f"mAP@{k}"], num_levels=1).values[:, 0]
        for row, order in enumerate(np.argsort(-scores, axis=1)[:, :k]):
            hits = levels[row, order] == 1
            expected = metrics.average_precision_score(hits, scores[row, order]) if hits.any() else 0.0
            expected *= hits.sum() / min(k, levels[row].sum())
            assert values[row] == pytest.approx(expected, abs=1e-12)
    gallery = random.standard_normal((9, 4)), np.arange(9) // 3
    result = evaluate(gallery[0][:3], gallery[1][[0, 3, 6]], *gallery, protocol="ilias")
    assert result.names == ("mAP@1000",)
