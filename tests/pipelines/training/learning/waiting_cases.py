"""Training and embedding wait for a device only where they must; see ``fake_device``.

``test_waiting.py`` runs these in a process of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from fake_device import Watched, move, set_up, watched_device
from lightning_fabric import Fabric
from lightning_fabric.accelerators import CPUAccelerator
from lightning_fabric.strategies import SingleDeviceStrategy
from torch._subclasses.fake_tensor import unset_fake_temporarily

from hiertree.losses.pairs import pairs as _pairs
from hiertree.pipelines.inference.trained_model import TrainedModel
from hiertree.pipelines.training.learning.learner import Learner
from hiertree.pipelines.training.learning.optimization import Paths
from hiertree.pipelines.training.network.model_files import Preprocessing
from hiertree.pipelines.training.recipe.schema import Recipe

DEVICE, SIZE, CLASSES = "absent", 16, np.stack([np.arange(4) // 2, np.arange(4)], axis=1)
STEPS: dict[str, tuple[int, tuple[str, ...]]] = {  # looks at what goes into the loss; settings
    "HAPPIER": (2, ()),
    "in two passes": (2, ("training.accumulate=two_pass", "training.chunk_size=3", "model.freeze_batch_norm=true")),
    "clipped": (2, ("optimizer.clip_norm=1",)),
    "ROADMAP": (1, ("loss={name: ROADMAP}",)),
    "with a memory": (3, ("loss={name: CrossBatchMemory, size: 24, loss: {name: SupHAP}}",)),
}


class Absent(CPUAccelerator):
    """Of a device that is not there."""

    def setup_device(self, device: torch.device) -> None:
        """Nothing is to be done."""


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    build = Learner._build

    def build_there(learner: Learner, class_paths: Paths) -> None:
        with unset_fake_temporarily():
            build(learner, class_paths)
        for module in (learner.embedder, learner.loss):
            move(module, DEVICE)

    Learner._build = build_there
    _pairs.triton_works_on = lambda device: device != "cpu"
    set_up(DEVICE)


def learner_of(recipe: Recipe) -> Learner:
    strategy = SingleDeviceStrategy(torch.device(DEVICE, 0))
    fabric = Fabric(accelerator=Absent(), strategy=strategy, devices=1, precision=recipe.training.precision)
    learner = Learner(recipe, fabric, class_paths=CLASSES, steps_per_epoch=2)
    learner.start_epoch(0)
    return learner


def looks_between_products(watched: Watched) -> list[int]:
    looks = [part.count("look") for part in " ".join(watched.found).split("product")]
    return [number for number in looks if number]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_looks_at_its_inputs_and_at_the_end_at_the_loss_and_the_norm_of_the_gradient(
    name: str, tiny_recipe: Callable[..., Recipe]
) -> None:
    num_inputs, settings = STEPS[name]
    with watched_device() as watched:
        learner = learner_of(tiny_recipe(*settings))
        images, paths = torch.zeros(8, 3, SIZE, SIZE, dtype=torch.uint8), torch.zeros(8, 2, dtype=torch.int64)
        learner.step(images, paths, step=0)
        watched.found.clear()
        values = learner.step(images, paths, step=1)
    assert looks_between_products(watched) == [num_inputs, len(values) + 1]
    assert not {"wait", "copy to host"} & set(watched.found)


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 0.5, 2.0)])
def test_a_batch_of_embeddings_is_one_copy_to_the_host(
    scales: tuple[float, ...], tiny_recipe: Callable[..., Recipe]
) -> None:
    with watched_device() as watched:
        learner = learner_of(tiny_recipe(f"evaluation.scales={list(scales)}"))
        watched.found.clear()
        learner.embed(torch.zeros(8, 3, SIZE, SIZE, dtype=torch.uint8))
        while_training = Counter(watched.found)
        kept = Preprocessing(
            size=SIZE, channels=3, resize=None, mean=(0.5,) * 3, std=(0.5,) * 3, scales=scales, precision="32-true"
        )
        model = TrainedModel(learner.embedder, kept, device=DEVICE)
        watched.found.clear()
        model.embed(torch.zeros(16, 3, SIZE, SIZE, dtype=torch.uint8), batch_size=8)
        of_model = Counter(watched.found)
    assert while_training["copy to host"] == 1
    assert of_model["copy to host"] == 2  # batches
    assert 2 * while_training["look"] == of_model["look"] == 2 * (len(scales) - 1)  # at resized images
