"""Where other libraries are right, where they are not, and that the audit finds the reason."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hiertree.errors import OptionError
from hiertree.pipelines.stored_embeddings.audit import DIFFERENCES, audit, compare_libraries, draw_queries
from hiertree.pipelines.stored_embeddings.embeddings_files import LabeledEmbeddings
from hiertree.pipelines.stored_embeddings.label_columns import EmbeddedImages
from hiertree.pipelines.stored_embeddings.other_libraries import LIBRARIES

TRIED = {name: pytest.param(name, marks=[pytest.mark.nightly] * (name == "ranx")) for name in LIBRARIES}  # it compiles
EMPTY, LINEAR, POSITIVE = DIFFERENCES["empty"], DIFFERENCES["linear"], DIFFERENCES["positive"]


def labeled(*, lonely=0, shift=0.0):
    """Classes of 15 in kinds of 30; the first items may be alone, and a common direction makes cosines positive."""
    random = np.random.default_rng(0)
    paths = np.stack([np.arange(120) // 30, np.arange(120) // 15], axis=1)
    paths[:lonely] = np.arange(lonely)[:, None] + [10, 100]
    embeddings = 0.7 * random.standard_normal((8, 8))[np.arange(120) // 15] + random.standard_normal((120, 8)) + shift
    return LabeledEmbeddings([EmbeddedImages(embeddings.astype(np.float32), paths)])


def reasons(problem, library):
    pytest.importorskip(library)
    table = compare_libraries(problem, [library])
    return dict(zip(table["metric"], table["reason"], strict=True))


@pytest.fixture(scope="module")
def plain_problem():
    """All cosines positive, no ties, every query with positives."""
    return draw_queries(labeled(shift=4.0), queries=60, seed=0)


@pytest.fixture(scope="module")
def awkward():
    """Cosines of either sign, and queries without positives."""
    return draw_queries(labeled(lonely=9), queries=120, seed=0)


@pytest.fixture(scope="module")
def tied(awkward):
    return awkward._replace(scores=np.round(awkward.scores * 4) / 4)


ALWAYS = {
    "torchmetrics": {
        "NDCG": LINEAR,
        "NDCG@10": LINEAR,
        "TR@10": DIFFERENCES["all"],
        "mAP@10": DIFFERENCES["found"],
    },
    "sklearn": {"NDCG": LINEAR, "NDCG@10": LINEAR},
    "ir_measures": {
        "NDCG": LINEAR,
        "NDCG@10": LINEAR,
        "TR@10": DIFFERENCES["all"],
        "mAP@10": DIFFERENCES["all"],
    },
    "ranx": {"TR@10": DIFFERENCES["all"], "mAP@10": DIFFERENCES["all"]},
    "pytorch_metric_learning": {"mAP@10": DIFFERENCES["all"]},
}


@pytest.mark.parametrize("library", TRIED.values())
def test_on_plain_scores_libraries_differ_by_their_definitions_alone(library, plain_problem):
    assert (plain_problem.scores > 0).all()
    differences = reasons(plain_problem, library)
    assert differences == {metric: ALWAYS[library].get(metric, "") for metric in differences}


@pytest.mark.parametrize("library", TRIED.values())
def test_every_difference_on_awkward_scores_is_explained(library, awkward):
    differences = reasons(awkward, library)
    assert "not explained" not in differences.values()
    if library == "torchmetrics":
        assert differences["AP[1]"] == f"{EMPTY}; {POSITIVE}"
    elif library != "pytorch_metric_learning":  # which leaves queries without positives out, as we do
        assert all(EMPTY in reason for reason in differences.values())
    else:
        assert differences["mAP@R"] == differences["P@1"] == ""


@pytest.mark.parametrize("library", [TRIED[name] for name in LIBRARIES if name != "pytorch_metric_learning"])
def test_every_difference_on_ties_is_explained(library, tied):
    differences = reasons(tied, library)
    assert "not explained" not in differences.values()
    expected = {"sklearn": "grouped", "ir_measures": "reversed", "ranx": "own", "torchmetrics": "own"}[library]
    assert DIFFERENCES[expected] in differences["AP[2]"]
    if library in ("torchmetrics", "sklearn"):  # the two that average DCG over ties, as we do
        assert differences["NDCG"] == f"{EMPTY}; {LINEAR}"


def test_a_duplicate_of_the_query_stays_in_its_list_as_with_us():
    pytest.importorskip("pytorch_metric_learning")
    embeddings, paths = labeled().arguments
    embeddings[15:30] = embeddings[:15]  # every item of a class again in another
    problem = draw_queries(LabeledEmbeddings([EmbeddedImages(embeddings, paths)]), queries=120, seed=0)
    scores = (problem.embeddings[:, None] * problem.gallery).sum(axis=-1)  # equal for equal vectors, unlike a product
    differences = reasons(problem._replace(scores=scores), "pytorch_metric_learning")
    assert differences["P@1"] == ""
    assert differences["mAP@R"] in (
        "",
        DIFFERENCES["own"],
    )  # by the processor, faiss lists a vector or its duplicate first


def test_a_number_that_no_convention_gives_is_called_so(plain_problem, monkeypatch):
    monkeypatch.setattr(
        "hiertree.pipelines.stored_embeddings.audit.values_of", lambda library, problem: {"AP[1]": 0.123}
    )
    table = compare_libraries(plain_problem, ["sklearn"])
    assert table["reason"].tolist() == ["not explained"]


def test_the_command_reads_a_file_and_writes_table_and_provenance(tmp_path, capsys, monkeypatch):
    from hiertree.pipelines.cli.application import main

    monkeypatch.setattr("hiertree.pipelines.stored_embeddings.audit.find_spec", lambda name: name == "sklearn" or None)
    embeddings, paths = labeled().arguments
    np.savez(tmp_path / "e.npz", embeddings=embeddings, paths=paths)
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["audit", str(tmp_path / "e.npz"), "--queries", "20", "--out", str(tmp_path / "a.json"), *options])
        assert not ended.value.code
        printed = capsys.readouterr().out
        if options:
            assert json.loads(printed) == json.loads((tmp_path / "a.json").read_text())["table"]
        else:
            assert "not installed: torchmetrics" in printed
    with pytest.raises(OptionError):
        audit(tmp_path / "e.npz", queries=0)


def test_libraries_agree_where_the_classes_of_some_items_are_unknown():
    embeddings, paths = labeled(shift=4.0).arguments
    paths = np.where((np.arange(120) % 5 == 0)[:, None] & [False, True], -1, paths)
    problem = draw_queries(LabeledEmbeddings([EmbeddedImages(embeddings, paths)]), queries=120, seed=0)
    found = reasons(problem, "pytorch_metric_learning")
    assert "not explained" not in found.values()


def test_a_large_gallery_stays_whole_and_fewer_queries_are_drawn(monkeypatch):
    monkeypatch.setattr("hiertree.pipelines.stored_embeddings.audit.MOST_PAIRS", 1200)
    assert draw_queries(labeled(), queries=50, seed=0).scores.shape == (10, 120)
