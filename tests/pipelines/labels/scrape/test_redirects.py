"""Categories that have moved: by templates, by redirects, to another wiki; and ids that Wikidata cannot have."""

import pytest
from wikimedia import Wikimedia, World
from wikimedia.tools import FakeTime, scrape
from wikimedia.world import entity, statement

from hiertree.errors import ScrapeError
from hiertree.pipelines.labels.scrape.action_api import move_target
from hiertree.pipelines.labels.scrape.category_page import read_page
from hiertree.pipelines.labels.scrape.outcomes import outcomes
from hiertree.pipelines.labels.scrape.store import LandmarkRow, Store
from hiertree.pipelines.labels.texts import landmark_key

TEMPLATES = (
    "{{Category redirect|1=New|reason=renamed}}",
    "{{Category redirect|reason=as in [[:Category:Old]]|1=New}}",
    "{{Category redirect|1=Old|1=New}}",
    "{{category_redirect\n| 1 = New\n}}",
    "{{Cat-red|category:new}}",
    "{{Category redirect<!-- bot -->|New<!-- 2021 -->}}",
    "<!-- {{Category redirect|Old}} -->{{Category redirect|New}}",
    "<nowiki>{{Category redirect|Old}}</nowiki>{{Category redirect|New}}",
    "<includeonly>{{Category redirect|Old}}</includeonly>{{Category redirect|New}}",
    "{{tl|Category redirect}} {{Redirect category|New}}",
    "{{Template:Category redirect|New}}",
    "{{:template:Category redirect|:Category:New#History}}",
    "{{Category redirect|[[:Category:New|the new one]]}}",
    "{{#if: yes|{{Seecat|New}}}}",
    "{{Category redirect|\u200eNew\u200e}}",
)


@pytest.mark.parametrize("wikitext", TEMPLATES)
def test_a_soft_redirect_leads_where_mediawiki_leads(wikitext):
    assert move_target(wikitext) == "Category:New"


@pytest.mark.parametrize(
    "wikitext",
    [
        "{{Category redirect}}",
        "{{Category redirect|}}",
        "{{Category redirect|{{PAGENAME}} 2}}",
        "<nowiki>{{Category redirect|New}}</nowiki>",
        "[[Category:Redirects]] Category redirect|New",
        "{{a|" * 3000,
    ],
)
def test_wikitext_that_names_no_category_leads_nowhere(wikitext):
    assert move_target(wikitext) is None


def test_entities_in_a_title_are_read():
    assert move_target("{{Category redirect|AT&amp;T Stadium}}") == "Category:AT&T Stadium"


def test_an_id_that_wikidata_cannot_have_is_settled_by_halving_its_batch(tmp_path):
    world = World()
    world.add(*(entity(f"Q{index}", statement("Q23397")) for index in range(1, 50)), entity("Q23397"))
    keys = [f"Q{index}" for index in range(1, 50)] + ["Q99999999999"]
    with Store(tmp_path / "store.sqlite") as store, Wikimedia(world) as wikimedia:
        store.add_landmarks([LandmarkRow(key, key, key, None) for key in keys])
        scrape(store, wikimedia, FakeTime())
        reasons = {outcome.landmark_id: outcome.origin.reason for outcome in outcomes(store)}
        assert store.counts()["failures"] == 0
        assert len([request for request in wikimedia.asked if "Q7" in request.keys]) == 6
    assert reasons == dict.fromkeys(keys[:-1], "") | {"Q99999999999": "missing item"}


def page(body):
    head = "<title>Category:A - Wikimedia Commons</title>"
    return read_page("Category:A", f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>")


@pytest.mark.parametrize(
    ("link", "status", "target"),
    [
        ("/wiki/Category:Lumen_Field#History", "moved", "Category:Lumen Field"),
        ("//commons.wikimedia.org/wiki/Category:B", "moved", "Category:B"),
        ("/w/index.php?title=Category:Not_there&amp;action=edit&amp;redlink=1", "moved", "Category:Not there"),
        ("https://en.wikipedia.org/wiki/Category:Lakes", "redirect to another wiki", None),
        ("http://[::1", "unreadable move", None),
    ],
)
def test_the_link_of_a_soft_redirect_is_read_as_its_template_is(link, status, target):
    answer = page(f'<div class="category-redirect-header">now at <a href="{link}">there</a></div>')
    assert (answer.status, answer.target) == (status, target)


def test_one_category_written_in_two_ways_is_one_landmark_and_another_is_refused(tmp_path):
    def rows(*cells):
        return [LandmarkRow(str(index), cell, landmark_key(cell), None) for index, cell in enumerate(cells)]

    with Store(tmp_path / "store.sqlite") as store:
        store.add_landmarks(rows("http://commons.wikimedia.org/wiki/Category:Comet_Falls", "Q101"))
        store.add_landmarks(rows("https://commons.wikimedia.org/wiki/Category:Comet_Falls\u200e", "wd:Q101"))
        assert store.counts()["landmarks"] == 2
        with pytest.raises(ScrapeError, match=r"landmark 1 is 'Q101' there and 'wd:Q102' here"):
            store.add_landmarks(rows("Category:Comet Falls", "wd:Q102"))


def test_a_landmark_that_an_earlier_version_could_not_read_is_asked_for(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        store.add_landmarks([LandmarkRow("1", "wd:Q101", None, "not a category")])
        store.add_landmarks([LandmarkRow("1", "wd:Q101", "Q101", None)])
        assert store.missing()["item"] == ["Q101"]
