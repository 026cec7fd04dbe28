"""The html source: the recorded page, every shape of infobox, and the same labels as by the api."""

import pytest
from wikimedia import Places, Wikimedia
from wikimedia.answers import page_answer
from wikimedia.tools import FakeTime, places, scrape

from hiertree.pipelines.labels.scrape.category_page import read_page
from hiertree.pipelines.labels.scrape.client import TryAgain, Unusable
from hiertree.pipelines.labels.scrape.outcomes import tally
from hiertree.pipelines.labels.scrape.store import Store

TITLE = "<title>Category:A - Wikimedia Commons</title>"


def page(infobox="", *, head=TITLE):
    return read_page("Category:A", f"<!DOCTYPE html><html><head>{head}</head><body>{infobox}</body></html>")


def infobox(cell, header="Instance of"):
    return f'<table id="wdinfobox"><tr><th class="wikidatainfobox-lcell">{header}</th><td>{cell}</td></tr></table>'


def test_the_recorded_page_is_read(shared_data):
    text = (shared_data / "wikimedia_samples" / "Category_Happy_Valley_Racecourse.html").read_text(encoding="utf-8")
    page_facts = read_page("Category:Happy Valley Racecourse", text)
    assert page_facts.status == "found"
    assert page_facts.read == (("horse racing venue", "Category:Racecourses"),)


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("<ul><li>lake</li><li><a href='/wiki/Category:Dams'>dam</a></li></ul>", ["lake", "dam"]),
        ("<ul><li>county hall (<a href='/wiki/Category:X'>Surrey</a>)</li></ul>", ["county hall (Surrey)"]),
        ("<ul><li>\n church\u00a0 building </li><li></li></ul>", ["church building"]),
        ("waterfall", ["waterfall"]),
        ("<ul><li>kind<ul><li>inner</li></ul></li></ul>", ["inner"]),
        ("<ul><li>lake</li><li>lake</li></ul>", ["lake"]),
        ("<ul><li>R&amp;D &lt;b&gt;</li></ul>", ["R&D <b>"]),
        ("<ul><li>lake<li><a href='/wiki/Category:Dams'>dam</a></ul>", ["lake", "dam"]),
        ("lake<br/><a href='/wiki/Category:Dams'>dam</a><br>pond", ["lake", "dam", "pond"]),
        (
            "<ul><li>church building<sup class='reference'><a href='#cite_note-1'>[1]</a></sup></li></ul>",
            ["church building"],
        ),
        ("<ul><li><span style='display:none'>0190</span>castle</li></ul>", ["castle"]),
        ("<ul><li><span class='sortkey'>0190</span>castle\u200b</li></ul>", ["castle"]),
        ("<ul><li><style>.a{color:red}</style>lake<script>f()</script><!-- a --></li></ul>", ["lake"]),
        ("<span style='DISPLAY:none'>x</span><i hidden>y</i>lake", ["lake"]),
        ("<div>lake</div><div>dam</div>", ["lake", "dam"]),
        ("<ul><li><p>lake <b>of</b> salt</p>dam<div><div>pond</div></div></li></ul>", ["lake of salt", "dam", "pond"]),
    ],
)
def test_whole_entries_are_read(cell, texts):
    assert [text for text, _ in page(infobox(cell)).read] == texts


def test_the_header_may_be_written_in_any_case_and_other_rows_do_not_count():
    assert page(infobox("lake", "INSTANCE  OF")).status == "found"
    assert page(infobox("Paris", "Location")).status == "no instance of"
    assert page("<table><tr><th>Instance of</th><td>lake</td></tr></table>").status == "no infobox"
    assert page("<table id='wdinfobox'><tr><th>Instance of</th></tr></table>").status == "no instance of"


def test_the_item_and_the_page_shown_are_noted():
    edit = (
        '<tr><td><a title="Edit infobox data on Wikidata" href="https://www.wikidata.org/wiki/Q42#P31">e</a></td></tr>'
    )
    canonical = '<link rel="canonical" href="https://commons.wikimedia.org/wiki/Category:New_A"/>'
    came = '<span class="mw-redirectedfrom">(Redirected from <a title="Category:A" href="#">Category:A</a>)</span>'
    page_facts = page(f'{came}<table id="wdinfobox">{edit}</table>', head=canonical)
    assert page_facts.item == "Q42"
    assert page_facts.redirects == ("Category:New A",)


def test_soft_redirects_lead_on_or_are_unreadable():
    header = '<div class="category-redirect-header">This category is at <a href="{}">there</a></div>'
    assert page(header.format("/wiki/Category:Lumen_Field")).target == "Category:Lumen Field"
    assert page(header.format("/wiki/File:B.jpg")).status == "unreadable move"


@pytest.mark.parametrize(
    "head",
    [
        "",
        "<title>Wikimedia Commons</title>",
        "<title>Log in - Wikimedia Commons</title>",
        "<title>Category:B - Wikimedia Commons</title>",
        '<title>Category:A</title><link rel="canonical" href="https://commons.wikimedia.org/wiki/Category:B"/>',
        '<title>Category:A</title><link rel="canonical" href="https://evil.net/wiki/Category:A"/>',
        '<title>Category:A</title><link rel="canonical" href="https://commons.wikimedia.org/wiki/File:A.jpg"/>',
    ],
)
def test_a_whole_page_that_is_not_the_categorys_own_says_nothing_about_it(head):
    for body in ("", infobox("lake"), "<div class='category-redirect-header'><a href='/wiki/Category:C'>C</a></div>"):
        with pytest.raises(TryAgain, match="not the page of 'Category:A'"):
            page(body, head=head)


def test_another_page_than_was_asked_for_is_a_failure_and_asked_for_again_by_retry(tmp_path):
    with Store(tmp_path / "store.sqlite") as store, Wikimedia(Places.numbered(40)) as wikimedia:
        store.add_landmarks(places(40))
        wikimedia.moved = {"/wiki/Category:Place_0": "/wiki/Category:Place_15"}
        scrape(store, wikimedia, FakeTime(), source="html")
        assert [row[0] for row in store.connection.execute("SELECT key FROM failures")] == ["Category:Place 0"]
        wikimedia.moved = {}
        store.forget_failures()
        scrape(store, wikimedia, FakeTime(), source="html")
        assert tally(store)["failed", ""] == 0
        assert store.counts()["failures"] == 0


def test_a_page_of_too_many_elements_is_refused_before_it_is_parsed():
    with pytest.raises(Unusable, match="more than 200000 elements"):
        page("<a>" * 200_000)


def test_a_page_cut_anywhere_is_asked_for_again_whatever_end_it_was_given():
    world = Places.numbered(40)
    _, html = page_answer(world, "Category:Place 0")
    page_facts = read_page("Category:Place 0", html)
    assert page_facts.read == (("kind 0", "Category:X"),)
    for end in ("</html>", "</body></html>", "</table></body></html>"):
        for cut in range(0, html.index("printfooter"), 7):
            with pytest.raises(TryAgain):
                read_page("Category:Place 0", html[:cut] + end)


def test_a_page_cut_short_is_not_taken_for_one_without_infobox():
    with pytest.raises(TryAgain, match="truncated page"):
        read_page("Category:A", "<!DOCTYPE html><html><body>")
