"""A run is matched with its judgments in one of two ways, whose results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hiertree.errors import InputError
from hiertree.metrics import evaluate_ranking
from hiertree.metrics.matching import match

METRICS = ["H-AP", "NDCG", "AP[1]", "R@2", "P@3[1]"]


def lists(number: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    random = np.random.default_rng(1)
    run, qrels = {}, {}
    for query in range(number):
        items = [f"d{item}" for item in random.permutation(120)[: query % 13].tolist()]
        run[f"q{query}"] = dict(zip(items, random.integers(0, 5, len(items)) / 4, strict=True))  # with ties
        judged = [f"d{item}" for item in random.permutation(12000)[: 3 + query % 4].tolist()] + items[::3]
        qrels[f"q{query + 7}"] = {item: int(random.integers(0, 4)) for item in judged}
        qrels[f"q{query + 7}"] |= {f"d{item}é": 2 for item in range(query % 2)}
    return run, qrels


def same(run: Any, qrels: Any, others: tuple[Any, Any], **options: Any) -> None:
    found, expected = (evaluate_ranking(*given, metrics=METRICS, **options) for given in ((run, qrels), others))
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.query_ids == expected.query_ids


def by_name(run: Any, qrels: Any) -> tuple[Any, Any]:
    """The same as iterators of records, which are numbered name by name."""

    class Record:
        def __init__(self, query: str, item: str, number: float) -> None:
            self.query_id, self.doc_id, self.score, self.relevance = query, item, number, number

    def records(side: Any) -> Any:
        return (Record(query, item, number) for query, own in side.items() for item, number in own.items())

    return records(run), records(qrels)


@pytest.mark.parametrize("ties", ["average", "index"])
def test_mappings_are_matched_as_records_are(ties: str) -> None:
    run, qrels = lists(60)
    run = {query: own for query, own in run.items() if own}  # records know no empty list
    assert match(run, qrels) is not None
    same(run, qrels, by_name(run, qrels), ties=ties)


def test_objects_of_ranx_are_matched_as_mappings_are() -> None:
    ranx = pytest.importorskip("ranx")
    for number, at_once in ((600, True), (20, False)):  # a few are not worth compiling
        run, qrels = lists(number)
        run = {query: own for query, own in run.items() if own}  # ranx's constructor takes no empty list
        given = ranx.Run(run), ranx.Qrels(qrels)
        assert (match(*given) is not None) == at_once
        others = given[0].to_dict(), given[1].to_dict()
        same(*given, (dict(others[0]), dict(others[1])))
    assert evaluate_ranking(*given, metrics=METRICS).convention.scores.startswith("ranx Run")


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
def test_what_is_wrong_is_left_to_the_checks_by_name(run: Any, qrels: Any) -> None:
    assert match(run, qrels) is None
    with pytest.raises(InputError):
        evaluate_ranking(run, qrels)


def test_an_item_without_judgment_is_named() -> None:
    with pytest.raises(InputError, match="'b'"):
        evaluate_ranking({"q": {"a": 1.0, "b": 2.0}}, {"q": {"a": 1}}, unjudged="error")
