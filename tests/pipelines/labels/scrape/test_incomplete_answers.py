"""Answers that are not whole: asked for again, never taken for a fact, and nothing of them is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from wikimedia.tools import FakeTime, places

from hiertree.errors import ScrapeError
from hiertree.pipelines.labels.scrape import action_api
from hiertree.pipelines.labels.scrape.client import Client, HttpAnswer
from hiertree.pipelines.labels.scrape.outcomes import tally
from hiertree.pipelines.labels.scrape.scraping import ask_missing
from hiertree.pipelines.labels.scrape.store import Store
from hiertree.pipelines.labels.settings import ScrapeSettings

A, B = "Category:A", "Category:B"
Parameters = Mapping[str, str]


class Answering:
    """A transport that answers with what a function makes of each request, and keeps the requests."""

    def __init__(self, answer):
        self._answer, self.asked = answer, list[Parameters]()

    def get(self, url, parameters=None):
        assert url
        self.asked.append(parameters or {})
        document = self._answer(parameters or {})
        return HttpAnswer(200, {}, document if isinstance(document, bytes) else json.dumps(document).encode())


def in_turn(*answers):
    left = iter(answers)
    return Answering(lambda _: next(left))


def client(transport, **settings):
    return Client(transport, settings=ScrapeSettings(**settings), clock=FakeTime().clock)


def page(title, item=None, **properties):
    return {
        "pageid": 1,
        "ns": 14,
        "title": title,
        **({"pageprops": {"wikibase_item": item}} if item else {}),
        **properties,
    }


def whole(*pages):
    return {"batchcomplete": True, "query": {"pages": list(pages)}}


def going_on(*pages, to="1"):
    return {"continue": {"ppcontinue": to, "continue": "||"}, "query": {"pages": list(pages)}}


def items(transport, *titles):
    pages = action_api.ask_pages(client(transport), titles)
    return {fact.key: fact.item if fact.status == "found" else fact.status for fact in pages}


def test_a_continuation_that_leaves_a_page_out_is_asked_for_again():
    first, short = going_on(page(A, "Q1"), page(B)), whole(page(A))
    assert items(in_turn(first, short, whole(page(A), page(B, "Q2"))), A, B) == {A: "Q1", B: "Q2"}


def test_nothing_of_a_rejected_answer_is_kept():
    wrong = whole({"ns": 14, "title": A, "missing": True})
    assert items(in_turn(wrong, whole(page(A, "Q1"), page(B, "Q2"))), A, B) == {A: "Q1", B: "Q2"}
    query = {"batchcomplete": True, "query": {"redirects": [{"from": A, "to": "Category:X"}], "pages": []}}
    assert items(in_turn(query, whole(page(A, "Q1"))), A) == {A: "Q1"}


def test_an_answer_that_neither_ends_nor_goes_on_is_not_whole():
    cut = {"query": {"pages": [page(A)]}}
    assert items(in_turn(cut, whole(page(A, "Q1"))), A) == {A: "Q1"}
    assert items(in_turn({**cut, "batchcomplete": False}, whole(page(A, "Q1"))), A) == {A: "Q1"}


def test_after_batchcomplete_nothing_more_is_asked():
    transport = in_turn({**whole(page(A, "Q1")), "continue": {"rncontinue": "0.4", "continue": "-||"}})
    assert items(transport, A) == {A: "Q1"}


def test_what_several_answers_say_of_a_page_is_put_together():
    soft = [{"ns": 14, "title": "Category:Category redirects"}]
    pages = [{"ns": 14, "title": "Category:Non-empty category redirects"}]
    first, second = going_on(page(A, categories=soft)), going_on(page(A, categories=pages), to="2")
    assert items(in_turn(first, second, whole(page(A, "Q1"))), A) == {A: "moved"}


def test_answers_that_contradict_each_other_are_not_put_together():
    gone = {"ns": 14, "title": A, "missing": True}
    assert items(in_turn(going_on(page(A)), whole(gone), whole(page(A, "Q1"))), A) == {A: "Q1"}


@pytest.mark.parametrize(
    "broken",
    [
        {"ns": 14, "title": A},  # neither an id nor "missing"
        page(A, pageprops=[{"wikibase_item": "Q1"}]),
        page(A, pageprops={"wikibase_item": "P1"}),
        page(A, categories={}),
    ],
)
def test_a_page_of_another_shape_is_not_one_without_an_item(broken):
    assert items(in_turn(whole(broken), whole(page(A, "Q1"))), A) == {A: "Q1"}


def test_titles_that_redirect_in_a_circle_have_no_page():
    circle = [{"from": A, "to": B}, {"from": B, "to": A}]
    assert items(in_turn({"batchcomplete": True, "query": {"redirects": circle}}), A) == {A: "redirect loop"}


WHOLE_ITEM = {"id": "Q1", "claims": {"P31": [{"rank": "normal", "mainsnak": {"snaktype": "somevalue"}}]}}


@pytest.mark.parametrize(
    "broken",
    [
        {"id": "Q1"},
        {"id": "Q1", "claims": None},
        {"id": "Q1", "claims": "P31"},
        {"id": "Q1", "claims": [1]},
        {"id": "Q1", "claims": {"P31": {}}},
        {"id": "Q1", "claims": {"P31": ["Q5"]}},
        {**WHOLE_ITEM, "id": "Q7"},  # another item, and no redirect to it
        {**WHOLE_ITEM, "id": "Q7", "redirects": {"from": "Q2", "to": "Q7"}},
    ],
)
def test_an_entity_that_is_not_whole_has_no_instance_of_only_if_it_says_so(broken):
    transport = in_turn({"entities": {"Q1": broken}}, {"entities": {"Q1": WHOLE_ITEM}})
    (item,) = action_api.ask_items(client(transport), ["Q1"])
    assert (item.status, item.instances, len(transport.asked)) == ("found", (), 2)


@pytest.mark.parametrize("broken", [{"id": "Q1"}, {"id": "Q1", "labels": None}, {"id": "Q1", "labels": {"en": "lake"}}])
def test_an_entity_without_labels_is_one_without_a_label_only_if_it_says_so(broken):
    entity = {"id": "Q1", "labels": {"en": {"language": "en", "value": "lake"}}}
    transport = in_turn({"entities": {"Q1": broken}}, {"entities": {"Q1": entity}})
    (labels,) = action_api.ask_labels(client(transport), ["Q1"])
    assert (labels.text, len(transport.asked)) == ("lake", 2)
    (labels,) = action_api.ask_labels(client(in_turn({"entities": {"Q1": {"id": "Q1", "labels": []}}})), ["Q1"])
    assert labels.text is None


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        yield store


def ask(store, transport, **settings):
    ask_missing(store, client(transport, **settings))


def missing_but(left_out):
    """Answers in which every page but some is missing."""
    return lambda asked: whole(
        *({"ns": 14, "title": key, "missing": True} for key in asked["titles"].split("|") if key not in left_out)
    )


def test_a_batch_whose_answer_stays_incomplete_is_halved_until_the_key_at_fault_stands_alone(store):
    store.add_landmarks(places(120))
    transport = Answering(missing_but({"Category:Place 7", "Category:Place 90"}))
    ask(store, transport)
    assert tally(store)["unlabeled", "missing page"] == 118
    failed = store.connection.execute("SELECT stage, key, reason FROM failures ORDER BY key").fetchall()
    assert [row[:2] for row in failed] == [("page", "Category:Place 7"), ("page", "Category:Place 90")]
    assert all("incomplete" in row[2] for row in failed)
    assert len(transport.asked) < 50


def test_a_server_that_never_answers_in_full_ends_the_run_soon(store):
    store.add_landmarks(places(400))
    transport = Answering(lambda _: whole())
    with pytest.raises(ScrapeError, match="in a row without an answer"):
        ask(store, transport)
    assert len(transport.asked) < 100


def test_an_answer_too_large_is_halved_as_long_as_that_helps(store):
    store.add_landmarks(places(120))
    body = b'{"batchcomplete":true,"query":{"pages":[' + b"{}," * 600_000 + b"{}]}}"
    transport = Answering(lambda asked: body if len(asked["titles"].split("|")) > 20 else missing_but(set())(asked))
    ask(store, transport)
    assert tally(store)["unlabeled", "missing page"] == 120
    transport = Answering(lambda _: body)
    store.add_landmarks(places(400))
    with pytest.raises(ScrapeError, match="in a row without an answer"):
        ask(store, transport)
    assert len(transport.asked) < 30


def test_an_endless_continuation_ends_and_is_not_halved(store):
    store.add_landmarks(places(400))
    transport = Answering(
        lambda asked: {
            **missing_but(set())(asked),
            "batchcomplete": False,
            "continue": {"ppcontinue": str(len(transport.asked)), "continue": "||"},
        }
    )
    with pytest.raises(ScrapeError, match="in a row without an answer"):
        ask(store, transport)
    assert len(transport.asked) < 100
