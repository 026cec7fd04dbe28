"""A validation by Lightning, alone and as one of two processes, in a module that a process started anew can import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from hiertree.metrics import RetrievalCallback

NAMES = ["H-AP", "AP[1]", "R@1"]


def retrieval() -> tuple[torch.Tensor, torch.Tensor]:
    fine = torch.arange(41) // 4
    return torch.randn(41, 6, generator=torch.Generator().manual_seed(0)), torch.stack([fine // 3, fine], dim=1)


class Embedder(lightning.LightningModule):
    def __init__(self, returned: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.returned = torch.nn.Linear(6, 4), returned

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images)

    def training_step(self, batch: Any) -> torch.Tensor:
        return self(batch[0]).square().mean()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        return self.returned(self, batch) if self.returned else None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def trainer(*callbacks: Any, **options: Any) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        enable_checkpointing=any(isinstance(callback, lightning.callbacks.ModelCheckpoint) for callback in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )


def loader(rows: slice = slice(None), *extra: torch.Tensor) -> DataLoader[Any]:
    embeddings, paths = retrieval()
    return DataLoader(TensorDataset(embeddings[rows], paths[rows], *extra), batch_size=7)


def logged(trainer: lightning.Trainer) -> dict[str, float]:
    return {name: value.item() for name, value in trainer.callback_metrics.items()}


def validate_together(rank: int, port: int, folder: str) -> None:
    """Validate as one of two processes that torchrun has started; one of the 41 images is repeated."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "one"}
    shared_trainer = trainer(RetrievalCallback(NAMES), devices=2, strategy="ddp")
    shared_trainer.validate(Embedder(), loader(), verbose=False)
    torch.save(logged(shared_trainer), Path(folder, f"{rank}.pt"))
