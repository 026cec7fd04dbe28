"""Labels of any form give the numbers of integer paths, and a result that knows their names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import hiertree as ht
from hiertree.arrays import as_paths, shared_paths
from hiertree.errors import HiertreeError, OptionError, PathError, ShapeError, UnknownMetricError
from hiertree.losses import SupAP
from hiertree.metrics import evaluate, evaluate_codes, evaluate_ranking, evaluate_scores

FRAME = pd.DataFrame(
    {
        "kind": ["natural", "built", "natural", "built"] * 3,
        "class": ["lake", "lake", "bay", "dam"] * 3,  # a lake of each kind: two classes
        "image": range(12),
    }
)
LABELS = FRAME[["kind", "class"]]
IDS = np.array([[0, 0], [1, 1], [0, 2], [1, 3]] * 3)
EMBEDDINGS = np.random.default_rng(0).standard_normal((12, 4))


def polars_of(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def polars_frame():
    return polars_of(LABELS.to_dict("list"))


FORMS = {
    "a frame": lambda: LABELS,
    "categories": lambda: LABELS.astype("category"),
    "a frame of polars": polars_frame,
    "texts": lambda: LABELS.to_numpy().astype(str),
    "objects": lambda: LABELS.to_numpy(),
    "lists": lambda: LABELS.to_numpy().tolist(),
    "a frame of ids": lambda: pd.DataFrame(IDS, columns=["kind", "class"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_every_form_give_the_numbers_of_integer_paths(form):
    labels = FORMS[form]()
    np.testing.assert_array_equal(evaluate(EMBEDDINGS, labels).values, evaluate(EMBEDDINGS, IDS).values)
    separate = evaluate(EMBEDDINGS[:5], labels[:5], EMBEDDINGS[5:], labels[5:])
    np.testing.assert_array_equal(separate.values, evaluate(EMBEDDINGS[:5], IDS[:5], EMBEDDINGS[5:], IDS[5:]).values)


def test_text_and_numbers_in_one_level_are_refused_instead_of_being_two_classes():
    mixed = pd.DataFrame({"kind": ["a"] * 4, "class": np.array(["7", 7, "7", 7], dtype=object)})
    with pytest.raises(PathError, match=r"query_paths with text and numbers in 'class'"):
        evaluate(EMBEDDINGS[:4], mixed)
    assert evaluate(EMBEDDINGS[:4], mixed.astype(str)).skipped["R@1"] == 0


def test_texts_of_one_dimension_are_one_level():
    flat, ids = LABELS["class"], (IDS[:, 1] - 1).clip(min=0)
    for labels in (flat, list(flat), flat.to_numpy(), flat.astype("category")):
        np.testing.assert_array_equal(evaluate(EMBEDDINGS, labels).values, evaluate(EMBEDDINGS, ids).values)
    np.testing.assert_array_equal(ht.levels(flat[:2], list(flat)), ht.levels(ids[:2], ids))


def test_queries_and_gallery_share_their_numbers_everywhere():
    codes = EMBEDDINGS > 0
    for labels in (LABELS, IDS):
        coded = evaluate_codes(codes[:3], labels[:3], codes[3:], labels[::-1][:9])
        ranked = evaluate_ranking([[1, 0, 2]], query_paths=labels[:1], gallery_paths=labels[:3], metrics=["AP[1]"])
        if labels is LABELS:
            expected = coded.values, ranked.values
    np.testing.assert_array_equal(coded.values, expected[0])
    np.testing.assert_array_equal(ranked.values, expected[1])
    assert evaluate(EMBEDDINGS[:2], ["b", "a"], EMBEDDINGS[2:4], ["a", "b"], metrics=["R@10"])["R@10"] == 1.0


@pytest.mark.parametrize(
    ("labels", "row"),
    [
        (["a", None, "a"], 1),
        (["a", "a", float("nan")], 2),
        (["a", " ", "b"], 1),
        (pd.Series([3.0, 3.0, np.nan]), 2),
        (np.array([np.nan, 1.0, 2.0]), 0),
        (pd.Series([3, None, 4], dtype="Int64"), 1),
        (pd.DataFrame({"kind": ["x", "x", "x"], "class": ["a", None, "b"]}), 1),
        (pd.DataFrame({"kind": pd.Categorical(["x", None, "x"]), "class": [1, 2, 3]}), 1),
    ],
)
def test_a_missing_label_is_refused_by_row(labels, row):
    with pytest.raises(PathError, match=rf"without a label.*\(1 rows: {row}\)"):
        evaluate(EMBEDDINGS[:3], labels)


@pytest.mark.parametrize(
    ("query", "gallery", "error", "message"),
    [
        (["1", "2"], [1, 2], PathError, "text in query_paths, numbers in gallery_paths"),
        (LABELS[:2], FRAME[["class", "image"]][:2], PathError, "the columns kind, class, as in query_paths"),
        (LABELS[:2], ["lake", "dam"], ShapeError, "those of query_paths, 2"),
        (LABELS[:1], LABELS[:2], ShapeError, "1 rows: expected 2"),
        (pd.DataFrame({"class": [0.5, 1.5]}), IDS[:2, 1], PathError, "float64 in 'class'"),
        (pd.DataFrame({"class": [-1.0, np.nan]}), IDS[:2, 1], PathError, "without a label"),
        (pd.DataFrame({"class": [-1.0, 1.0]}), IDS[:2, 1], PathError, "negative ids"),
        (pd.DataFrame({"class": [2.0**53, np.inf]}), IDS[:2, 1], PathError, "float64 in 'class'"),
        (["a", "b"], [{}, {}], PathError, "unhashable"),
        (pd.DataFrame(IDS[:2], columns=["a", "a"]), IDS[:2], PathError, "unique"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(query, gallery, error, message):
    with pytest.raises(error, match=message):
        evaluate(EMBEDDINGS[:2], query, EMBEDDINGS[2:4], gallery)


@pytest.mark.parametrize("labels", [LABELS, pd.DataFrame(IDS, columns=["kind", "class"])])
def test_columns_of_queries_and_gallery_are_matched_by_name(labels):
    swapped = labels[["class", "kind"]]
    result = evaluate(EMBEDDINGS[:5], labels[:5], EMBEDDINGS[5:], swapped[5:])
    expected = evaluate(EMBEDDINGS[:5], IDS[:5], EMBEDDINGS[5:], IDS[5:])
    np.testing.assert_array_equal(result.values, expected.values)
    np.testing.assert_array_equal(ht.levels(labels, swapped), ht.levels(IDS, IDS))


REVERSED = np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0], [4, 2, 1], [5, 2, 1]] * 2)


@pytest.mark.parametrize(
    "form",
    [
        np.asarray,
        np.ndarray.tolist,
        torch.from_numpy,
        lambda ids: pd.DataFrame(ids, columns=["fine", "coarse", "group"]),
        lambda ids: pd.DataFrame(ids, columns=["fine", "coarse", "group"]).astype(str),
        lambda ids: polars_of({"fine": ids[:, 0], "coarse": ids[:, 1], "group": ids[:, 2]}),
    ],
)
def test_levels_given_fine_to_coarse_are_refused_instead_of_being_one_level(form):
    with pytest.raises(PathError, match="levels are given fine → coarse; reverse them"):
        evaluate(EMBEDDINGS, form(REVERSED))
    labels_coarse_first = form(REVERSED[:, ::-1].copy())
    assert evaluate(EMBEDDINGS, labels_coarse_first, metrics=["AP[1]", "AP[3]"]).values.shape == (12, 2)


def test_a_level_that_adds_nothing_is_taken():
    for labels in ([[0, 0], [1, 1], [1, 1]], [[0, 7], [1, 7], [2, 7]], [["a", "x"], ["b", "y"], ["a", "x"]]):
        assert evaluate(EMBEDDINGS[:3], labels, metrics=["H-AP"]).values.shape == (3, 1)


def test_frames_whose_indexes_differ_are_refused_instead_of_being_matched_by_place():
    frame, paths = pd.DataFrame(EMBEDDINGS, index=list("abcdefghijkl")), pd.DataFrame(IDS, index=list("abcdefghijkl"))
    expected = evaluate(EMBEDDINGS, IDS).values
    for labels in (paths, IDS, paths.reset_index(drop=True)):
        np.testing.assert_array_equal(evaluate(frame, labels).values, expected)
    with pytest.raises(OptionError, match=r"row 0 is 'a' of query, 'l' of query_paths.*reindex"):
        evaluate(frame, paths[::-1])
    with pytest.raises(OptionError, match=r"row 0 is 0 of query, 11 of query_ids"):
        evaluate(pd.DataFrame(EMBEDDINGS), IDS, query_ids=pd.Series(range(12))[::-1])
    with pytest.raises(OptionError, match=r"gallery, 'l' of gallery_paths"):
        evaluate(EMBEDDINGS[:2], IDS[:2], frame, paths[::-1])
    with pytest.raises(OptionError, match=r"'l' of query_paths"):
        evaluate_codes(frame > 0, paths[::-1])
    scores = pd.DataFrame(EMBEDDINGS[:3], columns=list("abcd"))
    with pytest.raises(OptionError, match=r"'a' of scores, 'd' of levels"):
        evaluate_scores(scores, pd.DataFrame(np.ones((3, 4), int), columns=list("dcba")))
    with pytest.raises(OptionError, match=r"row 0 is 0 of scores, 2 of levels"):
        evaluate_scores(scores, pd.DataFrame(np.ones((3, 4), int))[::-1])


def test_a_frame_not_yet_computed_is_refused():
    with pytest.raises(PathError, match=r"call its collect\(\)"):
        evaluate(EMBEDDINGS, polars_frame().lazy())


@pytest.mark.parametrize("library", [pd.DataFrame, polars_of])
def test_integers_with_missing_ones_among_them_are_refused(library):
    kinds, classes = (
        [None if row in (3, 7) else int(label) for row, label in enumerate(column_ids)] for column_ids in IDS.T
    )
    with pytest.raises(PathError, match=r"without a label in 'kind' \(2 rows: 3, 7\)"):
        evaluate(EMBEDDINGS, library({"kind": kinds, "class": classes}))


def test_samplers_take_text_and_losses_refuse_it():
    sampler = ht.samplers.SuperCategoryPairSampler(LABELS, batch_size=4, images_per_class=2)
    assert list(sampler) == list(ht.samplers.SuperCategoryPairSampler(IDS, batch_size=4, images_per_class=2))
    with pytest.raises(PathError, match="as_paths"):  # each batch would have its own numbers
        SupAP()(torch.randn(12, 4), np.array(LABELS, dtype=str))
    assert SupAP()(torch.from_numpy(EMBEDDINGS), as_paths(LABELS)).isfinite()


def test_losses_refuse_levels_given_fine_to_coarse_as_evaluations_do():
    fine = np.arange(64) // 2
    paths = torch.from_numpy(np.stack([fine, fine // 8], axis=1))
    with pytest.raises(PathError, match="reverse them"):
        SupAP()(torch.randn(64, 4), paths)
    with pytest.raises(PathError, match="reverse them"):
        SupAP()(torch.randn(64, 4), paths.flip(1), torch.randn(64, 4), paths)
    assert SupAP()(torch.randn(64, 4), paths.flip(1)).isfinite()


def test_a_name_below_two_parents_is_two_classes():
    paths, names = shared_paths({"query": LABELS, "gallery": LABELS[::-1]})
    np.testing.assert_array_equal(paths["query"], IDS)
    np.testing.assert_array_equal(paths["gallery"], IDS[::-1])
    assert names.class_names == (("natural", "built"), ("lake", "lake", "bay", "dam"))
    assert names.level_names == ("kind", "class")


def test_a_result_answers_by_metric():
    result = evaluate(EMBEDDINGS, LABELS, metrics=["H-AP", "AP[1]", "R@1"])
    assert result["H-AP"] == result.summary()["H-AP"]
    assert "R@1" in result
    assert "NDCG" not in result
    with pytest.raises(KeyError, match="did you mean 'H-AP'"):
        result["HAP"]
    result_of_two = evaluate(EMBEDDINGS[:2], ["a", "b"], metrics=["AP"])
    with pytest.raises(UnknownMetricError, match="2 queries without positives"):
        result_of_two["AP"]
    with pytest.raises(TypeError):
        iter(result)


def test_a_result_by_level_has_the_names_of_the_columns():
    metrics = ["H-AP", "AP[1]", "AP[2]", "R@1", "R@1[1]", "AP#1", "NDCG@3"]
    result = evaluate(EMBEDDINGS, LABELS, metrics=metrics)
    table = result.by_level()
    assert list(table.index) == ["kind", "class"]
    assert list(table.columns) == ["AP", "R@1", "AP#"]
    assert table.loc["kind", "AP"] == result["AP[1]"]
    assert table.loc["class", "R@1"] == result["R@1"]
    assert np.isnan(table.loc["class", "AP#"])
    errors = evaluate(EMBEDDINGS, IDS, metrics=[f"first-error[{level}]" for level in range(3)]).by_level()
    assert list(errors.index) == [0, 1, 2]
    assert errors["first-error"].sum() == pytest.approx(1.0)


def test_a_result_by_class_has_the_names_as_given():
    result = evaluate(EMBEDDINGS, LABELS, metrics=["AP"])
    values = result.per_query()["AP"].to_numpy()
    fine = result.by_class()
    assert fine.index.names == ["kind", "class"]
    assert fine.loc[("built", "lake"), "AP"] == pytest.approx(values[1::4].mean())
    assert fine["queries"].tolist() == [3, 3, 3, 3]
    coarse = result.by_class(level="kind")
    assert coarse.loc["natural", "AP"] == pytest.approx(values[::2].mean())
    pd.testing.assert_frame_equal(coarse, result.by_class(level=1))
    assert evaluate(EMBEDDINGS, IDS[:, 1] + 5, metrics=["AP"]).by_class().index.tolist() == [5, 6, 7, 8]
    with pytest.raises(OptionError, match="kind, class"):
        result.by_class(level="family")
    with pytest.raises(OptionError, match="between 1"):
        result.by_class(level=3)
    with pytest.raises(HiertreeError, match="per_query"):
        evaluate_ranking({"q": ["a"]}, {"q": {"a": 1}}, metrics=["AP"]).by_class()


def test_a_notebook_shows_a_table():
    page = evaluate(EMBEDDINGS, LABELS, metrics=["H-AP", "AP"])._repr_html_()
    assert page.count("<table") == 2
    assert "H-AP" in page
    assert "self-retrieval" in page
