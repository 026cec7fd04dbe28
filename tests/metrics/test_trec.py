"""Runs and judgments from TREC files, frames, ranx and mappings, and TREC files written."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from metric_cases import cosines
from packing import pack

from hiertree.errors import EmbeddingError, OptionError, PathError, ShapeError, TableError
from hiertree.metrics import (
    Rules,
    evaluate,
    evaluate_ranking,
    read_trec_qrels,
    read_trec_run,
    write_trec_qrels,
    write_trec_run,
)

NAMES = ["H-AP", "NDCG", "ASI", "AP[1]", "AP[2]", "R@1", "TR@5", "P@5", "mAP@R", "NDCG@5"]


@pytest.fixture(scope="module")
def run_and_qrels():
    """A run with ties, unjudged items, a query without a list and one without judgments, and its qrels."""
    random = np.random.default_rng(0)
    run = {
        f"q{query}": {f"d{item}": float(random.integers(0, 9)) / 8 for item in random.permutation(30)[:20]}
        for query in range(1, 9)
    }
    qrels = {
        f"q{query}": {f"d{item}": int(random.integers(0, 3)) for item in random.permutation(30)[:15]}
        for query in range(8)
    }
    return run, qrels


def frames(run, qrels):
    run_rows = [(query, item, score) for query, items in run.items() for item, score in items.items()]
    qrels_rows = [(query, item, level) for query, items in qrels.items() for item, level in items.items()]
    return pd.DataFrame(run_rows, columns=["q", "d", "s"]), pd.DataFrame(qrels_rows, columns=["q", "d", "l"])


def check_same(result, expected):
    pd.testing.assert_frame_equal(result.per_query().sort_index(), expected.per_query().sort_index(), atol=1e-12)


@pytest.mark.parametrize("ties", ["average", "worst", "paper", "index"])
def test_every_form_of_a_run_gives_the_same_numbers(run_and_qrels, ties, tmp_path):
    run, qrels = run_and_qrels
    expected = evaluate_ranking(run, qrels, metrics=NAMES, ties=ties)
    run_frame, qrels_frame = frames(run, qrels)
    for names, level in ((("query", "doc", "score"), "level"), (("qid", "docno", "score"), "label")):
        named_run = run_frame.set_axis(list(names), axis=1)
        named_qrels = qrels_frame.set_axis([*names[:2], level], axis=1)
        check_same(evaluate_ranking(named_run, named_qrels, metrics=NAMES, ties=ties), expected)
    ranked = run_frame.assign(rank=run_frame["s"].rank(ascending=False, method="min")).drop(columns="s")
    check_same(
        evaluate_ranking(ranked.rename(columns={"q": "query", "d": "doc"}), qrels, metrics=NAMES, ties=ties), expected
    )
    if ties != "index":  # files hold the items of a query by falling score
        write_trec_run(tmp_path / "run.txt", run)
        write_trec_qrels(tmp_path / "qrels.txt", qrels)
        check_same(
            evaluate_ranking(tmp_path / "run.txt", str(tmp_path / "qrels.txt"), metrics=NAMES, ties=ties), expected
        )


def test_files_written_are_read_back(run_and_qrels, tmp_path):
    run, qrels = run_and_qrels
    write_trec_run(tmp_path / "run.txt", run, tag="mine")
    write_trec_qrels(tmp_path / "qrels.txt", qrels)
    assert read_trec_run(tmp_path / "run.txt") == run
    assert read_trec_qrels(tmp_path / "qrels.txt") == qrels
    first = (tmp_path / "run.txt").read_text().splitlines()[:20]
    assert [int(line.split()[3]) for line in first] == list(range(1, 21))
    scores = [float(line.split()[4]) for line in first]
    assert scores == sorted(scores, reverse=True)
    assert first[0].endswith(" mine")


def test_compressed_files_hold_the_same_lines_and_the_same_bytes_each_time(run_and_qrels, tmp_path):
    run, qrels = run_and_qrels
    for write, reader, triples in ((write_trec_run, read_trec_run, run), (write_trec_qrels, read_trec_qrels, qrels)):
        write(tmp_path / "plain.txt", triples)
        write(tmp_path / "packed.txt.gz", triples)
        packed = (tmp_path / "packed.txt.gz").read_bytes()
        assert gzip.decompress(packed) == (tmp_path / "plain.txt").read_bytes()
        write(tmp_path / "again.gz", triples)
        assert (tmp_path / "again.gz").read_bytes() == packed
        assert reader(tmp_path / "packed.txt.gz") == triples


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        (b"q Q0 a 1 0.5 t\n", "gzip"),
        (gzip.compress(b"q Q0 a 1 0.5 t\n" * 99, mtime=0)[:-12], "end-of-stream"),
        (gzip.compress(b"q Q0 a 1 0.5 t\n", mtime=0)[:10] + b"\xff" * 20, "decompress"),
        (gzip.compress(b"q Q0 a 1 0.5 t\nq Q0 \xff 2 0.4 t\n", mtime=0), "line 2: bytes"),
    ],
)
def test_damaged_compressed_files_are_refused(triples, message, tmp_path):
    (tmp_path / "run.gz").write_bytes(triples)
    with pytest.raises(TableError, match=rf"run\.gz.*{message}"):
        read_trec_run(tmp_path / "run.gz")


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_name(tmp_path):
    (tmp_path / "run.txt").write_bytes(b"\xef\xbb\xbfq Q0 a 1 0.5 t\r\nq Q0 b 2 0.4 t\r\n")
    assert read_trec_run(tmp_path / "run.txt") == {"q": {"a": 0.5, "b": 0.4}}


def test_lines_that_end_in_a_carriage_return_alone_are_lines(tmp_path):
    (tmp_path / "run.txt").write_bytes(b"q Q0 a 1 0.5 t\rq Q0 b 2 0.4 t\r")
    (tmp_path / "qrels.txt").write_bytes(b"q 0 b 1\rq 0 a 0")
    assert read_trec_run(tmp_path / "run.txt") == {"q": {"a": 0.5, "b": 0.4}}
    assert read_trec_qrels(tmp_path / "qrels.txt") == {"q": {"b": 1, "a": 0}}
    (tmp_path / "run.txt").write_bytes(b"q Q0 a 1 0.5 t\rq Q0 b 2 high t\r")
    with pytest.raises(TableError, match="line 2: score 'high'"):
        read_trec_run(tmp_path / "run.txt")


def test_words_after_the_tag_and_spaces_beyond_ascii_change_no_name(tmp_path):
    (tmp_path / "run.txt").write_text("q Q0 東\u3000京 1 0.5 t and more\n", encoding="utf-8")
    assert read_trec_run(tmp_path / "run.txt") == {"q": {"東\u3000京": 0.5}}


@pytest.mark.parametrize("text", ["1_0", "٢"])
def test_judgments_in_other_than_plain_digits_are_refused(text, tmp_path):
    (tmp_path / "qrels.txt").write_text(f"q 0 a {text}\n", encoding="utf-8")
    with pytest.raises(TableError, match=f"line 1: level '{text}'"):
        read_trec_qrels(tmp_path / "qrels.txt")
    (tmp_path / "qrels.csv").write_text(f"query,doc,level\nq,a,{text}\n", encoding="utf-8")
    with pytest.raises(PathError, match=text):
        evaluate_ranking({"q": ["a"]}, tmp_path / "qrels.csv")


def test_indices_of_a_search_become_files_with_the_same_numbers(tmp_path):
    random = np.random.default_rng(1)
    embeddings = random.standard_normal((40, 4))
    paths = np.stack([np.arange(40) // 20, np.arange(40) // 5], axis=1)
    scores = cosines(embeddings, embeddings)
    ranking = np.argsort(-scores, axis=1)
    write_trec_run(
        tmp_path / "run.txt", ranking, scores=np.take_along_axis(scores, ranking, axis=1), self_retrieval=True
    )
    write_trec_qrels(tmp_path / "qrels.txt", query_paths=paths)
    result = evaluate_ranking(tmp_path / "run.txt", tmp_path / "qrels.txt", metrics=NAMES)
    np.testing.assert_allclose(result.values, evaluate(embeddings, paths, metrics=NAMES).values, atol=1e-12)
    write_trec_run(tmp_path / "cut.txt", [[2, 0, -1]])
    assert read_trec_run(tmp_path / "cut.txt") == {"0": {"2": -1.0, "0": -2.0}}
    write_trec_qrels(tmp_path / "gallery.txt", query_paths=[[0, 1]], gallery_paths=[[0, 1], [0, 2], [1, 1]])
    assert read_trec_qrels(tmp_path / "gallery.txt") == {"0": {"0": 2, "1": 1}}


def test_unjudged_items_are_irrelevant_or_an_error_as_the_card_says():
    run, qrels = {"q": ["a", "x", "b"], "p": ["y"]}, {"q": {"a": 1, "b": 1}}
    result = evaluate_ranking(run, qrels, metrics=["AP"])
    assert result.per_query()["AP"]["q"] == pytest.approx((1 + 2 / 3) / 2)
    assert "2 listed items without judgment at level 0" in result.convention.counts
    with pytest.raises(PathError, match=r"item 'x' of query 'q'."):
        evaluate_ranking(run, qrels, compat=Rules(unjudged="error"))
    complete = evaluate_ranking({"q": ["b", "a"]}, qrels, compat=Rules(unjudged="error"), metrics=["AP"])
    assert "every listed item has a judgment" in complete.convention.counts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 a 1 0.5 t\nq Q0 b 2 0.4\n", "line 2: 5 columns"),
        ("\n\nq Q0 a 1 high t\n", "line 3: score 'high'"),
        ("q Q0 a 1 nan t\n", "line 1"),
        ("q Q0 a 1 9007199254740992 t\nq Q0 b 1 9007199254740993 t\n", "line 2: score '9007199254740993'"),
        ("q Q0 a 1 1e400 t\n", "line 1: score '1e400'"),
        ("q Q0 a 1 1 t\np Q0 a 1 1 t\nq Q0 a 2 0 t\n", "line 3.*item 'a' of query 'q'"),
        (b"q Q0 a 1 1 t\nq Q0 \xff 2 1 t\n", "line 2: bytes"),
        ("q Q0 a 1 1 t\nq Q0 tower bridge 2 0.9 t\n", "line 2: 7 columns, of which 'bridge' is the rank"),
        ("q Q0 tower bridge 2 0.9\n", "line 1: 6 columns, of which 'bridge' is the rank"),
        ("q Q0 photo 12 3 0.9 t\n", "line 1: 7 columns.* '0.9' the tag"),
        ("old town Q0 a 1 0.9 t\n", "line 1: 7 columns, of which 'a' is the rank"),
        ("q Q0 a 1 1_0 t\n", "line 1: score '1_0'"),
        ("q Q0 a 1 ١٠ t\n", "line 1: score '١٠'"),
    ],
)
def test_broken_lines_of_a_run_are_named(text, message, tmp_path):
    (tmp_path / "run.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TableError, match=rf"run\.txt, {message}"):
        evaluate_ranking(tmp_path / "run.txt", {"q": {"a": 1}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q 0 a 1\nq 0 b\n", "line 2: 3 columns"),
        ("q 0 a much\n", "line 1: level 'much'"),
        ("q 0 a -2\n", "line 1.*0, irrelevant"),
        ("q 0 a 0.5\n", "line 1"),
        ("q 0 a 1\n\nq 0 a 2\n", "line 3"),
    ],
)
def test_broken_lines_of_qrels_are_named(text, message, tmp_path):
    (tmp_path / "qrels.txt").write_text(text)
    with pytest.raises(TableError, match=r"qrels\.txt.*" + message):
        evaluate_ranking({"q": ["a"]}, tmp_path / "qrels.txt")
    with pytest.raises(TableError, match="absent"):
        read_trec_qrels(tmp_path / "absent.txt")


@pytest.mark.parametrize(
    ("error", "run", "qrels", "message"),
    [
        (OptionError, pd.DataFrame({"query": ["q"], "doc": ["a"]}), {"q": {}}, "one for the rank"),
        (OptionError, pd.DataFrame({"query": ["q"], "qid": ["q"], "doc": ["a"], "score": [1]}), {"q": {}}, "the query"),
        (OptionError, pd.DataFrame({"query": ["q", None], "doc": ["a", "b"], "score": [1, 2]}), {"q": {}}, "row 1"),
        (EmbeddingError, pd.DataFrame({"query": ["q"], "doc": ["a"], "score": [np.nan]}), {"q": {}}, "NaN"),
        (EmbeddingError, pd.DataFrame({"query": ["q"], "doc": ["a"], "score": ["high"]}), {"q": {}}, "'high'.*numbers"),
        (PathError, {"q": ["a"]}, pd.DataFrame({"query": ["q"], "doc": ["a"], "level": [0.5]}), "level 0.5"),
        (OptionError, {"q": "abc"}, {"q": {}}, "a str for query 'q'"),
        (OptionError, {"q": ["a"]}, {"q": ["a"]}, "a list for query 'q'"),
        (OptionError, {"q": ["a"]}, 3, "a int"),
    ],
)
def test_frames_and_mappings_that_say_nothing_are_refused(error, run, qrels, message):
    with pytest.raises(error, match=message):
        evaluate_ranking(run, qrels)


def test_comments_and_text_after_the_tag_are_passed_over_as_by_trec_eval(tmp_path):
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("# by hand\nq Q0 a#1 1 inf tag and more\n  # indented\nq Q0 b 2 -Infinity tag\n")
    qrels.write_text("# by hand\nq 0 a#1 1 \n")
    assert read_trec_run(run) == {"q": {"a#1": np.inf, "b": -np.inf}}
    assert read_trec_qrels(qrels) == {"q": {"a#1": 1}}
    with pytest.raises(OptionError, match="'#'"):
        write_trec_run(run, {"#q": ["a"]})


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2", ".xz", ".zip"])
def test_runs_are_read_packed_as_tables_are(suffix, tmp_path):
    file, lines = tmp_path / f"run.txt{suffix}", b"q Q0 a 1 0.5 t\nq Q0 b 2 0.25 t\n"
    pack(file, lines)
    assert read_trec_run(file) == {"q": {"a": 0.5, "b": 0.25}}
    file.write_bytes(b"\x04\x22\x4d\x18\xff")
    with pytest.raises(TableError, match=r"run\.txt.* cannot be read"):
        read_trec_run(file)


def test_writers_leave_nothing_behind_when_they_refuse(tmp_path):
    for error, write in (
        (OptionError, lambda file: write_trec_run(file, {"q": ["a b"]})),
        (OptionError, lambda file: write_trec_run(file, {"": ["a"]})),
        (OptionError, lambda file: write_trec_run(file, {"q": ["a"]}, self_retrieval=True)),
        (ShapeError, lambda file: write_trec_run(file, [[0.5]])),
        (ShapeError, lambda file: write_trec_run(file, [[0, 1]], scores=[[1.0]])),
        (OptionError, lambda file: write_trec_run(file, [[0, 1]], scores=[[0.1, 0.9]])),  # distances
        (OptionError, lambda file: write_trec_qrels(file)),
        (OptionError, lambda file: write_trec_qrels(file, {"q": {"a\tb": 1}})),
        (ShapeError, lambda file: write_trec_qrels(file, query_paths=[[0, 1]], gallery_paths=[[0]])),
    ):
        with pytest.raises(error):
            write(tmp_path / "file.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_would_fill_the_memory_is_refused(tmp_path):
    file, lines = tmp_path / "run.txt", b"q Q0 i 1 2 mine\n" + bytes(65 << 20)
    file.write_bytes(lines)
    with pytest.raises(TableError, match=r"run\.txt, line 2: above 64 MiB"):
        read_trec_run(file)
    pack(tmp_path / "run.txt.gz", lines)
    with pytest.raises(TableError, match=r"run\.txt\.gz: 6.,... bytes unpack to more than 68,157,440"):
        read_trec_run(tmp_path / "run.txt.gz")
