"""Runs and judgments in the files and objects of other libraries, and items that paths judge."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from metric_cases import cosines

from hiertree.errors import EmbeddingError, InputError, OptionError, PathError, ShapeError, TableError
from hiertree.metrics import Rules, evaluate, evaluate_ranking, read_trec_qrels, write_trec_qrels, write_trec_run

METRICS = ["H-AP", "AP[1]", "AP[2]", "P@5", "NDCG@5"]


@pytest.fixture(scope="module")
def run_and_qrels():
    random = np.random.default_rng(3)
    items = [f"d{item}" for item in range(30)]
    run = {
        f"q{query}": {item: float(score) for item, score in zip(items, random.permutation(30) + 1, strict=True)}
        for query in range(6)
    }
    qrels = {f"q{query}": {item: int(random.integers(0, 3)) for item in items} for query in range(6)}
    return run, qrels


def check_same(result, expected):
    pd.testing.assert_frame_equal(result.per_query().sort_index(), expected.per_query().sort_index(), atol=1e-12)


def frame_of(items, scores):
    return pd.DataFrame({"query": ["q"] * len(items), "doc": items, "score": scores})


def rows(nested):
    return [(query, item, value) for query, items in nested.items() for item, value in items.items()]


def test_parquet_and_every_frame_give_the_same_numbers(run_and_qrels, tmp_path):
    run, qrels = run_and_qrels
    expected = evaluate_ranking(run, qrels, metrics=METRICS)
    frames = [
        pd.DataFrame(rows(run), columns=["q_id", "doc_id", "score"]),
        pd.DataFrame(rows(qrels), columns=["query_id", "doc_id", "relevance"]),
    ]
    for file, frame in zip(("run.parquet", "qrels.parquet"), frames, strict=True):
        frame.to_parquet(tmp_path / file)
    check_same(evaluate_ranking(tmp_path / "run.parquet", tmp_path / "qrels.parquet", metrics=METRICS), expected)
    polars = pytest.importorskip("polars")
    for library in (pa.Table.from_pandas, polars.from_pandas):
        check_same(evaluate_ranking(*map(library, frames), metrics=METRICS), expected)


def test_numbers_that_name_items_are_texts_in_files(tmp_path):
    pd.DataFrame({"query": [1], "doc": [7], "score": [0.5]}).to_parquet(tmp_path / "run.parquet")
    (tmp_path / "qrels.txt").write_text("1 0 7 1\n")
    assert evaluate_ranking(tmp_path / "run.parquet", tmp_path / "qrels.txt", metrics=["AP"]).summary()["AP"] == 1.0


@pytest.mark.nightly
def test_what_ranx_saves_is_read_and_its_numbers_agree(run_and_qrels, tmp_path):
    ranx = pytest.importorskip("ranx")
    run, qrels = run_and_qrels
    ranx.Run(run).save(str(tmp_path / "run.json"))
    ranx.Qrels(qrels).save(str(tmp_path / "qrels.json"))
    result = evaluate_ranking(tmp_path / "run.json", tmp_path / "qrels.json", metrics=METRICS)
    check_same(result, evaluate_ranking(run, qrels, metrics=METRICS))
    ranx.Qrels(qrels).save(str(tmp_path / "qrels.parquet"))  # whose column of grades is "score"
    check_same(evaluate_ranking(tmp_path / "run.json", tmp_path / "qrels.parquet", metrics=METRICS), result)
    ranx_values = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), ["map-l2", "precision@5-l2", "ndcg_burges@5"])
    values = result.summary()[["AP[2]", "P@5", "NDCG@5"]].to_list()
    assert values == pytest.approx(list(ranx_values.values()), abs=1e-9)


def test_iterators_of_ir_measures_are_read_and_its_numbers_agree(run_and_qrels, tmp_path):
    ir_measures = pytest.importorskip("ir_measures")
    run, qrels = run_and_qrels
    write_trec_run(tmp_path / "run.txt", run)
    write_trec_qrels(tmp_path / "qrels.txt", qrels)
    result = evaluate_ranking(
        ir_measures.read_trec_run(str(tmp_path / "run.txt")),
        ir_measures.read_trec_qrels(str(tmp_path / "qrels.txt")),
        metrics=METRICS,
    )
    check_same(result, evaluate_ranking(run, qrels, metrics=METRICS))
    docs = [ir_measures.ScoredDoc(*row) for row in rows(run)]
    judgments = [ir_measures.Qrel(*row) for row in rows(qrels)]
    check_same(evaluate_ranking(docs, judgments, metrics=METRICS), result)
    measures = [ir_measures.AP(rel=1), ir_measures.AP(rel=2), ir_measures.P(rel=2) @ 5]
    reference_values = ir_measures.calc_aggregate(measures, judgments, docs)
    values = result.summary()[["AP[1]", "AP[2]", "P@5"]].to_list()
    assert values == pytest.approx([reference_values[measure] for measure in measures], abs=1e-6)
    write_trec_run(tmp_path / "again.txt", docs)
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "run.txt").read_bytes()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.json", "[1]"),
        ("run.json", '{"q": "a"}'),
        ("run.json", '{"q": {"a": 1, "a": 2}}'),
        ("run.json", "{"),
        ("run.parquet", "no"),
        ("absent.json", None),
        ("absent.parquet", None),
    ],
)
def test_files_of_another_shape_are_refused_by_name(file, text, tmp_path):
    if text is not None:
        (tmp_path / file).write_text(text)
    with pytest.raises(TableError, match=file):
        evaluate_ranking(tmp_path / file, {"q": {"a": 1}})


def test_judgments_below_0_are_an_error_or_irrelevant(tmp_path):
    (tmp_path / "qrels.txt").write_text("q 0 a 1\nq 0 spam -2\n")
    run = {"q": ["spam", "a"]}
    with pytest.raises(TableError, match=r"qrels\.txt, line 2.*negative='irrelevant'"):
        evaluate_ranking(run, tmp_path / "qrels.txt")
    result = evaluate_ranking(
        run, tmp_path / "qrels.txt", compat=Rules(negative="irrelevant", unjudged="error"), metrics=["AP"]
    )
    assert result.summary()["AP"] == 0.5
    assert read_trec_qrels(tmp_path / "qrels.txt", negative_qrels="irrelevant") == {"q": {"a": 1, "spam": 0}}
    for judgments in ({"q": {"a": 1, "spam": -2}}, pd.DataFrame({"query": ["q"], "doc": ["spam"], "level": [-2]})):
        with pytest.raises(PathError, match="level -2"):
            evaluate_ranking(run, judgments)
        evaluate_ranking(run, judgments, compat=Rules(negative="irrelevant"), metrics=["AP"])
    with pytest.raises(PathError, match=r"-0\.5"):
        evaluate_ranking(run, {"q": {"a": -0.5}}, compat=Rules(negative="irrelevant"))
    with pytest.raises(OptionError, match="negative="):
        evaluate_ranking(run, {"q": {"a": 1}}, compat=Rules(negative="zero"))


def embedded(seed=0, count=40):
    random = np.random.default_rng(seed)
    paths = random.integers(0, 3, (count, 2)) @ np.array([[1, 3], [0, 1]])
    return random.standard_normal((count, 8)), paths, [f"{row}.jpg" for row in range(count)]


def test_a_run_of_named_items_is_judged_by_their_paths(tmp_path):
    embeddings, paths, names = embedded()
    scores = cosines(embeddings, embeddings)
    run = {names[row]: dict(zip(names, scores[row].tolist(), strict=True)) for row in range(40)}
    expected = evaluate(embeddings, paths, metrics=METRICS)
    result = evaluate_ranking(run, query_paths=paths, query_names=names, metrics=METRICS)
    np.testing.assert_allclose(result.per_query().to_numpy(), expected.per_query().to_numpy(), atol=1e-9)
    assert result.per_query().index.tolist() == names
    result_of_five = evaluate_ranking(
        {name: run[name] for name in names[:5]}, query_paths=paths, query_names=names, metrics=METRICS
    )
    np.testing.assert_allclose(result_of_five.per_query().to_numpy(), expected.per_query().to_numpy()[:5], atol=1e-9)
    numbers = list(range(1000, 1040))  # ids as numbers in one file are texts in another
    ranked = {numbers[row]: [numbers[item] for item in np.argsort(-scores[row]) if item != row] for row in range(40)}
    separate = evaluate(embeddings[:10], paths[:10], embeddings[10:], paths[10:], metrics=METRICS)
    run = {names[row]: dict(zip(names[10:], scores[row, 10:].tolist(), strict=True)) for row in range(10)}
    labels = {"query_paths": paths[:10], "query_names": names[:10]}
    labels |= {"gallery_paths": paths[10:], "gallery_names": names[10:]}
    result = evaluate_ranking(run, **labels, metrics=METRICS)
    np.testing.assert_allclose(result.per_query().to_numpy(), separate.per_query().to_numpy(), atol=1e-9)
    texts = {name: list(items) for name, items in json.loads(json.dumps(ranked)).items()}
    for lists, spelled in ((ranked, numbers), (texts, numbers), (ranked, [*map(str, numbers)])):
        by_number = evaluate_ranking(lists, query_paths=paths, query_names=spelled, metrics=METRICS)
        np.testing.assert_allclose(by_number.per_query().to_numpy(), expected.per_query().to_numpy(), atol=1e-9)
    (tmp_path / "lists.json").write_text(json.dumps(ranked))
    by_file = evaluate_ranking(tmp_path / "lists.json", query_paths=paths, query_names=numbers, metrics=METRICS)
    np.testing.assert_allclose(by_file.per_query().to_numpy(), expected.per_query().to_numpy(), atol=1e-9)
    del run[names[3]]  # a query without a list finds nothing
    assert evaluate_ranking(run, **labels, metrics=["AP[1]"]).per_query()["AP[1]"][names[3]] == 0.0


def test_items_without_a_path_are_irrelevant_or_an_error():
    paths, names = [[0], [0], [1]], ["a", "b", "c"]
    result = evaluate_ranking({"a": ["x", "b"]}, query_paths=paths, query_names=names, metrics=["AP"])
    assert result.summary()["AP"] == 0.5
    assert "1 distractors at level 0" in result.convention.self_rule
    for run, names_given, error, message in [
        ({"a": ["x", "b"]}, names, PathError, "an item without a label"),
        ({"z": ["b"]}, names, PathError, "a query without a label"),
        ({"a": ["x.jpg"]}, names, OptionError, "items that have labels, such as 'a'"),
        ({"a": ["b"]}, ["a", "a", "c"], PathError, "rows 0 and 1"),
        ({"a": ["b"]}, ["a"], ShapeError, "1 query_names"),
    ]:
        with pytest.raises(error, match=message):
            evaluate_ranking(run, query_paths=paths, query_names=names_given, compat=Rules(unjudged="error"))
    with pytest.raises(OptionError, match="gallery_names"):
        evaluate_ranking({"a": ["b"]}, query_paths=paths, query_names=names, gallery_names=names)


@pytest.mark.nightly
def test_graded_qrels_of_a_tree_give_others_the_same_relevance(tmp_path):
    ranx = pytest.importorskip("ranx")
    embeddings, paths, names = embedded(count=20)
    write_trec_qrels(tmp_path / "levels.txt", query_paths=paths, query_names=names)
    write_trec_qrels(tmp_path / "gains.txt", query_paths=paths, query_names=names, grades=(0, 1, 3))
    scores = cosines(embeddings, embeddings) + 2
    run = {
        names[row]: {names[item]: float(scores[row, item]) for item in range(20) if item != row} for row in range(20)
    }
    expected = evaluate(embeddings, paths, metrics=["NDCG@5", "AP[1]"])
    result = evaluate_ranking(run, tmp_path / "levels.txt", metrics=["NDCG@5", "AP[1]"])
    np.testing.assert_allclose(result.summary(), expected.summary(), atol=1e-9)
    ranx_qrels = ranx.Qrels.from_file(str(tmp_path / "gains.txt"), kind="trec")
    ranx_value = ranx.evaluate(
        ranx_qrels,
        ranx.Run({query: run[query] for query in ranx_qrels.keys()}),  # noqa: SIM118
        ["ndcg@5", "map"],
    )
    assert [ranx_value["ndcg@5"], ranx_value["map"]] == pytest.approx(expected.summary().to_list(), abs=1e-6)


@pytest.mark.parametrize("grades", [(0, 1), (0, 1, -1), (0, 1.5, 2), "012", (0, True, 2)])
def test_grades_that_are_none_write_nothing(grades, tmp_path):
    with pytest.raises(OptionError, match="grades"):
        write_trec_qrels(tmp_path / "qrels.txt", query_paths=[[0, 0], [0, 1]], grades=grades)
    assert not (tmp_path / "qrels.txt").exists()


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        ({"q": {"a": 10**400}}, EmbeddingError, r"float64|numbers"),
        ({"q": {"a": [1], "b": [2]}}, EmbeddingError, r"float64|numbers"),
        ({"q": {"b": 2**53, "a": 2**53 + 1}}, EmbeddingError, r"float64|numbers"),
        (frame_of(["b", "a"], [2**53, 2**53 + 1]), EmbeddingError, r"float64|numbers"),
        ({"q": [["a"], "b"]}, PathError, r"name|item"),
        ({"q": [None, "a"]}, PathError, r"name|item"),
        ({"q": [float("nan"), "a"]}, PathError, r"name|item"),
        ({"q": [pd.NA, "a"]}, PathError, r"name|item"),
        ({"q": {None: 1.0}}, PathError, r"name|item"),
        ({"q": ["a"], None: ["a"]}, PathError, r"name|item"),
        (frame_of([["a"]], [1.0]), PathError, r"name|item"),
        ({"q": np.array(3)}, OptionError, "for query 'q'"),
        ({"q": np.array([["a", "b"]])}, OptionError, "for query 'q'"),
        ({"q": b"ab"}, OptionError, "for query 'q'"),
        (iter([("q", "a", 1.0)]), OptionError, "query_id, doc_id and score"),
    ],
)
def test_scores_names_and_lists_that_are_none_are_refused(run, error, message):
    with pytest.raises(error, match=message):
        evaluate_ranking(run, {"q": {"a": 1, "b": 0}}, metrics=["AP"])


@pytest.mark.parametrize("names", [[["a"], "b"], [None, "b"], 5])
def test_query_names_that_are_none_are_refused(names, tmp_path):
    with pytest.raises(InputError, match="query_names"):
        evaluate_ranking({"a": ["b"]}, query_paths=[0, 0], query_names=names)
    with pytest.raises(InputError, match="query_names"):
        write_trec_qrels(tmp_path / "qrels.txt", query_paths=[0, 0], query_names=names)


DISTANCES = {"a": 0.1, "x": 0.9, "b": 0.3}
RELEVANT = {"q": {"a": 1, "b": 1}}


@pytest.mark.parametrize("column", ["distance", "_distance", "dist"])
def test_a_column_of_distances_ranks_the_smallest_first(column):
    frame = pd.DataFrame({"query": "q", "doc": list(DISTANCES), column: list(DISTANCES.values())})
    for options in ({}, {"higher_is_better": False}):
        assert evaluate_ranking(frame, RELEVANT, metrics=["AP"], **options)["AP"] == 1.0
    renamed_frame = frame.rename(columns={column: "score"})
    assert evaluate_ranking(renamed_frame, RELEVANT, metrics=["AP"], higher_is_better=False)["AP"] == 1.0
    assert evaluate_ranking(renamed_frame, RELEVANT, metrics=["AP"])["AP"] == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_distances_in_any_form_rank_as_their_negatives_do(run_and_qrels, tmp_path):
    run, qrels = run_and_qrels
    distances = {query: {item: -score for item, score in items.items()} for query, items in run.items()}
    expected = evaluate_ranking(run, qrels, metrics=METRICS)
    write_trec_run(tmp_path / "run.txt", distances)
    for form in (distances, tmp_path / "run.txt", pytest.importorskip("ranx").Run(distances)):
        check_same(evaluate_ranking(form, qrels, metrics=METRICS, higher_is_better=False), expected)
    with pytest.raises(OptionError, match="by place"):
        evaluate_ranking({"q": ["a"]}, RELEVANT, higher_is_better=False)
    with pytest.raises(OptionError, match="indices"):
        evaluate_ranking([[0]], query_paths=[0], gallery_paths=[0], higher_is_better=False)


def delf_average_precision(ranked, relevant, limit=100):
    """As GLDv2's metrics.py: an image listed again takes its place and counts as wrong."""
    total, right, visited = 0.0, 0, set()
    for rank, name in enumerate(ranked[:limit], start=1):
        if name not in visited and name in relevant:
            right += 1
            total += right / rank
        visited.add(name)
    return total / min(len(relevant), limit)


def test_repeated_items_are_refused_or_take_their_place_as_in_delf():
    random = np.random.default_rng(0)
    lists = {f"q{query}": [f"d{item}" for item in random.integers(0, 30, 120)] for query in range(20)}
    qrels = {query: {f"d{item}": 1 for item in random.choice(30, 9, replace=False)} for query in lists}
    expected = [delf_average_precision(lists[query], qrels[query]) for query in lists]
    options = {"metrics": ["mAP@100"], "compat": "delf"}
    result = evaluate_ranking(lists, qrels, **options).per_query()["mAP@100"]
    assert result[list(lists)].tolist() == pytest.approx(expected, abs=1e-12)
    scored = pd.DataFrame([(q, d, -rank) for q, items in lists.items() for rank, d in enumerate(items)])
    scored = scored.set_axis(["query", "doc", "score"], axis=1).sample(frac=1, random_state=0)
    result = evaluate_ranking(scored, qrels, **options).per_query()["mAP@100"]
    assert result[list(lists)].tolist() == pytest.approx(expected, abs=1e-12)
    query_paths = np.zeros(1, int)
    for query, items in lists.items():
        gallery = [0 if f"d{item}" in qrels[query] else 1 for item in range(30)]
        paths = {"query_paths": query_paths, "gallery_paths": gallery}
        value = delf_average_precision(items, qrels[query])
        indices = [[int(name[1:]) for name in items]]
        assert evaluate_ranking(indices, **paths, **options)["mAP@100"] == pytest.approx(value, abs=1e-12)
        names = {"query_names": ["q"], "gallery_names": [f"d{item}" for item in range(30)]}
        assert evaluate_ranking({"q": items}, **paths, **names, **options)["mAP@100"] == pytest.approx(value, abs=1e-12)
    with pytest.raises(PathError, match="compat='delf'"):
        evaluate_ranking(lists, qrels)


def test_kaggle_files_of_id_and_images_are_runs_and_judgments(tmp_path):
    (tmp_path / "run.csv").write_text("id,images\nq,x a b\np,c\nempty,\nignored,a\n")
    (tmp_path / "solution.csv").write_text(
        "id,images,Usage\nq,a b,Private\np,c d,Public\nempty,a,Private\nignored,None,Ignored\n"
    )
    result = evaluate_ranking(tmp_path / "run.csv", tmp_path / "solution.csv", metrics=["mAP@100"]).per_query()
    assert result["mAP@100"].dropna().to_dict() == pytest.approx({"q": (1 / 2 + 2 / 3) / 2, "p": 0.5, "empty": 0.0})
    assert np.isnan(result["mAP@100"]["ignored"])
    frame = pa.table({"id": ["q"], "images": ["x a b"]})
    assert evaluate_ranking(frame, RELEVANT, metrics=["AP"])["AP"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    with pytest.raises(PathError, match="'q' twice"):
        evaluate_ranking(pd.DataFrame({"id": ["q", "q"], "images": ["a", "b"]}), RELEVANT)
