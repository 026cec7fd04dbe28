"""The metrics of a hierarchy in the real testers of pytorch-metric-learning."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiertree.errors import OptionError, ShapeError
from hiertree.metrics import HierarchicalAccuracyCalculator, evaluate

testers = pytest.importorskip("pytorch_metric_learning.testers")
NAMES = ["H-AP", "AP[1]", "R@1", "NDCG@5"]


def retrieval():
    fine = torch.arange(40) // 4
    return torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.stack([fine // 3, fine], dim=1)


def space_tester(**options):
    return testers.GlobalEmbeddingSpaceTester(
        dataloader_num_workers=0,
        data_device=torch.device("cpu"),
        end_of_testing_hook=lambda _: None,
        **options,
    )


def test_a_tester_measures_the_levels_down_to_its_own():
    embeddings, paths = retrieval()
    data = torch.utils.data.TensorDataset(embeddings, paths)
    calculator = HierarchicalAccuracyCalculator(NAMES, num_levels=2)
    accuracies = space_tester(accuracy_calculator=calculator, label_hierarchy_level=1).test(
        {"val": data}, 0, torch.nn.Identity()
    )["val"]
    expected = evaluate(embeddings, paths, metrics=NAMES)
    for name in NAMES:
        assert accuracies[f"{name}_level1"] == pytest.approx(expected[name], abs=1e-6)
    assert calculator.result.values.shape == expected.values.shape
    every = HierarchicalAccuracyCalculator(["H-AP", "R@1"])
    accuracies = space_tester(accuracy_calculator=every, label_hierarchy_level="all").test(
        {"val": data}, 0, torch.nn.Identity()
    )["val"]
    columns = [evaluate(embeddings, column, metrics=["H-AP", "R@1"]) for column in paths.T]
    for level, result in enumerate(columns):
        assert accuracies[f"H-AP_level{level}"] == pytest.approx(result["H-AP"], abs=1e-6)
    assert accuracies["AVERAGE_R@1"] == pytest.approx((columns[0]["R@1"] + columns[1]["R@1"]) / 2, abs=1e-6)


def test_a_tester_with_references_masks_queries_among_them():
    embeddings, paths = retrieval()
    parts = {
        "query": torch.utils.data.TensorDataset(embeddings[:10], paths[:10]),
        "more": torch.utils.data.TensorDataset(embeddings[10:], paths[10:]),
    }
    calculator = HierarchicalAccuracyCalculator(["H-AP"], num_levels=2)
    for references, expected in (
        (["more"], evaluate(embeddings[:10], paths[:10], embeddings[10:], paths[10:], metrics=["H-AP"])),
        (["query", "more"], evaluate(embeddings, paths, metrics=["H-AP"])),
    ):
        space_tester(accuracy_calculator=calculator, label_hierarchy_level=1).test(
            parts, 0, torch.nn.Identity(), splits_to_eval=[("query", references)]
        )
        np.testing.assert_allclose(calculator.result.values, expected.values[:10], atol=1e-6)


def test_a_column_of_a_tensor_counts_as_its_copy_does():
    embeddings, paths = retrieval()
    table = torch.stack([torch.arange(40) % 7, paths[:, 1]], dim=1)  # of cameras and landmarks
    calculator = HierarchicalAccuracyCalculator(["R@1", "H-AP"], distance="cosine")
    values = [calculator.get_accuracy(embeddings, column) for column in (table[:, 1], table[:, 1].clone())]
    assert values[0] == values[1]
    assert values[0]["R@1"] == pytest.approx(evaluate(embeddings, paths[:, 1], metrics=["R@1"])["R@1"], abs=1e-6)
    with pytest.raises(ShapeError, match="label_hierarchy_level=2"):
        HierarchicalAccuracyCalculator(["R@1"], num_levels=3).get_accuracy(embeddings, table[:, 1])


def test_its_numbers_are_those_of_the_librarys_own_on_raw_vectors():
    pytest.importorskip("faiss")
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    library_calculator = AccuracyCalculator(
        include=("precision_at_1", "mean_average_precision_at_r"), device=torch.device("cpu")
    )
    calculator = HierarchicalAccuracyCalculator(["R@1", "mAP@R"])
    random = torch.Generator().manual_seed(0)
    embeddings = torch.randn(50, 3, generator=random) * torch.linspace(0.1, 9, 50)[:, None]  # of very unequal norms
    labels = torch.randint(0, 8, (50,), generator=random)
    first = embeddings[:20], labels[:20]
    for retrieval in (
        (embeddings, labels),
        (*first, embeddings[20:], labels[20:]),
        (*first, embeddings, labels, True),
    ):
        library_accuracies, accuracies = (
            library_calculator.get_accuracy(*retrieval),
            calculator.get_accuracy(*retrieval),
        )
        assert accuracies["R@1"] == pytest.approx(library_accuracies["precision_at_1"], abs=1e-6)
        assert accuracies["mAP@R"] == pytest.approx(library_accuracies["mean_average_precision_at_r"], abs=1e-6)
    assert "Euclidean" in calculator.result.convention.scores


def test_the_two_distances_agree_on_vectors_of_norm_1():
    embeddings, paths = retrieval()
    unit = torch.nn.functional.normalize(embeddings.double(), dim=1)
    for options in ({}, {"counts": "official"}, {"compat": "official", "ties": "index"}):
        results = []
        for distance in ("euclidean", "cosine"):
            calculator = HierarchicalAccuracyCalculator(NAMES, distance=distance, **options)
            for arrays in ((unit, paths), (unit[:9], paths[:9], unit[9:], paths[9:])):
                calculator.get_accuracy(*arrays)
                results.append(calculator.result)
        for euclidean, cosine in zip(results[:2], results[2:], strict=True):
            np.testing.assert_allclose(euclidean.values, cosine.values, atol=1e-12)
            assert euclidean.convention.counts == cosine.convention.counts
    with pytest.raises(OptionError, match="distance='dot'"):
        HierarchicalAccuracyCalculator(NAMES, distance="dot")


def test_equal_distances_of_whole_numbers_are_ties():
    calculator = HierarchicalAccuracyCalculator(["AP"])
    points = np.array([[0, 0], [3, 4], [5, 0], [-4, 3]])  # the last three at distance 5 of the first
    calculator.get_accuracy(points[:1], [1], points[1:], [1, 0, 0])
    assert calculator.result["AP"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_a_reference_that_does_not_begin_with_the_query_is_refused():
    embeddings, paths = retrieval()
    calculator = HierarchicalAccuracyCalculator(NAMES)
    for reference, labels in (
        (embeddings + 1, paths),
        (embeddings, paths.flip(0)),
        (embeddings[1:], paths[1:]),
        (embeddings[:3], paths[:3]),
    ):
        with pytest.raises(ValueError, match="ref_includes_query"):
            calculator.get_accuracy(embeddings, paths, reference, labels, ref_includes_query=True)


def test_it_is_called_as_the_librarys_own():
    embeddings, paths = retrieval()
    calculator = HierarchicalAccuracyCalculator(NAMES)
    assert calculator.get_curr_metrics() == NAMES
    assert list(calculator.get_accuracy(embeddings.numpy(), paths.numpy(), exclude=("R@1",))) == [
        "H-AP",
        "AP[1]",
        "NDCG@5",
    ]
    assert list(calculator.get_accuracy(embeddings, paths, include=("R@1",))) == ["R@1"]
    assert np.isnan(calculator.get_accuracy(embeddings[:3], torch.arange(3), include=("R@1",))["R@1"])
    with pytest.raises(ShapeError, match="label_hierarchy_level=1"):
        HierarchicalAccuracyCalculator(NAMES, num_levels=2).get_accuracy(embeddings, paths[:, 0].clone())
    with pytest.raises(OptionError, match="recal"):
        HierarchicalAccuracyCalculator(["recal@1"])
