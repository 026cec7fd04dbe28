"""One torchmetrics metric for any names: batches and processes give the numbers of one evaluation."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from forked_processes import run_together
from shared_evaluation import PROCESSES, share_of_a_metric

from hiertree.errors import EmbeddingError, InputError, OptionError, PathError, ShapeError
from hiertree.metrics import RetrievalMetric, Rules, evaluate

torchmetrics = pytest.importorskip("torchmetrics")
NAMES = ["H-AP", "NDCG@5", "ASI", "AP[1]", "R@1", "mAP@R[1]"]


def retrieval(dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    paths = torch.stack([torch.arange(40) // 20, torch.arange(40) // 4], dim=1)
    return torch.randn(40, 6, generator=random).to(dtype), paths


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_batches_give_the_numbers_of_one_evaluation_and_reset_forgets_them(dtype):
    embeddings, paths = retrieval(dtype)
    expected = evaluate(embeddings, paths, metrics=NAMES)
    metric = RetrievalMetric(NAMES)
    for _ in range(2):
        for rows in torch.arange(40).split(7):
            metric.update(embeddings[rows], paths[rows].to(torch.int32))
        values = metric.compute()
        assert list(values) == NAMES
        assert {name: value.item() for name, value in values.items()} == pytest.approx(
            expected.summary().to_dict(), abs=1e-6
        )
        np.testing.assert_array_equal(metric.evaluation().values, expected.values)
        metric.reset()
    with pytest.raises(ShapeError, match="update before"), pytest.warns(UserWarning, match="before the"):
        metric.evaluation()


def test_one_name_gives_a_number_and_none_the_default_ones(monkeypatch):
    embeddings, paths = retrieval()
    metric, every = RetrievalMetric("TR@3[1]"), RetrievalMetric()
    expected = evaluate(embeddings, paths, metrics=["TR@3[1]"])["TR@3[1]"]
    assert metric(embeddings, paths).item() == metric.compute().item() == pytest.approx(expected, abs=1e-6)
    every.update(embeddings, paths)
    calls = []
    monkeypatch.setattr(
        "hiertree.metrics.retrieval_metric.evaluate", lambda *a, **o: calls.append(1) or evaluate(*a, **o)
    )
    assert list(every.compute()) == list(every.evaluation().names) == list(evaluate(embeddings, paths).names)
    assert len(calls) == 1  # one ranking for all


def test_options_are_those_of_evaluate():
    embeddings, paths = retrieval()
    embeddings = embeddings.sign()  # ties
    for options in (
        {"alpha": 3.0, "ties": "worst"},
        {"protocol": "sop"},
        {"compat": "delf"},
        {"compat": Rules(counts="official")},
    ):
        metric = RetrievalMetric(**options)
        metric.update(embeddings, paths)
        np.testing.assert_array_equal(metric.evaluation().values, evaluate(embeddings, paths, **options).values)


def test_an_id_of_items_with_different_labels_is_refused():
    metric = RetrievalMetric()
    metric.update(torch.eye(2), torch.tensor([[0, 0], [0, 1]]), ids=[3, 4])
    metric.update(torch.eye(2), torch.tensor([[0, 0], [1, 2]]), ids=[3, 4])  # 3 again is what a sampler repeats
    with pytest.raises(PathError, match="id 4 with two paths: expected one item per id"):
        metric.compute()


def test_a_separate_gallery_and_repeated_items():
    embeddings, paths = retrieval()
    expected = evaluate(embeddings[:10], paths[:10], embeddings[10:], paths[10:], metrics=["H-AP"])
    metric = RetrievalMetric("H-AP")
    metric.update(embeddings[:10], paths[:10], ids=torch.arange(10))
    metric.update(embeddings[8:10], paths[8:10], ids=torch.arange(8, 10))
    metric.update(embeddings[10:], paths[10:], gallery=True)
    np.testing.assert_array_equal(metric.evaluation().values, expected.values)
    mixed = RetrievalMetric("H-AP")
    mixed.update(embeddings, paths.numpy(), gallery=torch.arange(40) >= 10)
    np.testing.assert_array_equal(mixed.evaluation().values, expected.values)


def test_items_of_a_querys_own_group_leave_its_list():
    embeddings, paths = retrieval()
    groups = torch.arange(40) % 7
    metric, by_group = RetrievalMetric("AP"), RetrievalMetric("AP")
    metric.update(embeddings, paths, groups=groups)
    np.testing.assert_array_equal(
        metric.evaluation().values, evaluate(embeddings, paths, query_ids=groups, metrics=["AP"]).values
    )
    by_group.update(embeddings[:9], paths[:9], groups=groups[:9])
    by_group.update(embeddings, paths, groups=groups, gallery=True)
    expected = evaluate(
        embeddings[:9], paths[:9], embeddings, paths, query_ids=groups[:9], gallery_ids=groups, metrics=["AP"]
    )
    np.testing.assert_array_equal(by_group.evaluation().values, expected.values)
    by_group.update(embeddings, paths)
    with pytest.raises(PathError, match="every batch"):
        by_group.compute()


def test_a_collection_logs_it_beside_others():
    embeddings, paths = retrieval()
    collection = torchmetrics.MetricCollection(
        {"many": RetrievalMetric(["H-AP", "R@1"]), "one": RetrievalMetric("R@10")}, prefix="val/"
    )
    for rows in torch.arange(40).split(9):
        collection.update(embeddings[rows], paths[rows])
    expected = evaluate(embeddings, paths, metrics=["H-AP", "R@1", "R@10"])
    logged = {name: value.item() for name, value in collection.compute().items()}
    assert logged == pytest.approx(
        {"val/H-AP": expected["H-AP"], "val/R@1": expected["R@1"], "val/one": expected["R@10"]}, abs=1e-6
    )


def test_values_are_plotted():
    metric = RetrievalMetric(["H-AP", "R@1"])
    metric.update(*retrieval())
    figure, axes = metric.plot()
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"H-AP", "R@1"}
    figure, _ = RetrievalMetric("H-AP").plot([torch.tensor(0.2), torch.tensor(0.4)])
    assert figure is not None


def test_no_positive_anywhere_warns_and_is_no_number():
    metric = RetrievalMetric("H-AP")
    metric.update(torch.eye(3), torch.tensor([0, 1, 2]))
    with pytest.warns(UserWarning, match="no query has a positive"):
        assert metric.compute().isnan()


def test_two_processes_compute_what_one_would_also_where_an_item_is_given_to_both_or_one_has_none(tmp_path):
    torch.save([*retrieval(), NAMES], tmp_path / "retrieval.pt")
    run_together(share_of_a_metric, str(tmp_path), count=PROCESSES)
    expected = evaluate(*retrieval(), metrics=NAMES)
    for rank in range(PROCESSES):
        *results, values = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for means in results:
            np.testing.assert_allclose(means, expected.summary(), atol=1e-6)
        assert values.shape == expected.values.shape
    assert not list(tmp_path.glob("*took copies"))


@pytest.mark.parametrize(
    ("names", "higher"),
    [("R@1", True), ("HD@3", False), (["mistake-severity", "HD@1"], False), (["R@1", "HD@1"], None), (None, True)],
)
def test_trackers_know_which_direction_is_better(names, higher):
    metric = RetrievalMetric(names)
    assert metric.higher_is_better is higher
    assert metric.plot_upper_bound == (1.0 if higher else None)


def test_the_finest_first_error_is_a_success():
    metric = RetrievalMetric("first-error[2]")
    metric.update(*retrieval())
    assert metric.higher_is_better is True
    assert RetrievalMetric("first-error[1]").higher_is_better is False


def test_a_metric_is_pickled_with_what_it_gathered():
    metric = RetrievalMetric("ASI")
    metric.update(*retrieval())
    assert pickle.loads(pickle.dumps(metric)).compute() == metric.compute()


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (OptionError, lambda: RetrievalMetric("H-AP", alpha=-1.0)),
        (OptionError, lambda: RetrievalMetric("NDCG@0")),
        (OptionError, lambda: RetrievalMetric(["H-AP", "recal@1"])),
        (OptionError, lambda: RetrievalMetric("ASI", ties="random")),
        (OptionError, lambda: RetrievalMetric("ASI", compute_on_gpu=True)),
        (ShapeError, lambda: RetrievalMetric("ASI").update(torch.eye(3), torch.tensor([0, 1]))),
        (ShapeError, lambda: RetrievalMetric("ASI").update(torch.ones(3), torch.tensor([0, 1, 1]))),
        (PathError, lambda: RetrievalMetric("ASI").update(torch.eye(2), torch.tensor([0.0, 1.0]))),
        (PathError, lambda: RetrievalMetric("ASI").update(torch.eye(2), ["lake", "bay"])),
        (PathError, lambda: RetrievalMetric("ASI").update(torch.eye(2), np.array([["lake"], ["bay"]]))),
        (ShapeError, lambda: RetrievalMetric("ASI").update(torch.eye(2), torch.tensor([0, 1]), ids=torch.tensor([0]))),
        (PathError, lambda: RetrievalMetric("ASI").update(torch.eye(2), torch.tensor([0, 1]), ids=[0, -1])),
    ],
)
def test_bad_options_and_batches_are_refused(error, call):
    with pytest.raises(error):
        call()


def test_a_batch_that_does_not_continue_those_before_is_refused_when_it_is_added():
    metric = RetrievalMetric("ASI")
    metric.update(torch.eye(3), torch.tensor([[0, 0], [0, 0], [1, 1]]))
    with pytest.raises(ShapeError, match="embeddings of width 2: expected 3, as in earlier batches"):
        metric.update(torch.eye(2), torch.tensor([[0, 0], [1, 1]]))
    with pytest.raises(ShapeError, match="paths of width 1: expected 2, as in earlier batches"):
        metric.update(torch.eye(3), torch.tensor([0, 0, 1]))
    with pytest.raises(EmbeddingError, match="embeddings as a ndarray"):
        metric.update(np.eye(3), torch.tensor([[0, 0], [0, 0], [1, 1]]))
    assert metric.compute() == 0.5  # the first batch alone, whose items tie


def test_heavy_libraries_load_only_when_asked_for():
    heavy = "('torch', 'torchmetrics', 'numba', 'scipy', 'pandas', 'faiss', 'sklearn', 'matplotlib', 'pyarrow')"
    code = (
        f"import sys, hiertree.metrics as m; print([name for name in {heavy} if name in sys.modules]); "
        "m.RetrievalMetric; print('torchmetrics' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["[]", "True"]


def test_a_batch_without_items_adds_nothing():
    metric = RetrievalMetric(["AP"])
    empty = torch.empty(0, 2), torch.empty(0, 2, dtype=torch.long)
    metric.update(*empty)
    with pytest.raises(ShapeError, match="without items"):
        metric.compute()
    items, paths = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), torch.tensor([[0, 0], [0, 0], [0, 1]])
    metric.update(items, paths, groups=[0, 1, 2])
    metric.update(torch.empty(0, 2), [], groups=[])
    metric.update(*empty)
    assert metric.compute()["AP"] == 1.0


def test_a_bootstrap_of_items_is_refused_since_copies_would_be_positives():
    from torchmetrics.wrappers import BootStrapper

    embeddings, paths = torch.randn(20, 4), torch.arange(20) // 4
    for strategy in ("poisson", "multinomial"):
        bootstrap = BootStrapper(RetrievalMetric("R@1"), num_bootstraps=3, sampling_strategy=strategy)
        with pytest.raises(OptionError, match="confidence_interval"):
            bootstrap.update(embeddings, paths)
    metric = RetrievalMetric("R@1")
    metric.update(embeddings, paths)
    assert set(metric.evaluation().confidence_interval().columns) == {"low", "high", "clusters"}


def test_scored_pairs_file_names_and_other_values_are_refused_with_what_to_pass():
    scores, relevant, queries = torch.rand(6), torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([0, 0, 0, 1, 1, 1])
    metric = RetrievalMetric("R@1")
    for call in (metric, metric.update):
        with pytest.raises(OptionError, match=r"indexes.*evaluate_scores"):
            call(scores, relevant, indexes=queries)
    embeddings, paths = torch.randn(3, 4), torch.arange(3)
    with pytest.raises(PathError, match=r"ids of type list.*factorize"):
        metric.update(embeddings, paths, ids=["a.jpg", "b.jpg", "c.jpg"])
    with pytest.raises(PathError, match=r"groups.*factorize"):
        metric.update(embeddings, paths, groups=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match="values"):
        metric.update({"embeddings": embeddings}, paths)
