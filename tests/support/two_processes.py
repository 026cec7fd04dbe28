"""One training step as two processes take it, in a module that a process started anew can import."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, distributed, nn

from hiertree.losses import (
    CSL,
    DTSH,
    HAPPIER,
    ROADMAP,
    BlackboxAP,
    CrossBatchMemory,
    DistributedLoss,
    FastAP,
    HashNet,
    LevelSum,
    Loss,
    PairDecomposability,
    SmoothRecall,
    SupAP,
    TieAwareNDCG,
    all_gather,
)

SIZES = (9, 5)  # unequal on purpose
CLASS_PATHS = torch.stack([torch.arange(6) // 2, torch.arange(6)], dim=1)


def losses() -> dict[str, Loss]:
    """Losses that can be divided among processes."""
    torch.manual_seed(1)
    return {
        "HAPPIER": HAPPIER(6, 3).double(),
        "HAPPIER, itself a candidate": HAPPIER(6, 3, include_self=True).double(),
        "ROADMAP": ROADMAP(),
        "CSL": CSL(CLASS_PATHS, 3).double(),
        "a sum over levels": LevelSum(lambda _: SupAP(), (3, 6)),
        "FastAP": FastAP(),
        "SmoothRecall": SmoothRecall(),
        "TieAwareNDCG": TieAwareNDCG(),
        "DTSH": DTSH(),
    }


def undivided() -> dict[str, Loss]:
    """Losses that every process computes whole."""
    return {
        "a mean over pairs": PairDecomposability(reduction="avg_nonzero"),
        "BlackboxAP": BlackboxAP(margin=0.0),
        "HashNet": HashNet(),
        "a memory": CrossBatchMemory(SupAP(), 3, 2).double(),
    }


def setting() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    fine = torch.randint(0, 6, (sum(SIZES),))
    fine[: SIZES[0]] %= 5
    fine[-1] = 5  # the only one: a query without a positive, in one process
    return nn.Linear(4, 3).double(), torch.randn(sum(SIZES), 4, dtype=torch.float64), CLASS_PATHS[fine]


def step(network: nn.Module, loss: Loss, value: Tensor) -> list[Tensor]:
    """The value, and the gradient of every parameter."""
    parameters = [*network.parameters(), *loss.parameters()]
    return [value.detach(), *torch.autograd.grad(value, parameters)]


def part_of_a_batch(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=len(SIZES))
    network, images, paths = setting()
    rows = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
    steps = {}
    for name, loss in losses().items():
        steps[f"{name}, gathered"] = step(network, loss, loss(*all_gather(network(images[rows]), paths[rows])))
        shared_loss = DistributedLoss(loss)
        steps[f"{name}, own"] = step(network, shared_loss, shared_loss(network(images[rows]), paths[rows]))
    for name, loss in undivided().items():
        gathered_loss = DistributedLoss(loss, queries="all")
        steps[f"{name}, all"] = step(network, gathered_loss, gathered_loss(network(images[rows]), paths[rows]))
    for _, *gradients in steps.values():
        for gradient in gradients:
            distributed.all_reduce(gradient)
            gradient /= len(SIZES)  # as DistributedDataParallel averages
    torch.save(steps, Path(folder, f"{rank}.pt"))
    distributed.destroy_process_group()
