"""Gradients over two processes are those of one process on the concatenated batch."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn

from hiertree.losses import HAPPIER, Loss, all_gather

SIZES = (9, 5)  # unequal on purpose


def setting() -> tuple[nn.Module, Loss, Tensor, Tensor]:
    torch.manual_seed(0)
    network, loss = nn.Linear(4, 3).double(), HAPPIER(6, 3).double()
    fine = torch.randint(0, 6, (sum(SIZES),))
    return network, loss, torch.randn(sum(SIZES), 4, dtype=torch.float64), torch.stack([fine // 2, fine], dim=1)


def part_of_a_batch(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=len(SIZES))
    network, loss, images, paths = setting()
    mine = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
    value = loss(*all_gather(network(images[mine]), paths[mine]))
    value.backward()
    for parameter in [*network.parameters(), *loss.parameters()]:
        distributed.all_reduce(parameter.grad)
        parameter.grad /= len(SIZES)  # as DistributedDataParallel averages
    gradients = [parameter.grad for parameter in [*network.parameters(), *loss.parameters()]]
    torch.save([value.detach(), *gradients], Path(folder, f"{rank}.pt"))
    distributed.destroy_process_group()


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
