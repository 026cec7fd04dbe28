"""Values and gradients over two processes are those of one process on the concatenated batch."""

from __future__ import annotations

import pytest
import torch
from forked_processes import run_together
from two_processes import SIZES, losses, part_of_a_batch, setting, step, undivided

from hiertree.errors import OptionError, ShapeError
from hiertree.losses import (
    BlackboxAP,
    CrossBatchMemory,
    DistributedLoss,
    LevelSum,
    PairDecomposability,
    SmoothRecall,
    SupAP,
    all_gather,
)


@pytest.fixture(scope="module")
def process_steps(tmp_path_factory):
    """What each of two processes has, by loss."""
    folder = tmp_path_factory.mktemp("processes")
    run_together(part_of_a_batch, str(folder), count=len(SIZES))
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(len(SIZES))]


@pytest.mark.parametrize("name", [*losses(), *undivided()])
def test_two_processes_have_value_and_gradient_of_one(name, process_steps):
    network, images, paths = setting()
    loss = {**losses(), **undivided()}[name]
    expected = step(network, loss, loss(network(images), paths))
    assert float(expected[1].abs().max()) > 0
    for process in process_steps:
        ways = [way for key, way in process.items() if key.rsplit(", ", 1)[0] == name]
        assert len(ways) >= 1
        for way in ways:
            for a, b in zip(way, expected, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_one_process_gathers_its_own_batch():
    _, images, paths = setting()
    embeddings, gathered = all_gather(images, paths)
    assert torch.equal(embeddings, images)
    assert torch.equal(gathered, paths)
    assert torch.equal(DistributedLoss(SupAP())(images, paths), SupAP()(images, paths))


@pytest.mark.parametrize(
    "loss",
    [
        PairDecomposability(reduction="avg_nonzero"),
        SmoothRecall(similarity_mixup=True),
        BlackboxAP(),
        CrossBatchMemory(SupAP(), 3, 1),
        LevelSum(lambda _: PairDecomposability(reduction="avg_nonzero"), (2,)),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_losses_that_are_no_means_over_queries_are_not_divided(loss):
    with pytest.raises(OptionError, match="no mean over queries"):
        DistributedLoss(loss)
    DistributedLoss(loss, queries="all")


def test_what_a_gathered_batch_cannot_take_is_refused():
    with pytest.raises(OptionError, match="queries='some'"):
        DistributedLoss(SupAP(), queries="some")
    with pytest.raises(ShapeError, match="mask"):
        DistributedLoss(SupAP())(torch.eye(3), torch.arange(3), valid=torch.ones(3, 1, dtype=torch.bool))
