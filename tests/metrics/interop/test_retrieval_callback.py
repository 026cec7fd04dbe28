"""A real Lightning trainer logs every metric of its validation data."""

from __future__ import annotations

import pytest
import torch
from forked_processes import run_together
from lightning_fabric.plugins.environments.lightning import find_free_network_port
from torch.utils.data import DataLoader

from hiertree.errors import OptionError
from hiertree.metrics import RetrievalCallback, RetrievalMetric, evaluate

lightning = pytest.importorskip("lightning.pytorch")
validation = pytest.importorskip("lightning_validation")
pytestmark = pytest.mark.filterwarnings("ignore:.*(num_workers|log_every_n|GPU available|val_dataloader|LeafSpec)")


def test_training_logs_every_metric_which_a_checkpoint_can_watch(tmp_path):
    module, callback = validation.Embedder(), RetrievalCallback(validation.NAMES)
    best = lightning.callbacks.ModelCheckpoint(tmp_path, monitor="val/H-AP", mode="max")
    trainer = validation.trainer(callback, best)
    trainer.fit(module, validation.loader(), validation.loader())
    embeddings, paths = validation.retrieval()
    expected = evaluate(module(embeddings), paths, metrics=validation.NAMES)
    assert validation.logged(trainer) == pytest.approx(
        {f"val/{name}": expected[name] for name in validation.NAMES}, abs=1e-6
    )
    assert best.best_model_score.item() == pytest.approx(expected["H-AP"], abs=1e-6)
    assert callback.results[0].values.shape == expected.values.shape


def test_what_the_validation_step_returns_is_not_embedded_again():
    def returned(module, batch):
        return {"embeddings": batch[0], "paths": batch[1]}

    validated = validation.trainer(RetrievalCallback("H-AP", prefix=""))
    validated.validate(validation.Embedder(returned), validation.loader(), verbose=False)
    assert validation.logged(validated) == pytest.approx(
        {"H-AP": evaluate(*validation.retrieval(), metrics=["H-AP"])["H-AP"]}, abs=1e-6
    )


def test_one_of_several_dataloaders_is_the_gallery_or_each_is_alone():
    embeddings, paths = validation.retrieval()
    module = validation.Embedder()
    vectors = module(embeddings).detach()
    loaders = [validation.loader(slice(0, 14)), validation.loader(slice(14, 41))]
    callback = RetrievalCallback(RetrievalMetric(["H-AP"], alpha=2.0), gallery=1)
    validated = validation.trainer(callback)
    validated.validate(module, loaders, verbose=False)
    expected = evaluate(vectors[:14], paths[:14], vectors[14:], paths[14:], metrics=["H-AP"], alpha=2.0)["H-AP"]
    assert validation.logged(validated) == pytest.approx({"val/H-AP": expected}, abs=1e-6)
    single = validation.trainer(RetrievalCallback(["H-AP"], embed=lambda module, batch: (module(batch[0]), batch[1])))
    single.validate(module, loaders, verbose=False)
    expected = [evaluate(vectors[rows], paths[rows], metrics=["H-AP"])["H-AP"] for rows in (slice(14), slice(14, 41))]
    names = [f"val/H-AP/dataloader_idx_{number}" for number in range(2)]
    assert validation.logged(single) == pytest.approx(dict(zip(names, expected, strict=True)), abs=1e-6)


def test_a_batch_of_another_form_is_an_error_that_says_what_to_do():
    with pytest.raises(OptionError, match="embed="):
        validation.trainer(RetrievalCallback()).validate(
            validation.Embedder(), DataLoader(torch.ones(4, 6)), verbose=False
        )
    with pytest.raises(OptionError, match="metric"):
        RetrievalCallback("recal")


def test_two_processes_log_what_one_would(tmp_path):
    run_together(validation.validate_together, find_free_network_port(), str(tmp_path), count=2)
    embeddings, paths = validation.retrieval()
    expected = evaluate(validation.Embedder()(embeddings), paths, metrics=validation.NAMES)
    for rank in range(2):
        metrics = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert metrics == pytest.approx({f"val/{name}": expected[name] for name in validation.NAMES}, abs=1e-6)
