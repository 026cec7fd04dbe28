"""torchmetrics-style classes: batches and processes give the numbers of one evaluation."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from hiertree.errors import OptionError, PathError, ShapeError
from hiertree.metrics import ASI, HierarchicalAP, HierarchicalNDCG, evaluate

METRICS = {"H-AP": HierarchicalAP, "NDCG": HierarchicalNDCG, "ASI": ASI}


def retrieval(dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    paths = torch.stack([torch.arange(40) // 20, torch.arange(40) // 4], dim=1)
    return torch.randn(40, 6, generator=random).to(dtype), paths


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_batches_give_the_number_of_one_evaluation_and_reset_forgets_them(name, dtype):
    embeddings, paths = retrieval(dtype)
    expected = evaluate(embeddings, paths, metrics=[name]).summary()[name]
    metric = METRICS[name]()
    for _ in range(2):
        for rows in torch.arange(40).split(7):
            metric.update(embeddings[rows], paths[rows])
        assert metric.compute().item() == pytest.approx(expected, abs=1e-6)
        metric.reset()
    with pytest.raises(ShapeError, match="update before"):
        metric.evaluation()


def test_options_are_those_of_evaluate():
    embeddings, paths = retrieval()
    embeddings = embeddings.sign()  # ties
    for metric, name, options in (
        (HierarchicalAP(alpha=3.0, ties="worst"), "H-AP", {"alpha": 3.0, "ties": "worst"}),
        (HierarchicalNDCG(k=5, ties="best"), "NDCG@5", {"ties": "best"}),
    ):
        metric.update(embeddings, paths)
        expected = evaluate(embeddings, paths, metrics=[name], **options).summary()[name]
        assert metric.compute().item() == pytest.approx(expected, abs=1e-6)
        assert metric.evaluation().convention.ties == options["ties"]


def test_a_separate_gallery_and_repeated_items():
    embeddings, paths = retrieval()
    metric = HierarchicalAP()
    metric.update(embeddings[:10], paths[:10], ids=torch.arange(10))
    metric.update(embeddings[8:10], paths[8:10], ids=torch.arange(8, 10))
    metric.update(embeddings[10:], paths[10:], gallery=True)
    expected = evaluate(embeddings[:10], paths[:10], embeddings[10:], paths[10:], metrics=["H-AP"])
    np.testing.assert_array_equal(metric.evaluation().values, expected.values)


def test_no_positive_anywhere_warns_and_is_no_number():
    metric = HierarchicalAP()
    metric.update(torch.eye(3), torch.tensor([0, 1, 2]))
    with pytest.warns(UserWarning, match="no query has a positive"):
        assert metric.compute().isnan()


PROCESS = """
import sys, torch
from hiertree.metrics import ASI, HierarchicalAP, HierarchicalNDCG
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
embeddings, paths = torch.load(f"{folder}/retrieval.pt", weights_only=True)
own = torch.cat([torch.arange(rank, 40, 2), torch.tensor([0])])  # a sampler repeats an item
found = []
for kind in (HierarchicalAP, HierarchicalNDCG, ASI):
    metric = kind()
    for rows in own.split(6 + rank):
        metric.update(embeddings[rows], paths[rows], ids=rows)
    found.append(metric.compute())
torch.save(torch.stack(found), f"{folder}/{rank}.pt")
torch.distributed.destroy_process_group()
"""


def test_two_processes_compute_what_one_would_although_an_item_is_given_to_both(tmp_path):
    torch.save(retrieval(), tmp_path / "retrieval.pt")
    command = [sys.executable, "-c", PROCESS]
    running = [subprocess.Popen([*command, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [process.wait(timeout=100) for process in running] == [0, 0]
    expected = evaluate(*retrieval(), metrics=list(METRICS)).summary().to_numpy()
    for rank in range(2):
        np.testing.assert_allclose(torch.load(tmp_path / f"{rank}.pt", weights_only=True), expected, atol=1e-6)


def test_a_metric_is_pickled_with_what_it_gathered():
    metric = ASI()
    metric.update(*retrieval())
    assert pickle.loads(pickle.dumps(metric)).compute() == metric.compute()


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (OptionError, lambda: HierarchicalAP(alpha=-1.0)),
        (OptionError, lambda: HierarchicalNDCG(k=0)),
        (OptionError, lambda: ASI(ties="random")),
        (ShapeError, lambda: ASI().update(torch.eye(3), torch.tensor([0, 1]))),
        (ShapeError, lambda: ASI().update(torch.ones(3), torch.tensor([0, 1, 1]))),
        (ShapeError, lambda: ASI().update(torch.eye(2), torch.tensor([0, 1]), ids=torch.tensor([0]))),
        (PathError, lambda: ASI().update(torch.eye(2), torch.tensor([0, 1]), ids=torch.tensor([0, -1]))),
    ],
)
def test_bad_options_and_batches_are_refused(error, call):
    with pytest.raises(error):
        call()


def test_heavy_libraries_load_only_when_asked_for():
    heavy = "('torch', 'torchmetrics', 'numba', 'scipy', 'pandas', 'faiss', 'sklearn', 'matplotlib', 'pyarrow')"
    code = (
        f"import sys, hiertree.metrics as m; print([name for name in {heavy} if name in sys.modules]); "
        "m.ASI; print('torchmetrics' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["[]", "True"]
