"""Lightning's Trainer and Fabric see every epoch of a sampler once, from the start and after a resume."""

from __future__ import annotations

import json

import lightning
import numpy as np
import pytest
import torch
from forked_processes import run_together
from lightning.fabric.plugins.environments.lightning import find_free_network_port
from lightning_processes import run_epoch
from sampler_cases import LABELS, samplers
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

from hiertree.samplers import DistributedBatches


def alone():
    return samplers()[0]


def shared():
    return DistributedBatches(samplers()[1], rank=1, world_size=2)


BUILD = [alone, shared]


def epoch_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


def loader_of(sampler, workers=0):
    return DataLoader(TensorDataset(torch.arange(len(LABELS))), batch_sampler=sampler, num_workers=workers)


class Recorder(lightning.LightningModule):
    """Records the indices of every batch by epoch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: dict[int, list[list[int]]] = {}

    def training_step(self, batch):
        self.seen.setdefault(self.current_epoch, []).append(batch[0].tolist())
        return self.weight.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(folder, epochs):
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=folder,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("build", BUILD)
def test_a_trainer_sees_each_epoch_and_goes_on_with_the_right_one(tmp_path, build, workers):
    expected = {epoch: epoch_of(build(), epoch) for epoch in range(4)}
    model, resumed = Recorder(), Recorder()
    first = trainer(tmp_path, 2)
    first.fit(model, loader_of(build(), workers))
    first.save_checkpoint(tmp_path / "two.ckpt")
    assert model.seen == {epoch: expected[epoch] for epoch in (0, 1)}
    sampler = build()
    sampler.set_epoch(2)
    trainer(tmp_path, 4).fit(resumed, loader_of(sampler, workers), ckpt_path=tmp_path / "two.ckpt")
    assert resumed.seen == {epoch: expected[epoch] for epoch in (2, 3)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", BUILD)
def test_a_trainer_of_pytorch_metric_learning_trains_on_its_batches(build):
    from pytorch_metric_learning import losses, trainers

    batches = []

    class Seen(TensorDataset):
        def __getitems__(self, indices):
            batches.append(list(indices))
            return [(torch.rand(4), torch.tensor(LABELS[index])) for index in indices]

    trunk = torch.nn.Linear(4, 4)
    sampler = build()
    assert isinstance(sampler, BatchSampler)
    trainers.MetricLossOnly(
        models={"trunk": trunk},
        optimizers={"trunk_optimizer": torch.optim.SGD(trunk.parameters(), lr=0.1)},
        batch_size=sampler.batch_size,
        loss_funcs={"metric_loss": losses.ContrastiveLoss()},
        dataset=Seen(torch.arange(len(LABELS))),
        sampler=sampler,
        dataloader_num_workers=0,
    ).train(num_epochs=2)
    assert batches == epoch_of(build(), 0) + epoch_of(build(), 1)
    assert {len(batch) for batch in batches} == {sampler.batch_size}


def test_an_epoch_of_two_processes_gives_the_metrics_and_weights_of_one(tmp_path):
    for size in (1, 2):
        run_together(run_epoch, size, find_free_network_port(), str(tmp_path), count=size)
    (metrics, weights), *of_two = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("1-0", "2-0", "2-1")
    )
    assert set(metrics) == {"H-AP", "NDCG", "R@1"}
    for other_metrics, other_weights in of_two:
        assert other_metrics == pytest.approx(metrics, abs=1e-6)
        for name, value in weights.items():
            np.testing.assert_allclose(other_weights[name], value, atol=1e-12)
