"""From URLs as published to titles as MediaWiki knows them."""

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hiertree.errors import CategoryError
from hiertree.pipelines.labels.texts import category_title, landmark_key, linked_title, normal_title, page_path

COMMONS = "http://commons.wikimedia.org/wiki/"


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("Category:Happy_Valley_Racecourse", "Category:Happy Valley Racecourse"),
        ("Category:Tweed_Heads,_New_South_Wales", "Category:Tweed Heads, New South Wales"),
        ("Category:Isa_Khan_Niyazi's_tomb", "Category:Isa Khan Niyazi's tomb"),
        ("Category:Orthodox_church_in_E%C5%82k", "Category:Orthodox church in Ełk"),
        ("Category:%22Mural%22", 'Category:"Mural"'),
        ("Category:Cafe%CC%81", "Category:Café"),
        ("Category:AC/DC_Lane", "Category:AC/DC Lane"),
        ("Category:100%25_Design", "Category:100% Design"),
        ("category:__oslo_", "Category:Oslo"),
        # first letters that $wgOverrideUcfirstCharacters of Wikimedia's wikis leaves as they are, or gives a capital
        *((f"Category:{sign}x", f"Category:{sign}x") for sign in "ßŉაჰჿⅷⓩꞹﬁ\U00016e60ὒᾈῼ"),
        *((f"Category:{small}x", f"Category:{capital}x") for small, capital in ("ᾳᾼ", "ᾀᾈ", "ǆǄ", "łŁ", "жЖ", "𐐨𐐀")),
    ],
)
def test_urls_become_titles(url, title):
    assert category_title(COMMONS + url) == title
    assert linked_title(page_path(title)) == title


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "not a URL"),
        ("ftp://commons.wikimedia.org/wiki/Category:A", "not a URL"),
        ("http://[bad/wiki/Category:A", "not a URL"),
        ("http://commons.wikimedia.org.evil.net/wiki/Category:A", "another site"),
        ("http://127.0.0.1/wiki/Category:A", "another site"),
        (COMMONS + "File:A.jpg", "not a category"),
        (COMMONS + "Category:", "0 or more than 255 bytes"),
        (COMMONS + "Category:" + "%C3%A9" * 128, "0 or more than 255 bytes"),
        (COMMONS + "Category:%FF", "not UTF-8"),
        (COMMONS + "Category:A%7CCategory:B", "characters that no title may hold"),
        (COMMONS + "Category:A%0AB%00", "characters that no title may hold"),
        (COMMONS + "Category:..%2F..%2Fetc%2Fpasswd", "characters that no title may hold"),
        (COMMONS + "Category:A?action=edit", "query or fragment"),
        (COMMONS + "Category:A#top", "query or fragment"),
        ("http://commons.wikimedia.org/w/index.php/Category:A", "not a /wiki/ page"),
    ],
)
def test_malformed_urls_are_refused_with_a_reason(url, reason):
    with pytest.raises(CategoryError, match=reason):
        category_title(url)


@pytest.mark.parametrize(
    ("cell", "key"),
    [
        ("Category:Comet Falls", "Category:Comet Falls"),
        (" comet_Falls ", "Category:Comet Falls"),
        ("category: comet falls", "Category:Comet falls"),
        ("Sparkassen-Arena,_G%C3%B6ttingen", "Category:Sparkassen-Arena, Göttingen"),
        ("commons.wikimedia.org/wiki/Category:Comet_Falls", "Category:Comet Falls"),
        ("Q42", "Q42"),
        ("http://www.wikidata.org/entity/Q42", "Q42"),
        ("https://m.wikidata.org/wiki/Q42#P31", "Q42"),
        ("<http://www.wikidata.org/entity/Q42>", "Q42"),
        ("wd:Q101", "Q101"),
        ("Q42\u200e", "Q42"),
        ("\u200eCategory:Comet Falls\u200f", "Category:Comet Falls"),
        ("\u202aComet \u202eFalls\u202c", "Category:Comet Falls"),
        ("Q: a place", "Category:Q: a place"),
        (":Category:comet_Falls", "Category:Comet Falls"),
        ("c:Category:Comet Falls", "Category:Comet Falls"),
        ("[[:commons:Category:Comet Falls|the falls]]", "Category:Comet Falls"),
        ("[[Category:Comet Falls]]", "Category:Comet Falls"),
    ],
)
def test_a_landmark_may_be_named_by_a_title_or_an_item(cell, key):
    assert landmark_key(cell) == key


@pytest.mark.parametrize(
    "cell",
    ["", "File:Falls.jpg", "User talk:A", "www.example.org/a", "/etc/passwd", "a|b", "%FF", "Q1;Q2", "wd:Q1、 wd:Q2"],
)
def test_what_names_no_category_is_refused(cell):
    with pytest.raises(CategoryError):
        landmark_key(cell)


def test_an_item_beyond_wikidatas_range_is_no_landmark():
    assert landmark_key("Q2147483647") == "Q2147483647"
    with pytest.raises(CategoryError, match="beyond Wikidata's range"):
        landmark_key("Q2147483648")


def test_all_published_urls_are_read(shared_data):
    for path in ("gldv2_qids/gldv2_first_ids.csv", "gldv2_washington/landmarks_washington_full.csv"):
        with (shared_data / path).open(encoding="utf-8-sig", newline="") as file:
            titles = [category_title(row["category"]) for row in csv.DictReader(file)]
        assert len(set(titles)) == len(titles) >= 52


@given(st.text(max_size=40))
@settings(max_examples=200)
def test_any_text_is_a_stable_title_or_a_typed_error(text):
    try:
        title = normal_title(f"Category:{text}")
    except CategoryError:
        return
    assert landmark_key(title) == title
    assert normal_title(title) == title
    assert linked_title(page_path(title)) == title
    assert "|" not in title
