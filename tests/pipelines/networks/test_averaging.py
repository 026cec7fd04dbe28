"""The moving average of the weights: its formula, step by step in a run, and that a resumed run has the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hiertree.pipelines.networks.loading import load_embedder
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.learner import Learner

DECAY = 0.7
AVERAGED = (f"training.ema_decay={DECAY}", "model.freeze_backbone_epochs=1", "evaluation.every=1")


def train_noting_weights(recipe, out, *, broken_at=None):
    """Train, perhaps until Ctrl-C before a step; gives the weights after each step."""
    take_step, noted = Learner.step, []

    def step(self, *batch, step, **options):
        if step == broken_at:
            raise KeyboardInterrupt
        values = take_step(self, *batch, step=step, **options)
        noted.append({name: tensor.clone() for name, tensor in self.embedder.state_dict().items()})
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "step", step)
        train(recipe, out)
    return noted


def test_kept_network_is_the_average_over_the_steps_and_is_the_one_measured(tiny_recipe, tmp_path):
    recipe = tiny_recipe(*AVERAGED)
    noted = train_noting_weights(recipe, tmp_path)
    average = noted[0]
    for weights in noted[1:]:
        average = {name: DECAY * average[name] + (1 - DECAY) * tensor for name, tensor in weights.items()}
    averages = load_file(tmp_path / "model.safetensors")
    counts = {name for name in averages if name.endswith("num_batches_tracked")}
    assert all(torch.equal(averages[name], noted[-1][name]) for name in counts)
    torch.testing.assert_close({k: v for k, v in averages.items() if k not in counts},
                               {k: v for k, v in average.items() if k not in counts})  # fmt: skip
    assert not torch.allclose(averages["head.1.weight"], noted[-1]["head.1.weight"])
    assert not torch.allclose(averages["backbone.1.running_var"], noted[-1]["backbone.1.running_var"])
    test_set = load_split(recipe, "test")
    images = ImageViews(test_set.images, recipe.images)._plain_batch(list(range(len(test_set))))
    with np.load(tmp_path / "embeddings.npz") as file, torch.inference_mode():
        np.testing.assert_allclose(load_embedder(tmp_path)(images).numpy(), file["embeddings"], atol=1e-6)


@pytest.mark.parametrize("broken_at", [1, 4])
def test_resumed_run_has_the_same_average_to_the_bit(tiny_recipe, tmp_path, broken_at):
    recipe = tiny_recipe(*AVERAGED, "training.checkpoint_every_steps=1")
    train(recipe, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train_noting_weights(recipe, tmp_path / "broken", broken_at=broken_at)
    train(recipe, tmp_path / "broken")
    uninterrupted, broken = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert uninterrupted.keys() == broken.keys()
    assert all(torch.equal(tensor, broken[name]) for name, tensor in uninterrupted.items())


def test_averaging_changes_nothing_of_what_is_learned(tiny_recipe, tmp_path):
    averaged = train_noting_weights(tiny_recipe(*AVERAGED), tmp_path / "averaged")
    reference = train_noting_weights(tiny_recipe(*AVERAGED, "training.ema_decay=null"), tmp_path / "plain")
    assert all(torch.equal(tensor, reference[-1][name]) for name, tensor in averaged[-1].items())
