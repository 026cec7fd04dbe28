"""Gradients over two processes are those of one process on the concatenated batch."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import multiprocessing
from two_processes import SIZES, part_of_a_batch, setting

from hiertree.losses import all_gather


def test_two_processes_have_value_and_gradient_of_one(tmp_path: Path) -> None:
    multiprocessing.spawn(part_of_a_batch, args=(str(tmp_path),), nprocs=len(SIZES))
    network, loss, images, paths = setting()
    value = loss(network(images), paths)
    value.backward()
    expected = [value.detach(), *(parameter.grad for parameter in [*network.parameters(), *loss.parameters()])]
    for rank in range(len(SIZES)):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_one_process_gathers_its_own_batch() -> None:
    _, _, images, paths = setting()
    embeddings, gathered = all_gather(images, paths)
    assert torch.equal(embeddings, images)
    assert torch.equal(gathered, paths)
