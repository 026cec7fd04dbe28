"""One epoch of Lightning's Trainer, in a module that a process started anew can import."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from hiertree.losses import HAPPIER, DistributedLoss
from hiertree.metrics import RetrievalMetric
from hiertree.samplers import ClassBalancedSampler, DistributedBatches

PATHS = torch.stack([torch.arange(50) // 20, torch.arange(50) // 5], dim=1)
IMAGES = torch.randn(50, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Rows(Dataset[Any]):
    """An image, its path and its index."""

    def __len__(self) -> int:
        return len(PATHS)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        return IMAGES[index], PATHS[index], index


class Retrieval(lightning.LightningModule):
    """A linear network that learns by HAPPIER over the batch of all processes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Linear(6, 4).double()
        self.loss = DistributedLoss(HAPPIER(num_classes=10, embedding_size=4)).double()
        self.retrieval = RetrievalMetric(["H-AP", "NDCG", "R@1"])

    def training_step(self, batch: list[Tensor]) -> Tensor:
        images, paths, _ = batch
        value: Tensor = self.loss(self.net(images), paths)
        return value

    def validation_step(self, batch: list[Tensor]) -> None:
        images, paths, ids = batch
        self.retrieval.update(self.net(images), paths, ids=ids)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.retrieval.compute())
        self.retrieval.reset()  # the Trainer validates once before it trains

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5)


def run_epoch(rank: int, size: int, port: int, folder: str) -> None:
    """Train an epoch, measure, and note the metrics and the weights."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "1"} | {k: str(v) for k, v in places.items()}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    planned = ClassBalancedSampler(PATHS, batch_size=20, images_per_class=2, seed=0)
    batches = DistributedBatches(planned, rank=rank, world_size=size)
    own = torch.utils.data.DistributedSampler(Rows(), num_replicas=size, rank=rank, shuffle=False)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=size,
        strategy="ddp" if size > 1 else "auto",
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=folder,
    )
    model = Retrieval()
    trainer.fit(model, DataLoader(Rows(), batch_sampler=batches), DataLoader(Rows(), batch_size=7, sampler=own))
    weights = {name: value.tolist() for name, value in model.named_parameters()}
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    Path(folder, f"{size}-{rank}.json").write_text(json.dumps([metrics, weights]))
