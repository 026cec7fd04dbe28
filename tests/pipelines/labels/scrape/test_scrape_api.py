"""The api source against a loopback Wikimedia: what it finds, what it asks, and what it does not ask."""

import io
import json
from collections import Counter

import pytest
from wikimedia import Places, Wikimedia, World
from wikimedia.tools import FakeTime, places, scrape
from wikimedia.world import CommonsPage, entity, recorded, statement

from hiertree.errors import ScrapeError
from hiertree.pipelines.labels import CleanSettings, ColumnNames, clean_step, read_kept
from hiertree.pipelines.labels.landmarks import InstanceValue
from hiertree.pipelines.labels.scrape.action_api import item_fact, label_fact
from hiertree.pipelines.labels.scrape.outcomes import outcomes, tally
from hiertree.pipelines.labels.scrape.scraping import read_subjects
from hiertree.pipelines.labels.scrape.store import Item, Label, LandmarkRow, Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def washington(shared_data, tmp_path_factory):
    path = shared_data / "gldv2_washington" / "landmarks_washington_full.csv"
    folder = tmp_path_factory.mktemp("washington")
    with Wikimedia(World.washington(path)) as wikimedia, Store(folder / "store.sqlite") as store:
        store.add_landmarks(read_subjects(path)[0])
        counts = scrape(store, wikimedia, FakeTime())
        return counts, wikimedia.asked, tally(store)


def test_washington_outcomes_say_why_there_is_no_label(washington):
    *_, outcome_counts = washington
    assert outcome_counts == {
        ("labeled", ""): 841,
        ("unlabeled", "no instance of"): 2,
        ("unlabeled", "category without main topic"): 1,
    }


def test_washington_costs_full_batches_and_no_question_twice(washington):
    counts, requests, _ = washington
    keys = Counter(
        (request.parameters["action"], request.parameters.get("prop", request.parameters.get("props")), key)
        for request in requests
        for key in request.keys
    )
    assert max(keys.values()) == 1
    # 17 + 1 for pages, 1 for moves, 17 + 2 for items and topics, 5 + 3 + 1 for classes and what stands above them
    assert len(requests) == 47
    assert counts["page found"] == 844
    assert counts["page moved"] == counts["move moved"] == 18


def test_every_request_follows_the_etiquette(washington):
    _, requests, _ = washington
    for request in requests:
        assert request.parameters["maxlag"] == "5"
        assert request.parameters["formatversion"] == "2"
        assert len(request.keys) <= 50
        assert request.user_agent.startswith("hiertree/")
        assert "(maps@univ-lab.fr) python-requests/" in request.user_agent


def test_each_label_has_its_origin(store):
    store.add_landmarks(places(40))
    with Wikimedia(Places.numbered(40), pages_an_answer=7) as wikimedia:
        scrape(store, wikimedia, FakeTime())
    outcome_of_id = {int(outcome.landmark_id): outcome for outcome in outcomes(store)}
    assert outcome_of_id[1].origin.redirects == '["Category:Place 1 2", "Category:Place 1 3"]'  # soft
    assert outcome_of_id[2].origin.redirects == '["Category:Place 2 2"]'  # hard
    assert outcome_of_id[5].origin.item == "Q500005"  # main topic
    assert outcome_of_id[10].values == (InstanceValue("Turm", "Q14"), InstanceValue("Q15", "Q15"))
    assert outcome_of_id[10].origin.languages == "de|"  # another language, none
    assert outcome_of_id[0].origin.revision == "11000"
    assert outcome_of_id[0].origin.modified == "2025-01-01T00:00:00Z"


def test_a_chain_of_moves_ends_after_five(store):
    world = Places.numbered(0)
    for index in range(9):
        world.pages[f"Category:Place {index}"] = CommonsPage(soft=f"Place {index + 1}", template="cat-red")
    store.add_landmarks(places(1))
    with Wikimedia(world) as wikimedia:
        scrape(store, wikimedia, FakeTime())
        keys = {key for request in wikimedia.asked for key in request.keys}
    assert tally(store) == {("unlabeled", "more than 5 moves"): 1}
    assert len(keys) == 6


def test_malformed_categories_are_kept_with_their_reason_and_never_asked(store, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("landmark_id,category\n1,https://en.wikipedia.org/wiki/A\n2,../../etc/passwd\n3,\n4,Q0\n5,P31\n")
    store.add_landmarks(read_subjects(table)[0])
    with Wikimedia(World()) as wikimedia:
        scrape(store, wikimedia, FakeTime())
        assert wikimedia.asked == []
    assert tally(store) == {
        ("unlabeled", "malformed category: another site than Wikimedia Commons"): 1,
        ("unlabeled", "malformed category: not a URL"): 2,
        ("unlabeled", "malformed category: characters that no title may hold"): 1,
        ("unlabeled", "malformed category: an empty cell"): 1,
    }


@pytest.mark.parametrize("source", ["api", "html"])
def test_landmarks_may_be_given_by_their_wikidata_items(store, tmp_path, source):
    table = tmp_path / "t.csv"
    items = ["Q10000", "https://www.wikidata.org/wiki/Q10005", "http://www.wikidata.org/entity/Q10009 ", "Q77"]
    table.write_text("landmark_id,wikidata_id\n" + "".join(f"{key},{item}\n" for key, item in enumerate(items)))
    store.add_landmarks(read_subjects(table, columns=ColumnNames(category="wikidata_id"))[0])
    with Wikimedia(Places.numbered(20)) as wikimedia:
        scrape(store, wikimedia, FakeTime(), source=source)
        assert all("ids" in request.parameters for request in wikimedia.asked)
    results = [
        (outcome.origin.item, [value.text for value in outcome.values], outcome.origin.reason)
        for outcome in outcomes(store)
    ]
    assert results == [
        ("Q10000", ["kind 0"], ""),
        ("Q500005", ["church building"], ""),  # a category's main topic
        ("Q10009", ["kind 9"], ""),
        ("Q77", [], "missing item"),
    ]


def test_a_second_run_asks_nothing_and_new_landmarks_only_what_they_need(store):
    store.add_landmarks(places(30))
    with Wikimedia(Places.numbered(60)) as wikimedia:
        scrape(store, wikimedia, FakeTime())
        first = len(wikimedia.asked)
        scrape(store, wikimedia, FakeTime())
        assert len(wikimedia.asked) == first
        store.add_landmarks(places(31))
        scrape(store, wikimedia, FakeTime())
        assert [request.keys for request in wikimedia.asked[first:]] == [["Category:Place 30"], ["Q10030"], ["Q130"]]


def test_old_facts_are_asked_again_and_replaced(store):
    world, time = Places.numbered(20), FakeTime()
    store.add_landmarks(places(20))
    with Wikimedia(world) as wikimedia:
        scrape(store, wikimedia, time)
        first = len(wikimedia.asked)
        world.entities["Q115"]["labels"]["en"]["value"] = "renamed"
        time.sleep(1000)
        scrape(store, wikimedia, time, cutoff=int(time.now().timestamp()) - 500)
        assert len(wikimedia.asked) == first + 5  # a batch of each stage, whose keys are known now
        scrape(store, wikimedia, time, cutoff=int(time.now().timestamp()) - 500)
        assert len(wikimedia.asked) == first + 5
    outcome_of_id = {int(outcome.landmark_id): outcome for outcome in outcomes(store)}
    assert outcome_of_id[15].values[0].text == "renamed"


def test_a_store_of_another_table_is_refused_untouched(store):
    store.add_landmarks(places(3))
    with pytest.raises(ScrapeError, match="landmark 1 is 'c1' there and 'other' here"):
        store.add_landmarks([LandmarkRow("9", "new", None, ""), LandmarkRow("1", "other", None, "")])
    assert store.counts()["landmarks"] == 3


def test_the_log_tells_of_every_batch(store):
    store.add_landmarks(places(20))
    log = io.StringIO()
    with Wikimedia(Places.numbered(20)) as wikimedia:
        scrape(store, wikimedia, FakeTime(), log=log)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(lines) == len(wikimedia.asked)
    assert (lines[0]["event"], lines[0]["stage"], lines[0]["asked"]) == ("batch", "page", 20)
    assert lines[0]["answers"] == {"found": 16, "moved": 2, "missing": 1, "no item": 1}


def test_the_stages_of_a_landmark_can_be_followed_in_sql(store):
    store.add_landmarks(places(6))
    with Wikimedia(Places.numbered(6)) as wikimedia:
        scrape(store, wikimedia, FakeTime())
    rows = store.connection.execute("SELECT stage, key, source FROM stages WHERE landmark_id = ?", ("5",)).fetchall()
    assert sorted(rows) == [
        ("category", "c5", None),
        ("item", "Q10005", "api"),
        ("item", "Q500005", "api"),
        ("label", "Q13", "api"),
        ("page", "Category:Place 5", "api"),
    ]


def test_recorded_answers_are_read_as_they_are(shared_data):
    entities = recorded(shared_data / "wikimedia_samples").entities
    assert item_fact("Q42", entities["Q42"]).instances == ("Q5",)
    assert item_fact("Q42", entities["Q42"]).revision == 595492361
    new_york = item_fact("Q60", entities["Q60"])
    assert {"Q1637706", "Q200250", "Q208511"} <= set(new_york.instances)
    assert item_fact("Q483718", entities["Q483718"]).instances == ()
    assert label_fact("Q5", entities["Q5"]) == Label("Q5", "human", "en")
    deleted = json.loads((shared_data / "wikimedia_samples" / "wptools_wikidata_deleted.json").read_text())
    assert item_fact("Q10908976", deleted["response"]["entities"]["Q10908976"]) == Item("Q10908976", "missing")


def gone_classes():
    """A world of 40 landmarks, three of whose classes, and a parent of another, Wikidata does not have."""
    world = Places.numbered(40)
    world.add(
        entity("Q10020", statement("Q5001")),
        entity("Q10021", statement("Q5002"), statement("Q101")),
        entity("Q10022", statement("Q5001")),
        entity("Q115", statement("Q6001", prop="P279"), labels={"en": "kind 15"}),
    )
    return world


@pytest.mark.parametrize("source", ["api", "html"])
def test_a_class_that_wikidata_does_not_have_settles_and_is_marked(store, source):
    store.add_landmarks(places(40))
    time = FakeTime()
    with Wikimedia(gone_classes()) as wikimedia:
        counts = scrape(store, wikimedia, time, source=source)
        second_counts = scrape(store, wikimedia, time, source=source)
    outcome_of_id = {int(outcome.landmark_id): outcome for outcome in outcomes(store)}
    assert not any(outcome.status in ("failed", "pending") for outcome in outcome_of_id.values())
    assert {key: outcome_of_id[key].origin.reason for key in (20, 21, 22)} == dict.fromkeys(
        (20, 21, 22), "missing class"
    )
    assert [value.text for value in outcome_of_id[20].values] == ["Q5001"]
    assert [value.text for value in outcome_of_id[21].values] == ["Q5002", "kind 1"]
    assert counts["class missing"] == 6  # three classes: what they are called, and what they are subclasses of
    assert counts["class failed"] == second_counts.total() == 0
    assert max(time.slept) < 1  # nothing was asked again


def test_landmarks_without_a_named_class_are_dropped_or_keep_its_id(store, tmp_path):
    store.add_landmarks(places(40))
    with Wikimedia(gone_classes()) as wikimedia:
        scrape(store, wikimedia, FakeTime())
    table = tmp_path / "landmarks.csv"
    table.write_text("landmark_id,category\n" + "".join(f"{index},c{index}\n" for index in range(40)))
    dropped = clean_step(table, store=store.path, out=tmp_path / "dropped")
    assert dropped["because"]["no label"]["missing class"] == 2
    clean_step(table, store=store.path, out=tmp_path / "kept", settings=CleanSettings(unnamed="keep"))
    labels = {
        int(outcome.landmark_id): (outcome.labels, outcome.origin.reason) for outcome in read_kept(tmp_path / "kept")
    }
    assert labels[20] == labels[22] == (("Q5001",), "missing class")
    assert labels[21] == (("kind 1",), "missing class")
