"""One training step as two processes take it, in a module that a process started anew can import."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, distributed, nn

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
