"""Ranked lists made elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import reference_metrics as reference
from metric_cases import cosines

from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError
from hiertree.metrics import evaluate, evaluate_ranking

NAMES = ["H-AP", "NDCG", "ASI", "AP[1]", "AP[2]", "R@1", "TR@5", "P@5", "mAP@R", "mAP@5", "NDCG@5"]


@pytest.fixture(scope="module")
def retrieval():
    random = np.random.default_rng(0)
    coarse = random.integers(0, 3, 80)
    paths = np.stack([coarse, 4 * coarse + random.integers(0, 4, 80)], axis=1)
    embeddings = random.standard_normal((80, 8))
    return embeddings, paths, cosines(embeddings, embeddings)


def test_a_saved_ranking_gives_the_numbers_of_the_embeddings_that_made_it(retrieval):
    embeddings, paths, scores = retrieval
    expected = evaluate(embeddings, paths, metrics=NAMES).per_query()
    ranking = np.argsort(-scores, axis=1, kind="stable")  # each query among its own items
    by_index = evaluate_ranking(ranking, query_paths=paths, metrics=NAMES).per_query()
    np.testing.assert_allclose(by_index, expected, atol=1e-12)
    levels = (paths[:, None] == paths[None]).all(axis=2) * 1 + (paths[:, None, 0] == paths[None, :, 0])
    run = {f"q{i}": [f"d{j}" for j in ranking[i] if j != i] for i in range(80)}
    scored = {f"q{i}": {f"d{j}": scores[i, j] for j in range(80) if j != i} for i in range(80)}
    qrels = {f"q{i}": {f"d{j}": int(levels[i, j]) for j in range(80) if j != i} for i in range(80)}
    for lists in (run, scored):
        np.testing.assert_allclose(evaluate_ranking(lists, qrels, metrics=NAMES).per_query(), expected, atol=1e-12)


def test_a_separate_gallery_and_lists_cut_short_agree_with_the_definitions(retrieval):
    _, paths, scores = retrieval
    ranking = np.argsort(-scores[:20, 20:], axis=1, kind="stable")[:, :10]
    ranking[3, 6:] = -1
    result = evaluate_ranking(
        ranking, query_paths=paths[:20], gallery_paths=paths[20:], metrics=["H-AP", "AP[1]", "ASI"]
    )
    for row in range(20):
        items = ranking[row][ranking[row] >= 0]
        agree = paths[row] == paths[20:]
        levels = agree.cumprod(axis=1).sum(axis=1).tolist()
        table = reference.hap_relevance(levels, 2)
        row_levels, own_scores = [levels[j] for j in items], [-float(i) for i in range(len(items))]
        found_share = sum(table[level] for level in row_levels) / sum(table[level] for level in levels)
        listed_sum = reference.h_ap(own_scores, row_levels, table)
        assert result.per_query()["H-AP"][row] == pytest.approx(
            found_share * listed_sum if listed_sum else 0.0, abs=1e-12
        )
        terms = reference.precision_terms(own_scores, row_levels, 1, float("inf"), False)
        assert result.per_query()["AP[1]"][row] == pytest.approx(terms / np.count_nonzero(levels), abs=1e-12)


@pytest.mark.parametrize("compat", ["official", "delf", "revisitop"])
def test_lists_of_indices_follow_the_rules_of_others_as_embeddings_do(retrieval, compat):
    embeddings, paths, scores = retrieval
    names = ["R@5", "P@5", "AP", "mAP@R", "mAP@5", "NDCG", "NDCG@5", "H-AP"]
    ranking = np.argsort(-scores, axis=1, kind="stable")
    expected = evaluate(embeddings, paths, metrics=names, compat=compat, ties="index")
    result = evaluate_ranking(ranking, query_paths=paths, metrics=names, compat=compat, ties="index")
    np.testing.assert_allclose(result.values, expected.values, atol=1e-12)
    assert result.convention.self_rule == expected.convention.self_rule
    assert result.convention.rules.average_precision == expected.convention.rules.average_precision


def test_ids_junk_and_distractors_mean_to_indices_what_they_mean_to_embeddings(retrieval):
    embeddings, paths, scores = retrieval
    files = [f"{item // 2}.jpg" for item in range(80)]
    masks = {"query_ids": files[:20], "gallery_ids": files, "junk": [[(query + 7) % 80] for query in range(20)]}
    gallery = np.where(np.arange(80) % 5 == 4, -1, paths[:, 1])
    ranking = np.argsort(-scores[:20], axis=1, kind="stable")
    expected = evaluate(embeddings[:20], paths[:20, 1], embeddings, gallery, protocol="dyml", **masks)
    result = evaluate_ranking(ranking, query_paths=paths[:20, 1], gallery_paths=gallery, protocol="dyml", **masks)
    assert result.names == expected.names
    np.testing.assert_allclose(result.values, expected.values, atol=1e-12)
    assert "own id masked, 20 junk entries masked, 16 distractors" in result.convention.self_rule


def test_a_run_of_names_takes_its_metrics_and_rules_from_a_protocol():
    run, qrels = {"q": ["x", "a"], "p": ["x"]}, {"q": {"a": 1}, "p": {"x": 0}}
    result = evaluate_ranking(run, qrels, protocol="revisitop")
    assert result.summary().to_dict() == {"AP": 0.25, "P@1": 0.0, "P@5": 0.5, "P@10": 0.5}
    assert result.convention.protocol == "revisitop"
    delf = evaluate_ranking(run, qrels, protocol="revisitop", compat="delf")
    assert delf.summary().to_dict() == {"AP": 0.25, "P@1": 0.0, "P@5": 0.1, "P@10": 0.05}


def test_what_comes_after_a_cut_is_counted_as_never_found():
    full = evaluate_ranking({"q": ["a", "b", "x"]}, {"q": {"a": 1, "b": 1}}, metrics=["AP", "ASI", "TR@2"]).summary()
    cut = evaluate_ranking({"q": ["a"]}, {"q": {"a": 1, "b": 1}}, metrics=["AP", "ASI", "TR@2"]).summary()
    assert full.to_dict() == {"AP": 1.0, "ASI": 1.0, "TR@2": 1.0}
    assert cut.to_dict() == {"AP": 0.5, "ASI": 0.75, "TR@2": 0.5}


def test_missing_queries_score_zero_and_unjudged_ones_are_skipped():
    run = {"a": ["x"], "c": ["x"]}
    result = evaluate_ranking(run, {"a": {"x": 1}, "b": {"x": 1}}, metrics=["AP"])
    assert result.per_query()["AP"].loc[["a", "b"]].tolist() == [1.0, 0.0]
    assert result.skipped == {"AP": 1}


def test_equal_scores_of_a_mapping_are_ties():
    result = evaluate_ranking({"q": {"x": 0.5, "y": 0.5}}, {"q": {"y": 1}}, metrics=["AP"])
    assert result.summary()["AP"] == pytest.approx(0.75)
    by_index = evaluate_ranking({"q": {"x": 0.5, "y": 0.5}}, {"q": {"y": 1}}, metrics=["AP"], ties="index")
    assert by_index.summary()["AP"] == 0.5


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (OptionError, {"run": {"q": []}}, "exactly one of them"),
        (OptionError, {"run": {"q": []}, "qrels": {"p": {}}}, "shared query: such as 'q' and such as 'p'"),
        (OptionError, {"run": {}, "qrels": {"p": {}}}, "shared query: none and such as 'p'"),
        (OptionError, {"run": {"q": [7, 8]}, "qrels": {"q": {"7": 1}}}, "items such as 7: .* items, such as '7'"),
        (OptionError, {"run": {"q": [("a", 0.9)]}, "qrels": {"q": {"a": 1}}}, r"items such as \('a', 0.9\)"),
        (OptionError, {"run": [["a"]], "qrels": {"p": {}}}, "mappings"),
        (OptionError, {"run": {"q": []}, "qrels": {"q": {"a": 3}}, "num_levels": 2}, "num_levels=2"),
        (PathError, {"run": {"q": ["a", "a"]}, "qrels": {"q": {}}}, "twice"),
        (PathError, {"run": {"q": ["a"]}, "qrels": {"q": {"a": -1}}}, "level -1"),
        (PathError, {"run": {"q": ["a"]}, "qrels": {"q": {"a": 0.5}}}, "level 0.5"),
        (EmbeddingError, {"run": {"q": {"a": float("nan")}}, "qrels": {"q": {"a": 1}}}, "NaN"),
        (PathError, {"run": [[0, 5]], "query_paths": [0], "gallery_paths": [0, 1]}, "0 to 1"),
        (PathError, {"run": [[1, 1]], "query_paths": [0], "gallery_paths": [0, 1]}, "twice"),
        (ShapeError, {"run": [0, 1], "query_paths": [0, 1]}, "gallery indices"),
        (ShapeError, {"run": [[0.5]], "query_paths": [0]}, "gallery indices"),
        (ShapeError, {"run": [[0]], "query_paths": [[0, 1]], "gallery_paths": [[0]]}, "levels"),
        (ShapeError, {"run": [[0]], "query_paths": [0, 1]}, "rows"),
        (ShapeError, {"run": 3, "query_paths": [0, 1]}, "gallery indices"),
        (OptionError, {"run": [[0]], "query_paths": [0], "protocol": "gldv2"}, "without a gallery"),
        (OptionError, {"run": [[0]], "query_paths": [0], "gallery_paths": [0], "protocol": "dyml"}, "without ids"),
        (OptionError, {"run": {"q": []}, "qrels": {"q": {}}, "query_ids": ["q"]}, "with qrels"),
        (OptionError, {"run": {"q": []}, "qrels": {"q": {}}, "compat": "ours"}, "compat='ours'"),
        (PathError, {"run": [[0], [1]], "query_paths": [0, -1]}, "negative ids"),
    ],
)
def test_bad_runs_are_refused_with_their_place(error, arguments, message):
    with pytest.raises(error, match=message):
        evaluate_ranking(**arguments)


def test_intervals_of_indices_are_over_classes():
    paths = np.arange(12) // 3
    run = np.argsort(np.abs(np.arange(12)[:, None] - np.arange(12)), axis=1)
    interval = evaluate_ranking(run, query_paths=paths, metrics=["AP"]).confidence_interval(resamples=10)
    assert interval.loc["AP", "clusters"] == 4


def test_a_run_and_judgments_in_csv_are_those_in_mappings(tmp_path):
    run, qrels = tmp_path / "run.csv", tmp_path / "qrels.csv"
    run.write_text("query,doc,score\n1,7,0.5\n1,8,0.9\n2,8,0.1\n")
    qrels.write_text("query,doc,level\n1,7,2\n1,8,1\n2,8,2\n")
    expected = evaluate_ranking({"1": ["8", "7"], "2": ["8"]}, {"1": {"7": 2, "8": 1}, "2": {"8": 2}})
    result = evaluate_ranking(run, qrels)
    assert result.summary().to_dict() == expected.summary().to_dict()
    run.write_text("query,doc,score\n")
    with pytest.raises(
        OptionError, match=r"run \(run\.csv\) and qrels \(qrels\.csv\) without a shared query: none and such as '1'"
    ):
        evaluate_ranking(run, qrels)


def test_what_nearly_is_a_run_is_told_how_to_become_one():
    distances_and_indices = np.zeros((1, 2)), np.array([[1, 0]])
    paths = np.array([[0], [0]])
    with pytest.raises(ShapeError, match="the second part of what faiss returns"):
        evaluate_ranking(distances_and_indices, query_paths=paths[:1], gallery_paths=paths)
    with pytest.raises(OptionError, match=r"a Series for query 'q'.*tolist\(\) for listed items"):
        evaluate_ranking({"q": pd.Series(["a"])}, {"q": {"a": 1}})


def test_the_first_hit_of_a_scored_run_is_the_best_one_wherever_it_stands():
    scores = {"a": 0.9, "b": 0.1, "c": 0.5}
    options = {"query_paths": [0, 0, 1], "query_names": ["a", "b", "c"], "compat": "official", "metrics": ["AP"]}
    for order in ("abc", "bca", "cab"):
        result = evaluate_ranking({"a": {name: scores[name] for name in order}}, **options)
        assert result.summary()["AP"] == 0.5
