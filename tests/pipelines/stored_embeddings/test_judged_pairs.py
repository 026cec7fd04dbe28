"""``hiertree evaluate-pairs``: lists of Revisited and grades of pairs, from files to numbers."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from benchmark_files import FEW_STEPS, write_benchmark, write_distractors
from printed_commands import status_of
from reference_metrics import revisitop_average_precision, revisitop_precision_at_k

from hiertree.datasets import load_nus_wide, load_revisited
from hiertree.errors import EmbeddingError, InputError, OptionError, ShapeError, TableError
from hiertree.metrics import evaluate_scores
from hiertree.pipelines import pair_scores
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_pairs

POSITIVES = {"easy": ("easy",), "medium": ("easy", "hard"), "hard": ("hard",)}


@pytest.fixture
def revisited(tmp_path):
    """Embeddings of 7 queries and of 60 items, of which the ground truth names 50: the others are distractors."""
    random = np.random.default_rng(0)
    lists = []
    for _ in range(7):
        rows = random.permutation(50)
        lists.append({"bbx": [0, 0, 4, 4], "easy": rows[:5], "hard": rows[5:9], "junk": rows[9:15]})
    names = {"imlist": [f"item{row}" for row in range(50)], "qimlist": [f"query{row}" for row in range(7)]}
    (tmp_path / "gnd.pkl").write_bytes(pickle.dumps({"gnd": lists, **names}, protocol=2))
    for name, count in (("queries", 7), ("gallery", 60)):
        np.save(tmp_path / f"{name}.npy", random.standard_normal((count, 16)).astype(np.float32))
    return tmp_path


def cosines(folder):
    sides = [np.load(folder / f"{name}.npy").astype(np.float64) for name in ("queries", "gallery")]
    first, second = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
    return first @ second.T


def test_the_three_setups_are_those_of_revisitops_code(revisited, monkeypatch):
    monkeypatch.setattr(pair_scores, "_QUERIES", 3)  # as many queries at once, and items
    monkeypatch.setattr(pair_scores, "_ITEMS", 11)
    sides = {"gallery": revisited / "gallery.npy", "truth": revisited / "gnd.pkl"}
    result = evaluate_pairs(revisited / "queries.npy", **sides, as_json=True)
    lists = pickle.loads((revisited / "gnd.pkl").read_bytes())["gnd"]
    for setup, positives in POSITIVES.items():
        for row, (scores, judgments) in enumerate(zip(cosines(revisited), lists, strict=True)):
            relevant = np.concatenate([judgments[name] for name in positives])
            junk = np.concatenate([judgments[name] for name in ("easy", "hard", "junk") if name not in positives])
            items = np.setdiff1d(np.arange(60), junk)
            levels = np.isin(items, relevant).astype(int)
            expected = [revisitop_average_precision(scores[items], levels, 1)]
            expected += [revisitop_precision_at_k(scores[items], levels, 1, k) for k in (1, 5, 10)]
            names = [f"{name}[{setup}]" for name in ("AP", "P@1", "P@5", "P@10")]
            assert result.per_query().loc[row, names].tolist() == pytest.approx(expected)
    assert result.convention.protocol == "revisitop"
    average_precisions = evaluate_pairs(revisited / "queries.npy", **sides, metrics=["AP"], as_json=True)
    assert average_precisions.names == ("AP[easy]", "AP[medium]", "AP[hard]")
    assert average_precisions["AP[hard]"] != result["AP[hard]"]  # not by trapezoids


def test_grades_of_pairs_rank_embeddings_and_codes(tmp_path):
    write_benchmark("nus-wide", tmp_path)
    test = load_nus_wide(tmp_path, "test", queries_per_label=2, training_per_label=3, verify="structure")
    random = np.random.default_rng(3)
    vectors = random.standard_normal((len(test), 12)).astype(np.float16)
    for name, rows in (("queries", test.queries), ("gallery", test.gallery)):
        np.save(tmp_path / f"{name}.npy", vectors[rows])
    np.save(tmp_path / "grades.npy", test.grades())
    sides = {"gallery": tmp_path / "gallery.npy", "truth": tmp_path / "grades.npy", "as_json": True}
    result = evaluate_pairs(tmp_path / "queries.npy", codes=True, metrics=["AP[1]", "NDCG"], **sides)
    bits = vectors > 0
    distances = (bits[test.queries][:, None] != bits[test.gallery][None]).sum(axis=2)
    expected = evaluate_scores(-distances, test.grades(), metrics=["AP[1]", "NDCG"])
    np.testing.assert_array_equal(result.values, expected.values)
    assert "Hamming distance, 12 bits" in result.convention.scores
    cosine = evaluate_pairs(tmp_path / "queries.npy", metrics=["NDCG"], **sides)
    np.testing.assert_allclose(
        cosine.values, evaluate_scores(cosines(tmp_path), test.grades(), metrics=["NDCG"]).values, atol=1e-3
    )


def test_embeddings_that_the_judgments_do_not_fit_are_refused(revisited):
    truth = revisited / "gnd.pkl"
    with pytest.raises(OptionError, match="without a gallery"):
        evaluate_pairs(revisited / "queries.npy", truth=truth)
    with pytest.raises(OptionError, match=r"no such .*none\.npy"):
        evaluate_pairs(revisited / "queries.npy", gallery=revisited / "none.npy", truth=truth)
    queries, sides = revisited / "queries.npy", {"gallery": revisited / "gallery.npy"}
    (revisited / "bad.pkl").write_bytes(b"\x93NUMPY")
    with pytest.raises(TableError, match="pickle of numbers"):
        evaluate_pairs(queries, **sides, truth=revisited / "bad.pkl")
    with pytest.raises(InputError, match=r"gnd\.csv cannot be read.*\.npy of grades"):
        evaluate_pairs(queries, **sides, truth=truth.rename(revisited / "gnd.csv"))
    (revisited / "gnd.csv").rename(truth)
    for shape, message in [((7, 59), "7 queries and 60 items.*7 and 59"), ((8, 60), "expected 8 and 60")]:
        np.save(revisited / "grades.npy", np.ones(shape, np.uint8))
        with pytest.raises(ShapeError, match=message):
            evaluate_pairs(queries, **sides, truth=revisited / "grades.npy")
    np.save(revisited / "grades.npy", np.ones((7, 60)))
    with pytest.raises(ShapeError, match=r"type float64.*integers"):
        evaluate_pairs(queries, **sides, truth=revisited / "grades.npy")
    np.save(revisited / "grades.npy", np.zeros((7, 60), np.uint8))
    with pytest.raises(InputError, match="no metric a value"):
        evaluate_pairs(queries, **sides, truth=revisited / "grades.npy", metrics=["AP"])
    gallery = np.load(revisited / "gallery.npy")
    for bad, codes in ((np.nan, False), (np.nan, True), (0.0, False)):
        gallery[59] = bad
        np.save(revisited / "gallery.npy", gallery)
        with pytest.raises(EmbeddingError, match="NaN, infinite or zero"):
            evaluate_pairs(queries, **sides, truth=truth, codes=codes)
    np.save(revisited / "gallery.npy", gallery[:49])
    with pytest.raises(ShapeError, match=r"7 queries and 49 items.*7 and 50 or more"):
        evaluate_pairs(queries, **sides, truth=truth)
    (revisited / "skipped.csv").write_text("image,reason\nitem3,damaged\n")
    with pytest.raises(InputError, match=r"skipped\.csv.*shifts the others"):
        evaluate_pairs(queries, **sides, truth=truth)


def test_revisited_with_its_distractors_is_embedded_and_measured_by_two_commands(tmp_path, capsys):
    from hiertree.pipelines.training.recipe.reading import load_recipe
    from hiertree.pipelines.training.run.experiment import train

    write_benchmark("sop", tmp_path / "sop")
    write_benchmark("roxford5k", tmp_path / "roxford5k")
    write_distractors(tmp_path / "revisitop1m")
    train(load_recipe("sop-happier", [*FEW_STEPS, f"data.root={tmp_path / 'sop'}"]), tmp_path / "run")
    data = f"{{name: revisited, distractors: {tmp_path}, root: {tmp_path}, verify: structure}}"
    command = [
        "embed",
        tmp_path / "run",
        tmp_path / "roxford5k",
        "--out",
        tmp_path / "embedded",
        "--set",
        f"data={data}",
    ]
    assert status_of(*command) == 0
    embedded = read_embeddings(tmp_path / "embedded", needs_labels=False)
    assert embedded.separate
    assert embedded.items.embeddings.shape == (7, 8)
    truth = tmp_path / "roxford5k" / "gnd_roxford5k.pkl"
    capsys.readouterr()
    assert status_of("evaluate-pairs", tmp_path / "embedded", truth, "--json", "--out", tmp_path / "r.json") == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert set(summary) == {f"{name}[{setup}]" for name in ("AP", "P@1", "P@5", "P@10") for setup in POSITIVES}
    inputs = [entry["name"] for entry in json.loads((tmp_path / "r.json").read_text())["manifest"]["inputs"]]
    assert inputs == ["part-00000-of-00002.parquet", "part-00001-of-00002.parquet", "gnd_roxford5k.pkl"]
    judgments = load_revisited(tmp_path, distractors=tmp_path, verify="structure").ground_truth[1]
    items = [item for item in range(7) if item not in judgments["junk"]]
    assert summary["AP[hard]"] <= 1
    parts = ["--out", tmp_path / "parts", "--shard-size", "3"]
    assert status_of(*[*command[:3], *parts, *command[5:]]) == 0
    for folder in ("embedded", "parts"):  # whose last digits differ with the batches, and so may near-equal ranks
        vectors = read_embeddings(tmp_path / folder, needs_labels=False)
        np.testing.assert_allclose(vectors.queries.embeddings, embedded.queries.embeddings, atol=1e-5)
        np.testing.assert_allclose(vectors.items.embeddings, embedded.items.embeddings, atol=1e-5)
        np.save(tmp_path / "queries.npy", vectors.queries.embeddings)
        np.save(tmp_path / "gallery.npy", vectors.items.embeddings)
        relevant = [int(item in judgments["hard"]) for item in items]
        expected = revisitop_average_precision(cosines(tmp_path)[1][items], relevant, 1)
        per_query = evaluate_pairs(tmp_path / folder, truth=truth, as_json=True).per_query()
        assert per_query["AP[hard]"][1] == pytest.approx(expected)
