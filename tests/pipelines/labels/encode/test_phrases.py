"""The grammar of place labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiertree.pipelines.labels.encode.place_nouns import KINDS, NO_LANDMARK, parse, thesaurus


@pytest.mark.parametrize(
    ("label", "head", "sense"),
    [
        ("Washington state park", "state park", "protected area"),
        ("national park", "national park", "protected area"),
        ("urban park", "park", "park and garden"),
        ("group of lakes", "lake", "lake"),
        ("place of worship", "place of worship", "place of worship"),
        ("Rock formations in the United States", "rock formation", "rock formation"),
        ("school building", "school", "education"),
        ("mixed-use building", "mixed-use building", "office and commerce"),
        ("diocese of the Catholic Church", "diocese", "organisation"),
        ("natural history museum", "museum", "museum"),
        ("church", "church", "church"),
    ],
)
def test_the_head_noun_and_its_sense_are_found(label, head, sense):
    phrase = parse(label)
    assert (phrase.head, phrase.sense, phrase.certain) == (head, sense, True)


@pytest.mark.parametrize(
    ("labels", "sense"),
    [
        (("thermae", "hammam", "public bath", "Roman baths", "onsen"), "bath"),
        (("hospital", "nursing home"), "hospital"),
        (("town hall", "city hall", "courthouse"), "government"),
        (("prison", "penitentiary"), "prison"),
    ],
)
def test_baths_are_no_hospitals_and_town_halls_no_prisons(labels, sense):
    assert {parse(label).sense for label in labels} == {sense}


@pytest.mark.parametrize(
    ("label", "sense"),
    [
        ("film", "creative work"),
        ("oil painting", "creative work"),
        ("group of humans", "person"),
        ("taxon", "living thing"),
        ("battle", "event"),
        ("municipality of Spain", "administrative unit"),
        ("cultural heritage monument in Germany", "heritage designation"),
        ("Grade II listed building", "heritage designation"),
    ],
)
def test_what_is_no_landmark_has_a_sense_that_says_so_and_speaks_for_no_kind(label, sense):
    phrase = parse(label)
    assert (phrase.sense, phrase.certain, thesaurus().theme_of[sense]) == (sense, True, NO_LANDMARK)
    assert not any(phrase.head in thesaurus().anchors(kind) for kind in KINDS)


def test_a_noun_that_is_not_the_head_gives_an_uncertain_sense():
    phrase = parse("lake monster")
    assert (phrase.head, phrase.sense, phrase.certain) == ("monster", "lake", False)


def test_an_unknown_label_has_no_sense():
    assert parse("studio glass").sense is None


@given(st.text())
def test_any_text_can_be_taken_apart(text):
    phrase = parse(text)
    assert phrase.sense is None or phrase.sense in thesaurus().kind_of


def test_every_noun_of_the_thesaurus_is_its_own_head_with_its_own_sense():
    for noun, sense in thesaurus().sense_of.items():
        phrase = parse(noun)
        assert (phrase.head, phrase.sense, phrase.certain) == (noun, sense, True)


def test_a_noun_belongs_to_one_group_and_a_group_to_one_kind():
    from pathlib import Path

    import yaml

    from hiertree.pipelines.labels.encode import place_nouns

    document = yaml.safe_load(Path(place_nouns.__file__).with_name("place_nouns.yaml").read_text(encoding="utf-8"))
    groups = [group for kind in KINDS for theme in document[kind].values() for group in theme.items()]
    nouns = [noun for _, members in groups for noun in members]
    assert len({name for name, _ in groups}) == len(groups)
    assert sorted(set(nouns)) == sorted(nouns)
    assert len(thesaurus().noun_of) == len(nouns)
