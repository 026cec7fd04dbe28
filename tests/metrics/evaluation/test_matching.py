"""A run is matched with its judgments in one of two ways, whose results are the same."""

from __future__ import annotations

import numpy as np
import pytest

from hiertree.errors import InputError
from hiertree.metrics import evaluate_ranking
from hiertree.metrics.evaluation.lists import _match_mappings

METRICS = ["H-AP", "NDCG", "AP[1]", "R@2", "P@3[1]"]


def lists(count):
    random = np.random.default_rng(1)
    run, qrels = {}, {}
    for query in range(count):
        items = [f"d{item}" for item in random.permutation(120)[: query % 13].tolist()]
        run[f"q{query}"] = dict(zip(items, random.integers(0, 5, len(items)) / 4, strict=True))  # with ties
        qrels_items = [f"d{item}" for item in random.permutation(12000)[: 3 + query % 4].tolist()] + items[::3]
        qrels[f"q{query + 7}"] = {item: int(random.integers(0, 4)) for item in qrels_items}
        qrels[f"q{query + 7}"] |= {f"d{item}é": 2 for item in range(query % 2)}
    return run, qrels


def same(run, qrels, reference, **options):
    result, expected = (
        evaluate_ranking(*retrieval, metrics=METRICS, **options) for retrieval in ((run, qrels), reference)
    )
    np.testing.assert_array_equal(result.values, expected.values)
    assert result.query_ids == expected.query_ids


def by_name(run, qrels):
    """The same as iterators of records, which are numbered name by name."""

    class Record:
        def __init__(self, query, item, count):
            self.query_id, self.doc_id, self.score, self.relevance = query, item, count, count

    def records(lists_of_queries):
        return (
            Record(query, item, count) for query, items in lists_of_queries.items() for item, count in items.items()
        )

    return records(run), records(qrels)


@pytest.mark.parametrize("ties", ["average", "index"])
def test_mappings_are_matched_as_records_are(ties):
    run, qrels = lists(60)
    run = {query: items for query, items in run.items() if items}  # records know no empty list
    assert _match_mappings(run, qrels) is not None
    same(run, qrels, by_name(run, qrels), ties=ties)


def test_objects_of_ranx_are_matched_as_mappings_are():
    ranx = pytest.importorskip("ranx")
    run, qrels = lists(60)
    run = {query: items for query, items in run.items() if items}  # ranx's constructor takes no empty list
    objects = ranx.Run(run), ranx.Qrels(qrels)
    same(*objects, (objects[0].to_dict(), objects[1].to_dict()))
    assert evaluate_ranking(*objects, metrics=METRICS).convention.scores.startswith("ranx Run")


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        ({"q": {"a": float("nan")}}, {"q": {"a": 1}}),
        ({"q": {"a": 1.0}}, {"q": {"a": -1}}),
        ({"q": {"a": 1.0}}, {"q": {"a": 1.5}}),
        ({"q": {"a": 1.0}}, {"q": {"a": 256}}),
        ({"q": {7: 1.0}}, {"q": {"7": 1}}),
        ({"q": {"a": 1.0}}, {"p": {"a": 1}}),
        ({"q": {"a": "high"}}, {"q": {"a": 1}}),
        ({"q": {"a": 2**53 + 1}}, {"q": {"a": 1}}),
    ],
)
def test_what_is_wrong_is_left_to_the_checks_by_name(run, qrels):
    assert _match_mappings(run, qrels) is None
    with pytest.raises(InputError):
        evaluate_ranking(run, qrels)
