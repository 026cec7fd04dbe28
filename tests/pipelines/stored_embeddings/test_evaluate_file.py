"""Embeddings and labels on disk."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

import hiertree as ht
from hiertree.errors import EmbeddingError, EmptyLabelError, InputError, OptionError, PathError, ShapeError, TableError
from hiertree.metrics import evaluate, evaluate_codes, evaluate_ranking, write_trec_qrels, write_trec_run
from hiertree.pipelines.cli.application import main
from hiertree.pipelines.report import make_report
from hiertree.pipelines.stored_embeddings import embeddings_files
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file, evaluate_run, write_qrels

LABELS = ["kind", "name"]


@pytest.fixture
def retrieval(tmp_path):
    """Embeddings and paths, which lie in the folder as e.npy and e.npz, too."""
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(30) // 15, np.arange(30) // 3], axis=1)
    embeddings = random.standard_normal((30, 6)).astype(np.float32)
    np.save(tmp_path / "e.npy", embeddings)
    np.savez(tmp_path / "e.npz", embeddings=embeddings, paths=paths)
    return embeddings, paths


def test_an_npz_gives_the_numbers_of_evaluate(retrieval, tmp_path, capsys):
    embeddings, paths = retrieval
    result = evaluate_file(
        tmp_path / "e.npz", out=tmp_path / "result.json", per_query=tmp_path / "values.parquet", as_json=True
    )
    expected = evaluate(embeddings, paths)
    np.testing.assert_array_equal(result.values, expected.values)
    record = json.loads((tmp_path / "result.json").read_text())
    assert json.loads(capsys.readouterr().out)["summary"] == record["summary"] == expected.as_dict()["summary"]
    assert record["manifest"]["inputs"][0]["name"] == "e.npz"
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "values.parquet"), expected.per_query(), check_index_type=False
    )


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("embeddings", (12,)),
        ("paths", ()),
        ("paths", (12, 0)),
        ("ids", (12, 2)),
        ("ids", ()),
        ("gallery_embeddings", (9, 3)),
        ("gallery_embeddings", (0, 4)),
        ("gallery_paths", (9, 1)),
        ("gallery_paths", (8, 2)),
        ("gallery_ids", (12,)),
        ("names", (9,)),
        ("gallery_names", (12,)),
        ("distractors", (12,)),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused_as_soon_as_they_are_read(tmp_path, name, shape):
    shapes = {"embeddings": (12, 4), "paths": (12, 2), "gallery_embeddings": (9, 4), "gallery_paths": (9, 2)}
    arrays = {key: np.zeros(value, np.int64) for key, value in {**shapes, name: shape}.items()}
    np.savez(tmp_path / "e.npz", **arrays)
    with pytest.raises(ShapeError, match=rf"e\.npz: {name} of shape"):
        read_embeddings(tmp_path / "e.npz")


def test_part_of_a_gallery_is_refused_in_either_format(tmp_path):
    torch = pytest.importorskip("torch")
    arrays = {"embeddings": np.eye(4), "paths": np.arange(4) // 2}
    for name in ("gallery_embeddings", "gallery_paths", "gallery_ids"):
        part = {**arrays, name: arrays["embeddings" if name == "gallery_embeddings" else "paths"]}
        np.savez(tmp_path / "e.npz", **part)
        torch.save({key: torch.from_numpy(array) for key, array in part.items()}, tmp_path / "e.pt")
        for file in ("e.npz", "e.pt"):
            with pytest.raises(ShapeError, match=rf"{file} with only part of a gallery"):
                read_embeddings(tmp_path / file)


def test_a_misspelt_option_is_an_error(tmp_path):
    np.savez(tmp_path / "e.npz", embeddings=np.eye(4) + 1, paths=[[0], [0], [1], [1]])
    for wrong in ("metrix", "label", "perquery"):
        with pytest.raises(OptionError, match=f"unknown option .{wrong}."):
            evaluate_file(tmp_path / "e.npz", **{wrong: None})


def test_codes_are_the_signs_of_embeddings(retrieval, tmp_path):
    embeddings, paths = retrieval
    arrays = {"embeddings": embeddings[:5], "paths": paths[:5], "ids": np.arange(5), "gallery_ids": np.arange(4, 29)}
    np.savez(tmp_path / "e.npz", **arrays, gallery_embeddings=embeddings[5:], gallery_paths=paths[5:])
    result = evaluate_file(tmp_path / "e.npz", codes=True, metrics=["AP@10", "H-AP"], out=tmp_path / "result.json")
    signs = np.where(embeddings > 0, 1, -1)
    expected = evaluate_codes(
        signs[:5],
        paths[:5],
        signs[5:],
        paths[5:],
        metrics=["AP@10", "H-AP"],
        query_ids=arrays["ids"],
        gallery_ids=arrays["gallery_ids"],
    )
    np.testing.assert_array_equal(result.values, expected.values)
    assert "Hamming distance, 6 bits" in (tmp_path / "result.json").read_text()
    with pytest.raises(OptionError, match="codes with block_size, device"):
        evaluate_file(tmp_path / "e.npz", codes=True, block_size=8, device="cpu")
    np.savez(tmp_path / "e.npz", embeddings=np.array([[1.0, np.nan], [0.0, 1.0]]), paths=np.zeros((2, 1), int))
    with pytest.raises(EmbeddingError, match="rows: 0"):
        evaluate_file(tmp_path / "e.npz", codes=True)


def test_an_npy_takes_its_labels_from_a_table(retrieval, tmp_path, capsys):
    embeddings, paths = retrieval
    rows = [f'"kind, {kind}",{fine - 5 * kind}' for kind, fine in paths]  # names repeat under both kinds
    (tmp_path / "labels.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(["kind,name", *rows]).encode())
    expected = evaluate(embeddings, paths)
    for levels in ((), LABELS):
        result = evaluate_file(
            tmp_path / "e.npy", labels=tmp_path / "labels.csv", levels=levels, per_query=tmp_path / "values.csv"
        )
        np.testing.assert_array_equal(result.values, expected.values)
    output = capsys.readouterr().out
    assert "AP[1]" in output
    assert "self-retrieval" in output
    assert len(pd.read_csv(tmp_path / "values.csv")) == 30


def test_tensors_and_parquet_give_the_same_numbers(retrieval, tmp_path):
    embeddings, paths = retrieval
    expected = evaluate(embeddings, paths).values
    torch.save({"embeddings": torch.tensor(embeddings), "paths": torch.tensor(paths)}, tmp_path / "named.pt")
    torch.save(torch.tensor(embeddings), tmp_path / "bare.pt")
    labels = pd.DataFrame(paths.astype(str), columns=LABELS)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    labels.assign(vector=list(embeddings)).to_parquet(tmp_path / "with.parquet")
    pd.DataFrame({"vector": list(embeddings)}).to_parquet(tmp_path / "without.parquet")
    table = {"labels": tmp_path / "labels.csv"}
    for name, options in (
        ("named.pt", {}),
        ("bare.pt", table),
        ("with.parquet", {}),
        ("with.parquet", {"levels": LABELS}),
        ("without.parquet", table),
    ):
        np.testing.assert_array_equal(evaluate_file(tmp_path / name, **options).values, expected)


def test_a_gallery_of_its_own_file_shares_the_labels(retrieval, tmp_path):
    embeddings, paths = retrieval
    expected = evaluate(embeddings[::5], paths[::5], embeddings[1:], paths[1:]).values
    for name, rows in (("queries", slice(None, None, 5)), ("gallery", slice(1, None))):
        np.savez(tmp_path / f"{name}.npz", embeddings=embeddings[rows], paths=paths[rows])
        np.save(tmp_path / f"{name}.npy", embeddings[rows])
        pd.DataFrame(paths[rows], columns=LABELS).to_csv(tmp_path / f"{name}.csv", index=False)
    result = evaluate_file(tmp_path / "queries.npz", gallery=tmp_path / "gallery.npz", out=tmp_path / "result.json")
    np.testing.assert_array_equal(result.values, expected)
    record = json.loads((tmp_path / "result.json").read_text())["manifest"]["inputs"]
    assert [file["name"] for file in record] == ["queries.npz", "gallery.npz"]
    tables = {"labels": tmp_path / "queries.csv", "gallery_labels": tmp_path / "gallery.csv"}
    result = evaluate_file(tmp_path / "queries.npy", gallery=tmp_path / "gallery.npy", **tables)
    np.testing.assert_array_equal(result.values, expected)
    with pytest.raises(OptionError, match="same kind"):
        evaluate_file(
            tmp_path / "queries.npz", gallery=tmp_path / "gallery.npy", gallery_labels=tmp_path / "gallery.csv"
        )
    with pytest.raises(OptionError, match="without a gallery"):
        evaluate_file(tmp_path / "queries.npz", gallery_labels=tmp_path / "gallery.csv")


@pytest.fixture
def masked(retrieval):
    """Queries inside a gallery with distractors: what evaluate is told, and its values."""
    embeddings, paths = retrieval
    options = {
        "query_ids": [f"{row // 2}.jpg" for row in range(10)],
        "gallery_ids": [f"{row // 2}.jpg" for row in range(30)],
        "junk": [[(row + 4) % 30, (row + 9) % 30] for row in range(10)],
    }
    distractors = np.arange(30) % 7 == 6
    gallery_paths = np.where(distractors[:, None], -1, paths)
    expected = evaluate(embeddings[:10], paths[:10], embeddings, gallery_paths, **options)
    return {**options, "distractors": distractors}, expected


def test_arrays_of_ids_junk_and_distractors_mean_what_they_mean_to_evaluate(retrieval, masked, tmp_path):
    embeddings, paths = retrieval
    options, expected = masked
    pairs = np.array([(row, item) for row, items_of_query in enumerate(options["junk"]) for item in items_of_query])
    queries = {"embeddings": embeddings[:10], "paths": paths[:10]}
    number = {"ids": np.arange(30) // 2, "distractors": options["distractors"]}
    both_sides = {**queries, "gallery_embeddings": embeddings, "gallery_paths": paths, "junk": pairs}
    np.savez(
        tmp_path / "whole.npz", **both_sides, ids=options["query_ids"], gallery_ids=options["gallery_ids"],
        distractors=options["distractors"],
    )  # fmt: skip
    np.savez(tmp_path / "queries.npz", **queries, ids=number["ids"][:10], junk=pairs)
    np.savez(tmp_path / "gallery.npz", embeddings=embeddings, paths=paths, **number)
    arrays = {"embeddings": embeddings, "paths": paths, **number}
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, tmp_path / "gallery.pt")
    for name, gallery in (("whole.npz", None), ("queries.npz", "gallery.npz"), ("queries.npz", "gallery.pt")):
        result = evaluate_file(tmp_path / name, gallery=None if gallery is None else tmp_path / gallery)
        np.testing.assert_array_equal(result.values, expected.values)
        assert result.convention == expected.convention


def test_columns_of_tables_name_ids_junk_and_distractors(retrieval, masked, tmp_path):
    embeddings, paths = retrieval
    options, expected = masked
    table = pd.DataFrame(paths, columns=LABELS).astype(str).assign(file=options["gallery_ids"])
    table.head(10).to_csv(tmp_path / "queries.csv", index=False)
    table.loc[options["distractors"], LABELS] = ""
    table.to_csv(tmp_path / "gallery.csv", index=False)
    table.assign(vector=list(embeddings)).to_parquet(tmp_path / "gallery.parquet")
    np.save(tmp_path / "queries.npy", embeddings[:10])
    np.save(tmp_path / "gallery.npy", embeddings)
    junk = [(row, item) for row, items_of_query in enumerate(options["junk"]) for item in items_of_query]
    pd.DataFrame(junk, columns=["query", "item"]).to_csv(tmp_path / "junk.csv", index=False)
    inputs = {"labels": tmp_path / "queries.csv", "ids": "file", "junk": tmp_path / "junk.csv", "distractors": True}
    for gallery in (
        {"gallery": tmp_path / "gallery.npy", "gallery_labels": tmp_path / "gallery.csv"},
        {"gallery": tmp_path / "gallery.parquet"},
    ):
        result = evaluate_file(tmp_path / "queries.npy", **inputs, **gallery, out=tmp_path / "result.json")
        np.testing.assert_array_equal(result.values, expected.values)
        assert result.convention == replace(expected.convention, level_names=("kind", "name"))
        with pytest.raises(EmptyLabelError, match="gallery"):
            evaluate_file(tmp_path / "queries.npy", **{**inputs, "distractors": False}, **gallery)
    record = json.loads((tmp_path / "result.json").read_text())["manifest"]
    assert record["parameters"]["ids"] == "file"
    assert "junk.csv" in [file["name"] for file in record["inputs"]]


def test_rows_of_a_table_that_end_early_are_known_in_part_if_it_is_said(retrieval, tmp_path):
    embeddings, paths = retrieval
    paths = np.where((np.arange(len(paths)) % 3 == 0)[:, None] & [False, True], -1, paths)
    names = pd.DataFrame(paths, columns=["kind", "name"]).astype(str).replace("-1", "")
    names.assign(vector=list(embeddings)).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(EmptyLabelError, match="uneven='pad', 'truncate' or 'unknown'"):
        evaluate_file(tmp_path / "rows.parquet")
    result = evaluate_file(tmp_path / "rows.parquet", uneven="unknown", out=tmp_path / "result.json")
    np.testing.assert_array_equal(result.values, evaluate(embeddings, paths).values)
    assert "10 queries known down to a coarser level" in result.convention.self_rule
    assert json.loads((tmp_path / "result.json").read_text())["manifest"]["parameters"]["uneven"] == "unknown"
    make_report([tmp_path / "rows.parquet"], tmp_path / "page.html", options={"uneven": "unknown"})
    assert f"{100 * result.summary()['H-AP']:.1f}" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("last", ["", None])
def test_a_level_without_any_label_is_named(last, tmp_path):
    rows = {"kind": ["bird", "dog"], "name": [last, last], "vector": [[1.0, 0.0], [0.0, 1.0]]}
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ShapeError, match=r"'name' without any label.*leave it out"):
        evaluate_file(tmp_path / "rows.parquet", levels=["kind", "name"], uneven="unknown")


def test_lists_and_judgments_by_labels_known_in_part(retrieval, tmp_path):
    _, paths = retrieval
    paths = np.where((np.arange(len(paths)) % 3 == 0)[:, None] & [False, True], -1, paths)
    names = [f"item-{number}" for number in range(len(paths))]
    table = pd.DataFrame(paths, columns=["kind", "name"]).astype(str).replace("-1", "")
    table.insert(0, "image", names)
    table.to_csv(tmp_path / "labels.csv", index=False)
    lists = {
        name: {other: 1 / (1 + abs(i - j)) for j, other in enumerate(names) if i != j} for i, name in enumerate(names)
    }
    write_trec_run(tmp_path / "run.txt", lists)
    with pytest.raises(EmptyLabelError, match="uneven='pad', 'truncate' or 'unknown'"):
        evaluate_run(tmp_path / "run.txt", tree=tmp_path / "labels.csv")
    result = evaluate_run(tmp_path / "run.txt", tree=tmp_path / "labels.csv", uneven="unknown")
    sides = {"query_paths": paths, "query_names": names}
    np.testing.assert_array_equal(result.values, evaluate_ranking(lists, **sides).values)
    write_qrels(tmp_path / "labels.csv", tmp_path / "qrels.txt", uneven="unknown")
    of_judgments = evaluate_run(tmp_path / "run.txt", qrels=tmp_path / "qrels.txt", metrics=["H-AP"])
    assert of_judgments.summary()["H-AP"] == pytest.approx(result.summary()["H-AP"], rel=1e-12)
    with pytest.raises(OptionError, match="uneven"):
        evaluate_run(tmp_path / "run.txt", qrels=tmp_path / "qrels.txt", uneven="unknown")


def test_a_number_in_one_file_is_its_text_in_another(retrieval, tmp_path):
    embeddings, paths = retrieval
    labels = pd.DataFrame(paths, columns=LABELS)
    np.save(tmp_path / "queries.npy", embeddings[:10])
    labels.head(10).to_csv(tmp_path / "queries.csv", index=False)
    for gallery in (labels, labels.astype(str), labels.astype(str).replace({"name": {"9": "nine"}})):
        gallery.assign(vector=list(embeddings)).to_parquet(tmp_path / "gallery.parquet")
        result = evaluate_file(
            tmp_path / "queries.npy", labels=tmp_path / "queries.csv", gallery=tmp_path / "gallery.parquet"
        )
        np.testing.assert_array_equal(result.values, evaluate(embeddings[:10], paths[:10], embeddings, paths).values)


def test_ids_that_a_missing_one_made_floats_are_those_of_the_other_file(retrieval, tmp_path):
    embeddings, paths = retrieval
    unlabeled = np.arange(len(paths)) % 7 == 6
    vectors = {"vector": list(embeddings)}
    pd.DataFrame({**vectors, "class": paths[:, -1]})[:10].to_parquet(tmp_path / "queries.parquet")
    known_classes = pd.Series(paths[:, -1]).where(~unlabeled)  # float64
    pd.DataFrame({**vectors, "class": known_classes}).to_parquet(tmp_path / "gallery.parquet")
    result = evaluate_file(tmp_path / "queries.parquet", gallery=tmp_path / "gallery.parquet", distractors=True)
    ids = paths[:, -1:]
    expected = evaluate(embeddings[:10], ids[:10], embeddings, np.where(unlabeled[:, None], -1, ids))
    np.testing.assert_array_equal(result.values, expected.values)


def test_options_reach_evaluate(retrieval, tmp_path):
    embeddings, paths = retrieval
    for tables, options in (
        ({"relevance": "linear"}, {"relevance": ht.relevance.linear}),
        ({"relevance": "gain"}, {"relevance": ht.relevance.gain}),
        ({"relevance": [0.25, 0.75]}, {"relevance": partial(ht.relevance.weighted_ap, weights=(0.25, 0.75))}),
        ({"device": "cpu", "block_size": 8}, {"device": "cpu", "block_size": 8}),
    ):
        result, expected = evaluate_file(tmp_path / "e.npz", **tables), evaluate(embeddings, paths, **options)
        np.testing.assert_array_equal(result.values, expected.values)
        assert result.convention == expected.convention


def test_a_large_npy_stays_on_disk(retrieval, tmp_path, monkeypatch):
    _, paths = retrieval
    pd.DataFrame(paths, columns=LABELS).to_csv(tmp_path / "labels.csv", index=False)
    expected = evaluate_file(tmp_path / "e.npy", labels=tmp_path / "labels.csv").values
    assert type(read_embeddings(tmp_path / "e.npy", labels=tmp_path / "labels.csv").queries.embeddings) is np.ndarray
    monkeypatch.setattr(embeddings_files, "MAPPED_BYTES", 100)
    assert isinstance(read_embeddings(tmp_path / "e.npy", labels=tmp_path / "labels.csv").queries.embeddings, np.memmap)
    result = evaluate_file(tmp_path / "e.npy", labels=tmp_path / "labels.csv").values
    np.testing.assert_array_equal(result, expected)


def test_a_column_of_images_is_their_ids_unless_it_is_named_as_a_level(retrieval, tmp_path, capsys):
    embeddings, paths = retrieval
    images = [f"{row}.jpg" for row in range(30)]
    pd.DataFrame(paths, columns=LABELS).assign(image=images).to_csv(tmp_path / "l.csv", index=False)
    result = evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv")
    np.testing.assert_array_equal(result.values, evaluate(embeddings, paths).values)
    with pytest.raises(InputError, match=r"gives no metric a value.*levels are image"):
        evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", levels=["image"])
    assert "—" not in capsys.readouterr().out


def test_columns_taken_as_levels_are_named_and_those_that_hiertree_adds_left_out(retrieval, tmp_path, capsys, caplog):
    caplog.set_level("INFO", logger="hiertree")
    embeddings, paths = retrieval
    labels, expected = pd.DataFrame(paths, columns=LABELS), evaluate(embeddings, paths)
    labels.insert(0, "image", [f"{row}.jpg" for row in range(30)])
    labels["split"] = np.where(np.arange(30) % 2, "train", "test")
    for name in ("l.csv", "l.parquet"):
        labels.to_csv(tmp_path / name, index=False) if name.endswith("csv") else labels.to_parquet(tmp_path / name)
        result = evaluate_file(tmp_path / "e.npy", labels=tmp_path / name)
        np.testing.assert_array_equal(result.values, expected.values)
        printed = capsys.readouterr()
        assert f"{name}: levels kind → name, names image; name others by --levels" in caplog.messages
        assert "2: kind → name" in printed.out
        assert result.convention.level_names == result.level_names == ("kind", "name")
    frame = evaluate(embeddings, labels)
    np.testing.assert_array_equal(frame.values, expected.values)
    assert "2: kind → name" in str(frame)
    assert {record.levelname for record in caplog.records} == {"INFO"}
    result_of_names = evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", levels=["kind", "split"])
    assert result_of_names.level_names == ("kind", "split")
    assert not any("levels kind → split" in message for message in caplog.messages)


def test_a_table_of_labels_is_joined_by_name_where_embeddings_have_names(retrieval, tmp_path, caplog):
    embeddings, paths = retrieval
    images = pd.Series([f"{row}.jpg" for row in range(30)])
    pd.DataFrame({"image": images, "vector": list(embeddings)}).to_parquet(tmp_path / "e.parquet")
    labels = pd.DataFrame(paths, columns=LABELS).assign(file=images)
    larger_table = pd.concat([labels, labels[:1].assign(file="other.jpg")]).sample(frac=1, random_state=0)
    expected = evaluate(embeddings, paths).values
    for table in (
        labels,
        larger_table,
        larger_table.rename(columns={"file": "image"}),
        labels.assign(file=[*range(7, 37)]),
    ):
        table.to_csv(tmp_path / "l.csv", index=False)
        result = evaluate_file(tmp_path / "e.parquet", labels=tmp_path / "l.csv")
        np.testing.assert_allclose(result.values, expected, rtol=1e-12)
    assert "l.csv, file, names 0 of 30 images: rows are joined in their order" in caplog.text
    twice, ids = np.r_[0:30, 0, 1], np.arange(1000, 1030)
    pd.DataFrame({"id": ids[twice], "vector": list(embeddings[twice])}).to_parquet(tmp_path / "twice.parquet")
    numbers = pd.DataFrame(paths, columns=LABELS).assign(id=ids.astype(float))
    numbers = pd.concat([numbers, numbers[:2].assign(id=[7.0, 8.0])]).sample(frac=1, random_state=0)  # 32 rows, too
    numbers.to_csv(tmp_path / "l.csv", index=False)
    result = evaluate_file(tmp_path / "twice.parquet", labels=tmp_path / "l.csv")
    np.testing.assert_allclose(result.values, evaluate(embeddings[twice], paths[twice], query_ids=twice).values)
    numbers.assign(id="X" + numbers.id.astype(str)).to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(TableError, match=r"id, names 0 of 30 images: expected a row for each, '1000' among them"):
        evaluate_file(tmp_path / "twice.parquet", labels=tmp_path / "l.csv")
    for table, words in (
        (
            larger_table[larger_table.file != "3.jpg"],
            r"names 29 of 30 images: expected a row for each, '3\.jpg' among them",
        ),
        (labels.assign(file="photos/" + images), r"names 0 of 30 .*as '0\.jpg' and 'photos/0\.jpg'"),
        (pd.concat([larger_table, labels[:1]]).rename(columns={"file": "image"}), r"'0\.jpg' twice in image"),
    ):
        table.to_csv(tmp_path / "l.csv", index=False)
        with pytest.raises(TableError, match=words):
            evaluate_file(tmp_path / "e.parquet", labels=tmp_path / "l.csv")


def test_a_column_that_repeats_below_other_labels_is_pointed_out(retrieval, tmp_path, caplog):
    embeddings, paths = retrieval
    labels = pd.DataFrame(paths, columns=LABELS).assign(camera=[f"c{row % 2}" for row in range(30)])
    labels.to_csv(tmp_path / "l.csv", index=False)
    words = r"'camera' has 2 labels, which below different labels of 'name' are 20 classes"
    evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv")
    assert re.search(words, caplog.text)
    for form in (labels, labels.astype(str), labels.assign(camera=np.arange(30) % 2)):
        with pytest.warns(UserWarning, match=words):
            evaluate(embeddings, form)
    caplog.clear()
    evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", levels=[*LABELS, "camera"])
    assert not caplog.records
    labels[["name", "kind"]].to_csv(tmp_path / "reversed.csv", index=False)
    with pytest.raises(PathError, match=r"'name' of 10 labels.*reverse them"):
        evaluate_file(tmp_path / "e.npy", labels=tmp_path / "reversed.csv")


def test_intervals_are_over_queries_where_no_class_is_known(tmp_path, capsys):
    run = {"a": {"x": 0.9, "y": 0.4}, "b": {"x": 0.3, "y": 0.8}, "unjudged": {"x": 1.0}}
    write_trec_run(tmp_path / "run.txt", run)
    write_trec_qrels(tmp_path / "qrels.txt", {"a": {"x": 1}, "b": {"x": 1}})
    result = evaluate_run(tmp_path / "run.txt", qrels=tmp_path / "qrels.txt", metrics=["AP"])
    assert "interval over queries" in capsys.readouterr().out
    assert not result.has_classes
    np.savez(tmp_path / "e.npz", embeddings=np.eye(4, 3) + 0.1, paths=[0, 0, 1, 1])
    assert evaluate_file(tmp_path / "e.npz", metrics=["AP"]).has_classes
    assert "interval over classes" in capsys.readouterr().out


def test_ids_that_leave_no_query_an_item_are_counted(retrieval, tmp_path):
    _, paths = retrieval
    pd.DataFrame(paths, columns=LABELS).assign(place="here").to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(InputError, match="its 30 queries have 1 ids, and none retrieves its own"):
        evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", ids="place")


def test_images_that_are_listed_twice_are_counted_and_two_spellings_of_a_path_refused(retrieval, tmp_path, caplog):
    _, paths = retrieval
    images = ["a.jpg", "a.jpg", *(f"{row}.jpg" for row in range(28))]
    table = pd.DataFrame(paths, columns=LABELS).assign(file=images)
    table.to_csv(tmp_path / "l.csv", index=False)
    evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", ids="file")
    assert "l.csv: 1 rows repeat an image" in caplog.text
    table.loc[1, "file"] = "./a.jpg"
    table.to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(TableError, match=r"line 2 and l\.csv, line 3: 'a\.jpg' and '\./a\.jpg' are one file"):
        evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", ids="file")
    caplog.clear()
    table.assign(file=[str(row // 3) for row in range(30)]).to_csv(tmp_path / "l.csv", index=False)
    evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv", ids="file")
    assert caplog.text == ""


def test_a_gallery_has_the_levels_of_the_queries(retrieval, tmp_path):
    embeddings, paths = retrieval
    labels = pd.DataFrame(paths, columns=LABELS)
    labels.to_csv(tmp_path / "queries.csv", index=False)
    labels[LABELS[::-1]].to_csv(tmp_path / "gallery.csv", index=False)
    options = {
        "labels": tmp_path / "queries.csv",
        "gallery": tmp_path / "e.npy",
        "gallery_labels": tmp_path / "gallery.csv",
    }
    with pytest.raises(OptionError, match="levels kind, name of the queries and name, kind of the gallery"):
        evaluate_file(tmp_path / "e.npy", **options)
    np.testing.assert_array_equal(
        evaluate_file(tmp_path / "e.npy", **options, levels=LABELS).values,
        evaluate(embeddings, paths, embeddings, paths).values,
    )


def test_messages_name_the_file_that_holds_the_fault(retrieval, tmp_path):
    embeddings, paths = retrieval
    np.savez(tmp_path / "bad.npz", embeddings=np.full_like(embeddings, np.nan), paths=paths)
    np.savez(tmp_path / "good.npz", embeddings=embeddings, paths=paths)
    for source, gallery in (("bad.npz", None), ("good.npz", "bad.npz")):
        with pytest.raises(EmbeddingError, match=r"bad\.npz: .*NaN"):
            evaluate_file(tmp_path / source, gallery=None if gallery is None else tmp_path / gallery)


class Harmful:
    def __reduce__(self):
        return (print, ("unpickled",))


@pytest.mark.filterwarnings("ignore:Validating sparse")
def test_nothing_in_a_file_of_tensors_is_run(tmp_path, capsys):
    torch.save({"embeddings": Harmful()}, tmp_path / "harmful.pt")
    torch.save([torch.eye(3)], tmp_path / "list.pt")
    torch.save(torch.eye(3).to_sparse(), tmp_path / "sparse.pt")
    (tmp_path / "broken.pt").write_bytes(b"PK not really")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    pd.DataFrame({"a": [1], "b": [2]}).to_parquet(tmp_path / "flat.parquet")
    pd.DataFrame({"a": [1, 2], "v": [[1.0], [1.0, 2.0]]}).to_parquet(tmp_path / "uneven.parquet")
    pd.DataFrame({"v": [[1.0], [2.0]]}).to_parquet(tmp_path / "bare.parquet")
    names = ("harmful.pt", "list.pt", "sparse.pt", "broken.pt", "broken.parquet", "flat.parquet", "uneven.parquet")
    for name in names:
        with pytest.raises(InputError) as refused:
            evaluate_file(tmp_path / name)
        assert "weights_only" not in str(refused.value)
    with pytest.raises(OptionError, match=r"bare\.parquet without labels.*--labels"):
        evaluate_file(tmp_path / "bare.parquet")
    assert "unpickled" not in capsys.readouterr().out


def test_files_that_do_not_fit_are_refused_and_nothing_is_written(retrieval, tmp_path):
    embeddings, paths = retrieval
    np.savez(tmp_path / "no_paths.npz", embeddings=embeddings)
    np.savez(tmp_path / "pickled.npz", embeddings=embeddings, paths=np.array([{}] * 30))
    np.savez(tmp_path / "negative.npz", embeddings=embeddings, paths=-paths)
    np.savez(tmp_path / "junk.npz", embeddings=embeddings, paths=paths, junk=[[30, 0]])
    np.savez(tmp_path / "odd.npz", embeddings=embeddings, paths=paths, query_ids=np.arange(30))
    (tmp_path / "broken.npz").write_bytes(b"PK not really")
    (tmp_path / "broken.npy").write_bytes(b"not really")
    (tmp_path / "short.csv").write_text("kind\na\n")
    labels = pd.DataFrame(paths, columns=LABELS)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    labels.assign(file=["", *map(str, range(29))]).to_csv(tmp_path / "files.csv", index=False)
    (tmp_path / "junk.csv").write_text("query,item\n0,1\n30,0\n")
    files = sorted(tmp_path.iterdir())
    for error, file, options in (
        (InputError, "absent.npz", {}),
        (InputError, "no_paths.npz", {}),
        (InputError, "pickled.npz", {}),
        (InputError, "broken.npz", {}),
        (PathError, "negative.npz", {}),
        (OptionError, "negative.npz", {"labels": tmp_path / "short.csv"}),
        (OptionError, "e.npy", {}),
        (OptionError, "short.csv", {}),
        (InputError, "e.npy", {"labels": tmp_path / "short.csv"}),
        (TableError, "e.npy", {"labels": tmp_path / "short.csv", "levels": ["species"]}),
        (OptionError, "negative.npz", {"per_query": tmp_path / "values.xlsx"}),
        (InputError, "junk.npz", {}),
        (InputError, "odd.npz", {}),
        (InputError, "broken.npy", {"labels": tmp_path / "labels.csv"}),
        (TableError, "e.npy", {"labels": tmp_path / "files.csv", "ids": "file"}),
        (TableError, "e.npy", {"labels": tmp_path / "labels.csv", "ids": "image"}),
        (TableError, "e.npy", {"labels": tmp_path / "labels.csv", "junk": tmp_path / "junk.csv"}),
        (TableError, "e.npy", {"labels": tmp_path / "labels.csv", "junk": tmp_path / "labels.csv"}),
        (OptionError, "e.npy", {"labels": tmp_path / "labels.csv", "distractors": True}),
        (OptionError, "junk.npz", {"ids": "file"}),
        (OptionError, "e.npy", {"labels": tmp_path / "labels.csv", "levels": ["kind", "kind"]}),
        (OptionError, "e.npy", {"labels": tmp_path / "labels.csv", "relevance": [0.5]}),
        (OptionError, "e.npy", {"labels": tmp_path / "labels.csv", "relevance": "exponential"}),
    ):
        with pytest.raises(error):
            evaluate_file(tmp_path / file, out=tmp_path / "result.json", **options)
    assert sorted(tmp_path.iterdir()) == files


def test_protocol_and_compat_reach_the_card_and_the_provenance(tmp_path, retrieval):
    result = evaluate_file(tmp_path / "e.npz", protocol="cub", compat="official", out=tmp_path / "result.json")
    assert result.names == ("R@1", "R@2", "R@4", "R@8", "mAP@R")
    record = json.loads((tmp_path / "result.json").read_text())
    assert record["convention"]["protocol"] == "cub"
    assert record["convention"]["rules"]["itself"] == "first hit"
    assert record["manifest"]["parameters"]["compat"] == "official"


def _named(paths):
    """A frame of labels as text, with the names of images first."""
    kinds, names = [f"kind {kind}" for kind in paths[:, 0]], [f"n{name}" for name in paths[:, 1]]
    return pd.DataFrame({"file": [f"img {row}.jpg" for row in range(len(paths))], "kind": kinds, "name": names})


@pytest.mark.parametrize("column", ["filename", "ids", "last", "index", "named index", "filtered"])
def test_columns_of_names_and_indexes_are_no_levels(retrieval, tmp_path, caplog, column):
    """One rule in files and frames: the same numbers as of the labels alone."""
    embeddings, paths = retrieval
    expected = evaluate(embeddings, paths).values
    frame = _named(paths)
    if column == "ids":
        frame["file"] = range(100, 130)
    elif column == "last":
        frame = frame[["kind", "name", "file"]]
    elif column == "named index":
        frame = frame.set_index("file")
    elif column == "filtered":
        frame = frame.set_axis(range(7, 37))
    caplog.set_level("INFO", logger="hiertree")
    for name in ("l.csv", "l.parquet"):
        frame.to_csv(tmp_path / name) if name == "l.csv" else frame.to_parquet(tmp_path / name)
        result = evaluate_file(tmp_path / "e.npy", labels=tmp_path / name)
        np.testing.assert_array_equal(result.values, expected)
        assert f"{name}: levels kind → name, names file; name others by --levels" in caplog.messages
    frame.assign(vector=list(embeddings)).to_parquet(tmp_path / "e.parquet")
    np.testing.assert_array_equal(evaluate_file(tmp_path / "e.parquet").values, expected)
    np.testing.assert_array_equal(evaluate(embeddings, frame).values, expected)


def test_the_names_of_qrels_are_found_by_the_same_rule(retrieval, tmp_path):
    _, paths = retrieval
    frame = _named(paths).assign(file=range(100, 130))
    frame[["kind", "file", "name"]].to_csv(tmp_path / "l.csv")
    write_qrels(tmp_path / "l.csv", tmp_path / "qrels.txt")
    rows = [line.split() for line in (tmp_path / "qrels.txt").read_text().splitlines()]
    levels = ht.levels(paths, paths)
    assert {(int(query) - 100, int(item) - 100): int(level) for query, _, item, level in rows} == {
        (query, item): levels[query, item] for query, item in zip(*np.nonzero(levels), strict=True) if query != item
    }


def test_the_error_about_levels_lists_what_the_columns_were_taken_as(retrieval, tmp_path):
    embeddings, paths = retrieval
    frame = _named(paths)[["file", "name", "kind"]]
    frame.to_csv(tmp_path / "l.csv", index=False)
    roles = r"reverse them, or name others: the columns are read as levels name → kind, names file"
    with pytest.raises(PathError, match=roles):
        evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv")
    with pytest.raises(PathError, match=roles):
        evaluate(embeddings, frame)


def test_classes_that_two_tables_share_are_levels_even_if_each_has_them_once(tmp_path):
    embeddings = np.eye(3) + 0.1
    labels = pd.DataFrame({"file": ["a.jpg", "b.jpg", "c.jpg"], "kind": ["x", "x", "y"], "id": ["n1", "n2", "n3"]})
    for name, files in (("q", labels["file"]), ("g", "g" + labels["file"])):
        np.save(tmp_path / f"{name}.npy", embeddings)
        labels.assign(file=files).to_csv(tmp_path / f"{name}.csv", index=False)
    result = evaluate_file(
        tmp_path / "q.npy", labels=tmp_path / "q.csv", gallery=tmp_path / "g.npy", gallery_labels=tmp_path / "g.csv"
    )
    assert result.level_names == ("kind", "id")
    assert result.summary()["R@1"] == 1.0


def test_path_strings_and_missing_ranks_give_the_numbers_of_their_levels(retrieval, tmp_path):
    embeddings, paths = retrieval
    frame = _named(paths)
    frame.assign(path=frame["kind"] + " > " + frame["name"])[["file", "path"]].to_csv(tmp_path / "p.csv", index=False)
    result = evaluate_file(tmp_path / "e.npy", labels=tmp_path / "p.csv", separator=" > ")
    np.testing.assert_array_equal(result.values, evaluate(embeddings, paths).values)
    texts = (frame["kind"] + " > " + frame["name"]).tolist()
    np.testing.assert_array_equal(evaluate(embeddings, texts, separator=" > ").values, result.values)
    with pytest.warns(UserWarning, match="each label holds ' > '"):
        evaluate(embeddings, texts)
    for wrong in (";", ""):
        with pytest.raises(OptionError, match=f"separator='{wrong}', which none of 10 labels holds.*all hold ' > '"):
            evaluate(embeddings, texts, separator=wrong)
        with pytest.raises(OptionError, match=f"separator='{wrong}'"):
            ht.LabelTree.from_paths(texts, separator=wrong)
    make_report([tmp_path / "e.npy"], tmp_path / "r.html", options={"labels": tmp_path / "p.csv", "separator": " > "})
    assert "path_1 (2) › path_2 (10)" in (tmp_path / "r.html").read_text()
    early = np.isin(np.arange(30), [0, 7, 22])
    paths_known_in_part = np.where(early[:, None] & [False, True], -1, paths)
    expected = evaluate(embeddings, paths_known_in_part).values
    for empty in (None, "", "#N/A", "NaT"):
        cut = frame.assign(name=frame["name"].where(~early, empty))[["kind", "name"]]
        np.testing.assert_array_equal(evaluate(embeddings, cut, uneven="unknown").values, expected)
    numbers = pd.DataFrame(paths, columns=LABELS)
    numbers["name"] = numbers["name"].where(~early)  # float64
    np.testing.assert_array_equal(evaluate(embeddings, numbers, uneven="unknown").values, expected)
    padded = np.where(early[:, None] & [False, True], 100 + paths[:, :1], paths)  # a class of its own in each kind
    np.testing.assert_array_equal(evaluate(embeddings, cut, uneven="pad").values, evaluate(embeddings, padded).values)
    one = evaluate(embeddings, cut, uneven="truncate").values
    np.testing.assert_array_equal(one, evaluate(embeddings, paths[:, :1]).values)
    with pytest.raises(PathError, match=r"without a label in 'name'.*uneven='pad', 'truncate' or 'unknown'"):
        evaluate(embeddings, cut)
    holes = cut.assign(kind=cut["kind"].where(np.arange(30) != 4), name=frame["name"])
    with pytest.raises(PathError, match=r"without a label above another.*rows: 4"):
        evaluate(embeddings, holes, uneven="unknown")


def test_floats_and_spellings_of_one_class_are_one(retrieval, tmp_path):
    embeddings, paths = retrieval
    spelled = np.where(np.arange(30) % 2, "caf\u00e9", "cafe\u0301")
    frame = pd.DataFrame({"kind": [f"{s} {k}" for s, k in zip(spelled, paths[:, 0], strict=True)], "name": paths[:, 1]})
    expected = evaluate(embeddings, paths).values
    frame.astype({"name": float}).to_csv(tmp_path / "l.csv", index=False)
    np.testing.assert_array_equal(evaluate_file(tmp_path / "e.npy", labels=tmp_path / "l.csv").values, expected)
    np.testing.assert_array_equal(evaluate(embeddings, frame).values, expected)


def test_texts_of_inner_nodes_are_items_of_the_gallery_by_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    nodes = ["name,kind,species", "bird,bird,", "robin,bird,robin", "sparrow,bird,sparrow", "dog,mammal,dog"]
    (tmp_path / "nodes.csv").write_text("\n".join(nodes))
    (tmp_path / "photos.csv").write_text("name,kind,species\nphoto,bird,robin")
    np.save("photos.npy", [[1.0, 0.0]])

    def measured(*command):
        options = ["--uneven", "unknown", "--metrics", "H-AP", "--json"]
        with pytest.raises(SystemExit, match="0"):
            main([*command, *options])
        return json.loads(capsys.readouterr().out)["summary"]["H-AP"]

    # relevance 1 of the robin, 1/2 of the bird: (1 + (1/2 + 1/2) / 3) / (3/2) where a sparrow is between
    for ranking, as_items, as_nodes in ("robin bird sparrow", 1, 1), ("robin sparrow bird", 1, 8 / 9):
        rows = [f"photo Q0 {name} {rank} {-rank} run" for rank, name in enumerate(ranking.split(), start=1)]
        (tmp_path / "run.txt").write_text("\n".join(rows))
        lists = ["evaluate-run", "run.txt", "--tree", "nodes.csv", "--query-labels", "photos.csv"]
        angle = [ranking.split().index(row.partition(",")[0]) if "dog" not in row else 3 for row in nodes[1:]]
        np.save("nodes.npy", np.stack([np.cos(angle), np.sin(angle)], axis=1))
        vectors = ["evaluate", "photos.npy", "--labels", "photos.csv", "--gallery", "nodes.npy", "--ids", "name"]
        for command in (lists, [*vectors, "--gallery-labels", "nodes.csv"]):
            assert measured(*command) == pytest.approx(as_items, abs=1e-12)
            assert measured(*command, "--gallery-nodes") == pytest.approx(as_nodes, abs=1e-12)
    (tmp_path / "qrels.txt").write_text("photo 0 robin 2")
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate-run", "run.txt", "--qrels", "qrels.txt", "--gallery-nodes"])
    assert "gallery_nodes with qrels: expected them only with tree" in capsys.readouterr().err
