"""Loss, BatchNorm and randomness when several processes share a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from hiertree.errors import DeviceError
from hiertree.losses import DistributedLoss, Loss

from .processes import Processes


def loss_of_whole_batch(loss: Loss, processes: Processes) -> Loss:
    """Make a loss cover the batches of all processes.

    Each process ranks its own queries if the loss is a mean over queries, otherwise all of them.
    """
    if processes.size == 1:
        return loss
    divisible = all(part.is_mean_over_queries for part in loss.modules() if isinstance(part, Loss))
    return DistributedLoss(loss, queries="own" if divisible else "all")


def synchronized_batch_norm(network: nn.Module, processes: Processes, device: torch.device) -> nn.Module:
    """Make BatchNorm normalize over the whole batch of several processes.

    Raises:
        DeviceError: the processes run on CPUs, where torch does not support this.
    """
    if processes.size == 1:
        return network
    if device.type != "cuda":
        raise DeviceError(
            f"model.sync_batch_norm=true with {processes.size} processes on a CPU",
            expected="GPUs",
            remedy="set model.freeze_batch_norm=true, or training.devices=1",
        )
    from timm.layers.norm_act import convert_sync_batchnorm

    convert: Callable[[nn.Module], nn.Module] = convert_sync_batchnorm  # also handles timm's fused norm-activation
    return convert(network)


def seed_torch(*numbers: int) -> None:
    """Seed torch's generators from several numbers."""
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))


@contextmanager
def randomness_by_rank(processes: Processes, device: torch.device, *numbers: int) -> Iterator[None]:
    """A block in which each of several processes draws from its own seed: the numbers and its rank.

    After the block all processes draw the same again, as if nothing had been drawn inside.
    """
    if processes.size == 1:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        seed_torch(*numbers, processes.rank)
        yield
