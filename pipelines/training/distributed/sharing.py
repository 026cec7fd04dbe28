"""What becomes of network, loss and chance when several processes share a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from hiertree.errors import DeviceError
from hiertree.losses import DistributedLoss, Loss

from ..network.embedder import Embedder
from .processes import Processes


def loss_of_whole_batch(loss: Loss, processes: Processes) -> Loss:
    """The loss of what all processes have: each ranks its own queries if the loss is a mean over them, else all."""
    if processes.size == 1:
        return loss
    divisible = all(part.is_mean_over_queries for part in loss.modules() if isinstance(part, Loss))
    return DistributedLoss(loss, queries="own" if divisible else "all")


def synchronise_batch_norm(embedder: Embedder, processes: Processes, device: torch.device) -> None:
    """Let BatchNorm normalise over the whole batch where the recipe asks for it and several processes share one.

    Raises:
        DeviceError: torch can do that on GPUs only.
    """
    if processes.size == 1 or not embedder.settings.sync_batch_norm:
        return
    if device.type != "cuda":
        raise DeviceError(
            f"model.sync_batch_norm=true with {processes.size} processes on a CPU",
            expected="GPUs",
            remedy="set model.freeze_batch_norm=true, or training.devices=1",
        )
    from timm.layers.norm_act import convert_sync_batchnorm

    convert: Callable[[nn.Module], nn.Module] = convert_sync_batchnorm  # knows timm's, which have activations inside
    embedder.backbone = convert(embedder.backbone)


def seed_torch(*numbers: int) -> None:
    """Let torch's generators follow from these numbers."""
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))


@contextmanager
def own_draws(processes: Processes, device: torch.device, *numbers: int) -> Iterator[None]:
    """A block in which each of several processes draws what follows from the numbers and its rank.

    What is drawn after it is drawn alike in all of them, as if nothing had been drawn inside.
    """
    if processes.size == 1:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        seed_torch(*numbers, processes.rank)
        yield
