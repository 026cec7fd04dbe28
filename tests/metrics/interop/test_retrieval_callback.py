"""A real Lightning trainer logs every metric of its validation data."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hiertree.errors import OptionError
from hiertree.metrics import RetrievalCallback, RetrievalMetric, evaluate

lightning = pytest.importorskip("lightning.pytorch")
pytestmark = pytest.mark.filterwarnings("ignore:.*(num_workers|log_every_n|GPU available|val_dataloader|LeafSpec)")
NAMES = ["H-AP", "AP[1]", "R@1"]


def retrieval():
    fine = torch.arange(41) // 4
    return torch.randn(41, 6, generator=torch.Generator().manual_seed(0)), torch.stack([fine // 3, fine], dim=1)


class Embedder(lightning.LightningModule):
    def __init__(self, returned=None):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.returned = torch.nn.Linear(6, 4), returned

    def forward(self, images):
        return self.layer(images)

    def training_step(self, batch):
        return self(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        return self.returned(self, batch) if self.returned else None

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def trainer(*callbacks):
    return lightning.Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        enable_checkpointing=any(isinstance(each, lightning.callbacks.ModelCheckpoint) for each in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
    )


def loader(rows=slice(None), *extra):
    embeddings, paths = retrieval()
    return DataLoader(TensorDataset(embeddings[rows], paths[rows], *extra), batch_size=7)


def logged(trained):
    return {name: value.item() for name, value in trained.callback_metrics.items()}


def test_training_logs_every_metric_which_a_checkpoint_can_watch(tmp_path):
    module, callback = Embedder(), RetrievalCallback(NAMES)
    best = lightning.callbacks.ModelCheckpoint(tmp_path, monitor="val/H-AP", mode="max")
    trained = trainer(callback, best)
    trained.fit(module, loader(), loader())
    embeddings, paths = retrieval()
    expected = evaluate(module(embeddings), paths, metrics=NAMES)
    assert logged(trained) == pytest.approx({f"val/{name}": expected[name] for name in NAMES}, abs=1e-6)
    assert best.best_model_score.item() == pytest.approx(expected["H-AP"], abs=1e-6)
    assert callback.results[0].values.shape == expected.values.shape


def test_what_the_validation_step_returns_is_not_embedded_again():
    def returned(module, batch):
        return {"embeddings": batch[0], "paths": batch[1]}

    validated = trainer(RetrievalCallback("H-AP", prefix=""))
    validated.validate(Embedder(returned), loader(), verbose=False)
    assert logged(validated) == pytest.approx({"H-AP": evaluate(*retrieval(), metrics=["H-AP"])["H-AP"]}, abs=1e-6)


def test_one_of_several_dataloaders_is_the_gallery_or_each_is_alone():
    embeddings, paths = retrieval()
    module = Embedder()
    vectors = module(embeddings).detach()
    loaders = [loader(slice(0, 14)), loader(slice(14, 41))]
    callback = RetrievalCallback(RetrievalMetric(["H-AP"], alpha=2.0), gallery=1)
    validated = trainer(callback)
    validated.validate(module, loaders, verbose=False)
    expected = evaluate(vectors[:14], paths[:14], vectors[14:], paths[14:], metrics=["H-AP"], alpha=2.0)["H-AP"]
    assert logged(validated) == pytest.approx({"val/H-AP": expected}, abs=1e-6)
    alone = trainer(RetrievalCallback(["H-AP"], embed=lambda module, batch: (module(batch[0]), batch[1])))
    alone.validate(module, loaders, verbose=False)
    expected = [evaluate(vectors[rows], paths[rows], metrics=["H-AP"])["H-AP"] for rows in (slice(14), slice(14, 41))]
    names = [f"val/H-AP/dataloader_idx_{number}" for number in range(2)]
    assert logged(alone) == pytest.approx(dict(zip(names, expected, strict=True)), abs=1e-6)


def test_a_batch_of_another_form_is_an_error_that_says_what_to_do():
    with pytest.raises(OptionError, match="embed="):
        trainer(RetrievalCallback()).validate(Embedder(), DataLoader(torch.ones(4, 6)), verbose=False)
    with pytest.raises(OptionError, match="metric"):
        RetrievalCallback("recal")


PROCESSES = """
import sys, torch
sys.path.insert(0, sys.argv[2])
from test_retrieval_callback import *
if __name__ == "__main__":
    callback = RetrievalCallback(NAMES)
    shared = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[callback])
    shared.validate(Embedder(), loader(), verbose=False)  # 41 images in two processes: one is repeated
    torch.save(logged(shared), f"{sys.argv[1]}/{shared.global_rank}.pt")
"""


def test_two_processes_log_what_one_would(tmp_path, request):
    script = tmp_path / "processes.py"
    script.write_text(PROCESSES)
    subprocess.run(
        [sys.executable, script, tmp_path, request.path.parent], check=True, timeout=400, capture_output=True
    )
    embeddings, paths = retrieval()
    expected = evaluate(Embedder()(embeddings), paths, metrics=NAMES)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found == pytest.approx({f"val/{name}": expected[name] for name in NAMES}, abs=1e-6)
