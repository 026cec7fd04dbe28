"""Runs, judgments, codes and ids as other tools write them."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

from hiertree.errors import EmbeddingError, OptionError, TableError
from hiertree.metrics import evaluate, evaluate_codes, evaluate_ranking

QRELS = {"7": {"a": 2, "b": 1}, "8": {"c": 1}}
ORDERS = {"7": ["x", "a", "b"], "8": ["c", "a"]}
EXPECTED = evaluate_ranking(ORDERS, QRELS, metrics=["AP[1]", "NDCG"]).summary()


def summary(run, qrels):
    return evaluate_ranking(run, qrels, metrics=["AP[1]", "NDCG"]).summary()


@pytest.mark.parametrize("head", ["query-id\tcorpus-id\tscore\n", ""])
@pytest.mark.parametrize("name", ["test.tsv", "qrels.txt"])
def test_judgments_of_beir_and_runs_of_ms_marco(head, name, tmp_path):
    judgments = [f"{query}\t{item}\t{level}\n" for query, items in QRELS.items() for item, level in items.items()]
    ranks = [f"{query}\t{item}\t{rank}\n" for query, items in ORDERS.items() for rank, item in enumerate(items, 1)]
    (tmp_path / name).write_text(head + "".join(judgments))
    (tmp_path / "run.tsv").write_text("".join(ranks))
    pd.testing.assert_series_equal(summary(tmp_path / "run.tsv", tmp_path / name), EXPECTED)
    pd.testing.assert_series_equal(summary(ORDERS, tmp_path / name), EXPECTED)


def test_a_run_of_three_columns_has_ranks(tmp_path):
    (tmp_path / "run.txt").write_text("7 a 0.5\n")
    with pytest.raises(TableError, match=r"line 1: 3 columns, '0\.5' the last: expected 6: .* or 3: query item rank"):
        evaluate_ranking(tmp_path / "run.txt", QRELS)


@pytest.mark.parametrize(
    "columns", [("query-id", "corpus-id", "score"), ("query_id", "corpus_id", "score"), ("qid", "pid", "label")]
)
def test_frames_of_judgments_under_their_names(columns):
    rows = [(query, item, level) for query, items in QRELS.items() for item, level in items.items()]
    pd.testing.assert_series_equal(summary(ORDERS, pd.DataFrame(rows, columns=columns)), EXPECTED)


def test_hits_of_semantic_search():
    paths = np.array([[0, 0], [0, 1], [0, 0], [1, 2]])
    hits = [[{"corpus_id": 2, "score": 0.9}, {"corpus_id": 1, "score": 0.9}], [{"corpus_id": 3, "score": 0.1}]]
    options = {"query_paths": paths[:2], "gallery_paths": paths, "metrics": ["AP[1]", "AP"]}
    result = evaluate_ranking(hits, **options)
    by_index = evaluate_ranking([[2, 1], [3, -1]], **options)
    np.testing.assert_allclose(result.values[:, 0], by_index.values[:, 0], atol=1e-15)
    assert result.values[0, 1] == pytest.approx((1 + 1 / 2) / 2 / 2)  # one of two positives, tied with another item


def test_packed_signed_codes_are_told_how_to_become_bits():
    bits, paths = np.random.default_rng(0).random((6, 16)) > 0.5, np.arange(6) // 2
    signed = (np.packbits(bits, axis=1).astype(int) - 128).astype(np.int8)  # as sentence-transformers packs "binary"
    with pytest.raises(EmbeddingError, match=r"pass \(codes\.astype\(int\) \+ 128\)\.astype\(numpy\.uint8\)"):
        evaluate_codes(signed, paths)
    codes = (signed.astype(int) + 128).astype(np.uint8)
    np.testing.assert_array_equal(evaluate_codes(codes, paths).values, evaluate_codes(bits, paths).values)


@pytest.mark.parametrize("ids", [[1.0, np.nan, 2.0], np.array(["a", None, "b"], object), pd.Series(["a", None, "b"])])
def test_rows_without_an_id_are_named(ids):
    with pytest.raises(OptionError, match="query_ids without an id in 1 rows, first in row 1"):
        evaluate(np.eye(3), [0, 0, 1], query_ids=ids)


def test_lists_cut_short_say_which_metrics_lack_positives(caplog):
    paths, scores = np.arange(40) % 4, np.random.default_rng(0).random((40, 40))
    order = np.argsort(-scores, axis=1)
    with caplog.at_level(logging.WARNING):
        evaluate_ranking(order, query_paths=paths, metrics=["AP", "R@5"])
        evaluate_ranking(order[:, :6], query_paths=paths, metrics=["R@5", "TR@5"])
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        evaluate_ranking(order[:, :6], query_paths=paths, metrics=["AP", "H-AP", "R@5", "TR@9"])
    text = "lists hold at most 6 of 40 items; unlisted positives of 40 queries count as never found, which bounds"
    assert caplog.messages == [f"{text} AP, H-AP, TR@9"]
