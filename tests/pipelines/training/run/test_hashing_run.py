"""A recipe of a hashing loss: α grows with the epochs, and what is measured are codes."""

from __future__ import annotations

import json

import numpy as np
from interrupted_runs import before_each_step

from hiertree.metrics import evaluate_codes
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file
from hiertree.pipelines.training.run.experiment import train

CODES = ("model.embedding_size=12", "loss={name: TieAwareAP, alpha: 3.0, alpha_factor: 2.0, alpha_every: 2}")


def test_codes_are_learned_and_measured_by_hamming_distance(tmp_path, tiny_recipe, monkeypatch):
    alphas, folder = [], tmp_path / "run"
    before_each_step(monkeypatch, lambda learner, _: alphas.append(learner.loss.alpha))
    run = train(tiny_recipe(*CODES), folder)
    assert alphas == [3.0, 3.0, 3.0, 3.0, 6.0, 6.0]
    result = json.loads((folder / "metrics.json").read_text())
    assert result["convention"]["scores"] == "Hamming distance, 12 bits"
    arrays = np.load(folder / "embeddings.npz")
    expected = evaluate_codes(arrays["embeddings"] > 0, arrays["paths"]).summary().to_dict()
    assert run.metrics == {name: expected[name] for name in run.metrics}
    result = evaluate_file(folder / "embeddings.npz", codes=True, metrics=list(run.metrics))
    assert result.summary().to_dict() == run.metrics
