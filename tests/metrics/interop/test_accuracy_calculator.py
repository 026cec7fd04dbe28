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
    found = space_tester(accuracy_calculator=calculator, label_hierarchy_level=1).test(
        {"val": data}, 0, torch.nn.Identity()
    )["val"]
    expected = evaluate(embeddings, paths, metrics=NAMES)
    for name in NAMES:
        assert found[f"{name}_level1"] == pytest.approx(expected[name], abs=1e-6)
    assert calculator.result.values.shape == expected.values.shape
    every = HierarchicalAccuracyCalculator(["H-AP", "R@1"])
    found = space_tester(accuracy_calculator=every, label_hierarchy_level="all").test(
        {"val": data}, 0, torch.nn.Identity()
    )["val"]
    coarse = evaluate(embeddings, paths[:, 0], metrics=["H-AP", "R@1"])
    assert found["H-AP_level0"] == pytest.approx(coarse["H-AP"], abs=1e-6)
    assert found["H-AP_level1"] == pytest.approx(expected["H-AP"], abs=1e-6)
    assert found["AVERAGE_R@1"] == pytest.approx((coarse["R@1"] + expected["R@1"]) / 2, abs=1e-6)


def test_a_tester_with_references_masks_queries_among_them():
    embeddings, paths = retrieval()
    parts = {
        "query": torch.utils.data.TensorDataset(embeddings[:10], paths[:10]),
        "more": torch.utils.data.TensorDataset(embeddings[10:], paths[10:]),
    }
    calculator = HierarchicalAccuracyCalculator(["H-AP"])
    for references, expected in (
        (["more"], evaluate(embeddings[:10], paths[:10], embeddings[10:], paths[10:], metrics=["H-AP"])),
        (["query", "more"], evaluate(embeddings, paths, metrics=["H-AP"])),
    ):
        space_tester(accuracy_calculator=calculator, label_hierarchy_level=1).test(
            parts, 0, torch.nn.Identity(), splits_to_eval=[("query", references)]
        )
        np.testing.assert_allclose(calculator.result.values, expected.values[:10], atol=1e-6)


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
