"""On a device that computes while the program goes on, training and embedding rarely wait for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hiertree.losses import HAPPIER, ROADMAP, RODNDCG, Loss, SmoothAP
from hiertree.pipelines.training.network.embedder import Embedder
from hiertree.pipelines.training.recipe.settings import ModelSettings


def test_training_and_embedding_wait_only_where_they_must() -> None:
    cases = str(Path(__file__).with_name("waiting_cases.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which torch.compile looks for
@pytest.mark.parametrize("made", [lambda: HAPPIER(8, 6), ROADMAP, SmoothAP, lambda: RODNDCG(8, 6)])
def test_a_compiled_step_has_one_break_at_the_loss_and_changes_no_bit(made: Callable[[], Loss]) -> None:
    torch.manual_seed(0)
    network, loss = Embedder(ModelSettings(width=4, embedding_size=6), channels=3), made()
    images, fine = torch.randint(0, 256, (16, 3, 16, 16), dtype=torch.uint8), torch.arange(16) // 2
    paths = torch.stack([fine // 2, fine], dim=1)

    def step(images: Tensor) -> Tensor:
        value: Tensor = 2 * loss(network(images), paths)
        return value

    found = []
    for run in (step, torch.compile(step, backend="eager")):
        network.zero_grad()
        value = run(images)
        value.backward()
        found.append([value.detach(), *(parameter.grad for parameter in network.parameters())])
    assert all(map(torch.equal, *found))
    torch._dynamo.reset()
    assert torch._dynamo.explain(step)(images).graph_break_count == 1
    torch._dynamo.reset()
