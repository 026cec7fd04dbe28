"""The paper's cleaning rules, each drop with its reason."""

import csv
import unicodedata
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiertree.errors import OptionError
from hiertree.pipelines.labels import CleanSettings, clean_landmarks, clean_step, normalize_label, read_landmarks
from hiertree.pipelines.labels.cleaning import cleaning_report, describe_cleaning
from hiertree.pipelines.labels.landmarks import InstanceValue, Landmark
from hiertree.pipelines.labels.texts import is_wikimedia_page


def landmark(landmark_id, *texts):
    return Landmark(landmark_id, f"C{landmark_id}", tuple(InstanceValue(text) for text in texts))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("county hall (", "county hall"),
        ("church building (1909", "church building"),
        ("library building (University of Washington Libraries)", "library building"),
        ("castle (ruin) (former)", "castle"),
        ("  art\u00a0\tmuseum\n", "art museum"),
        ("cafe\u0301", "café"),
        ("\ufefflake\u200b", "lake"),
        ("\u202elake \u2066(x)\u2069", "lake"),
        ("دریاچه\u200cها", "دریاچه\u200cها"),
        ("র\u200d্যাব\u200d", "র\u200d্যাব"),
        ("\u200clake\u200d (x)", "lake"),
        ("lake\ufe0f, \u3164da\u00adm\u200c", "lake, dam"),
        ("(1909)", ""),
        ("National Wildlife Refuge", "National Wildlife Refuge"),
        ("administrative divisions of Italy", "administrative division"),
        ("list of communities in Manitoba", "list of communities in Manitoba"),
    ],
)
def test_labels_take_one_form(text, label):
    assert normalize_label(text) == label


@given(st.text())
def test_a_normalized_label_is_stable_composed_and_on_one_line(text):
    label = normalize_label(text)
    assert normalize_label(label) == label
    assert unicodedata.is_normalized("NFC", label)
    assert label == " ".join(label.split())
    assert not any(unicodedata.category(sign) == "Cc" for sign in label)


@given(st.from_regex(r"[a-z]{1,8}( [a-z]{1,8}){0,3}", fullmatch=True), st.text("( )", max_size=3))
def test_decoration_does_not_change_a_plain_label(label, blanks):
    assert normalize_label(label) == label
    assert normalize_label(f"  {label} (1999)") == label
    assert normalize_label(f"{label} {blanks.replace(')', '(')}").startswith(label)


@pytest.mark.parametrize(
    "text",
    [
        *("Wikimedia category", "Wikimedia disambiguation page", "wikimedia list article", "Wikimedia template"),
        *(
            "Wikimedia human name disambiguation page",
            "Wikipedia article",
            "disambiguation page",
            "Wikimedia-Kategorie",
        ),
        *("catégorie d'un projet Wikimedia", "página de desambiguación de Wikimedia", "lista di un progetto Wikimedia"),
        *("strona ujednoznaczniająca w projekcie Wikimedia", "категория в проекте Викимедиа"),
        "ウィキメディアの曖昧さ回避ページ",
    ],
)
def test_wikimedias_own_pages_are_known_by_text(text):
    assert is_wikimedia_page(InstanceValue(text))


@pytest.mark.parametrize(
    "text",
    [
        "waterfall",
        "category 1 listed building",
        "page",
        "list of kings",
        "Wikimedian",
        "Wikipedia monument",
        "Katedrale",
    ],
)
def test_places_are_not_taken_for_wikimedias_pages(text):
    assert not is_wikimedia_page(InstanceValue(text))


def test_wikimedias_own_pages_are_known_by_item_id_whatever_their_text():
    assert is_wikimedia_page(InstanceValue("Kategorie", "Q4167836"))


def test_every_drop_has_its_reason(landmarks, instances):
    result = clean_landmarks(read_landmarks(landmarks, instances)[0])
    assert {drop.landmark_id: drop.reason for drop in result.dropped} == {
        "15": "several labels",
        "16": "Wikimedia page",
        "17": "no label",
        "18": "not scraped",
    }
    assert [landmark_of_result.landmark_id for landmark_of_result in result.kept] == list(map(str, range(15)))


def test_repeats_and_spellings_of_one_label_are_one_label():
    result = clean_landmarks(
        [landmark(1, "Ferris wheel"), landmark(2, "ferris  wheel", "Ferris wheel"), landmark(3, "lake (")]
    )
    assert [item.labels for item in result.kept] == [("Ferris wheel",), ("Ferris wheel",), ("lake",)]
    assert [item.scraped for item in result.kept] == ["Ferris wheel", "ferris  wheel|Ferris wheel", "lake ("]
    assert result.mended == {"ferris  wheel": "Ferris wheel", "lake (": "lake"}
    equally_often = clean_landmarks([landmark(1, "Mosque"), landmark(2, "mosque (1702)")])
    assert [item.labels for item in equally_often.kept] == [("mosque",)] * 2


@pytest.mark.parametrize(("multi", "labels"), [("drop", []), ("first", [("castle",)]), ("all", [("castle", "palace")])])
def test_several_labels_follow_the_policy_after_junk_is_gone(multi, labels):
    result = clean_landmarks([landmark(1, "Wikimedia category", "castle", "palace")], multi=multi)
    assert [item.labels for item in result.kept] == labels


def test_junk_beside_one_label_leaves_that_label():
    assert clean_landmarks([landmark(1, "Wikimedia category", "castle")]).kept[0].labels == ("castle",)


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "unknown value", "Q12345", "(1909)", "#N/A", "#REF!", "#DIV/0!", "<NA>", "NaT", "[nan]", "\\N"),
        *("None, nan", "-", "123", "NaN", "n/a"),
    ],
)
def test_texts_that_say_nothing_are_no_label(text):
    assert [drop.reason for drop in clean_landmarks([landmark(1, text)]).dropped] == ["no label"]


def test_an_unknown_policy_is_refused():
    with pytest.raises(OptionError, match="multi='some'"):
        clean_landmarks([], multi="some")


def test_published_raw_types_are_put_into_one_form_and_the_report_says_so():
    texts = ["theatre", "theater", "theatre", "Shinto shrine", "shinto shrine", "shinto shrine", "castle (–1731)"]
    texts += ["rathaus (early modern period", "fortresses of Brazil", "fortress", "stations of the cross", "Q25416095"]
    landmarks = [Landmark(landmark_id, "c", (InstanceValue(text),)) for landmark_id, text in enumerate(texts)]
    result = clean_landmarks(landmarks)
    assert [item.labels[0] for item in result.kept] == [
        *["theatre"] * 3,
        *["shinto shrine"] * 3,
        "castle",
        "rathaus",
        *["fortress"] * 2,
        "stations of the cross",
    ]
    report = cleaning_report(result, unknown_ids=0)
    assert report["because"] == {"no label": {"only a Wikidata id": 1}}
    assert "1 of these --unnamed keep can keep" in describe_cleaning(report)
    assert [drop.origin.reason for drop in result.dropped] == ["only a Wikidata id"]
    assert report["mended_labels"]["fortresses of Brazil"] == "fortress"
    assert "5 texts normalized: 'Shinto shrine' → 'shinto shrine'," in describe_cleaning(report)
    decomposed = {"cafe\u0301": "caf\u00e9"}  # they look alike
    assert describe_cleaning(report | {"mended_labels": decomposed}).endswith("→ 'caf\u00e9' (Unicode form)")


def test_published_types_are_joined_only_where_the_annotators_joined_them_too(shared_data):
    with (shared_data / "gldv2_hierarchical" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        pairs = [(row["supercategory"], row["hierarchical_label"]) for row in csv.DictReader(file)]
    result = clean_landmarks(landmark(landmark_id, text) for landmark_id, (text, _) in enumerate(pairs))
    released = defaultdict(set)
    for item in result.kept:
        released[item.labels[0]].add(pairs[int(item.landmark_id)][1])
    assert (len(pairs), len(released)) == (160, 143)
    assert all(len(labels) == 1 for labels in released.values())
    assert [drop.values for drop in result.dropped] == [("Q25416095",)]


def test_texts_that_name_nothing_are_no_labels_and_are_reported():
    texts = ["-", "123", "NaN", "n/a", "lake", "神社"]
    result = clean_landmarks(landmark(index, text) for index, text in enumerate(texts))
    assert [item.labels[0] for item in result.kept] == ["lake", "神社"]
    assert [drop.origin.reason for drop in result.dropped] == ["no letter", "no letter", "", ""]


@pytest.mark.parametrize("cell", ["['lake', 'dam']", '["lake", "dam"]', "[ 'lake' , 'dam', ]"])
def test_a_cell_that_python_or_json_wrote_holds_several_values(tmp_path, cell):
    table = tmp_path / "t.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("landmark_id", "instance_of"), (1, cell), (2, "[lake]")])
    landmarks, _ = read_landmarks(table)
    assert [value.text for value in landmarks[0].values] == ["lake", "dam"]
    assert [value.text for value in landmarks[1].values] == ["[lake]"]


def test_labels_that_look_like_several_values_are_named_with_what_separates_them(tmp_path):
    texts = ["lake; dam", "lake; xorg", "xorg", "lake, dam", "Tweed Heads, New South Wales", "lake、dam", "lake；dam"]
    table = tmp_path / "t.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("landmark_id", "instance_of"), *enumerate(texts)])
    report = clean_step(table, out=tmp_path / "out")
    assert report["joined_values"] == {
        ";": ["lake; dam", "lake; xorg"],
        ",": ["lake, dam"],
        "、": ["lake、dam"],
        "；": ["lake；dam"],
    }
    assert "2 labels look like several values, 'lake; dam' for instance: --separator ';'" in describe_cleaning(report)
    repeat = clean_step(table, out=tmp_path / "again", settings=CleanSettings(separator=";"))
    assert repeat["dropped"] == {"several labels": 2}
    assert set(repeat["joined_values"]) == {",", "、", "；"}


def test_ids_of_known_classes_are_named_and_urls_are_no_labels():
    texts = ["Q23397", "http://www.wikidata.org/entity/Q12323", "Q99999999999", "https://commons.wikimedia.org/wiki/X"]
    result = clean_landmarks([Landmark(n, "", (InstanceValue(text),)) for n, text in enumerate(texts)])
    assert [(item.labels, item.item_ids) for item in result.kept] == [(("lake",), ("Q23397",)), (("dam",), ("Q12323",))]
    assert [dropped.origin.reason for dropped in result.dropped] == ["only a Wikidata id", "a URL"]
