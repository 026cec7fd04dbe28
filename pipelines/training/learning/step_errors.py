"""Errors of a training step, with the settings that may mend them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import nn

from hiertree.errors import DeviceError, RecipeError, TrainingError

from ..network.backbones import is_batch_norm

SMALLER_STEPS = (
    "lower sampler.batch_size or images.size, set training.precision=bf16-mixed, or keep the batch and set "
    "training.accumulate=two_pass with a small training.chunk_size; the last checkpoint is whole"
)


def require_finite(values: Mapping[str, float], step: int) -> None:
    """Refuse values of a step that are not finite.

    Raises:
        TrainingError: some are not; the message names all values.
    """
    if not all(map(math.isfinite, values.values())):
        raise diverged(step, ", ".join(f"{name} = {value}" for name, value in values.items()))


def diverged(step: int, found: str) -> TrainingError:
    """The error of a step whose loss or gradient is not finite."""
    return TrainingError(
        f"step {step}: {found}",
        expected="finite numbers",
        remedy="lower optimizer.lr, set optimizer.clip_norm, use precision 32-true, or set training.on_nan=skip; the "
        "last checkpoint is whole",
    )


def out_of_memory(where: str, remedy: str) -> DeviceError:
    """The error of a full GPU."""
    return DeviceError(f"{where}: the GPU's memory is full", expected="a smaller load", remedy=remedy)


def require_no_batch_norm(network: nn.Module) -> None:
    """Refuse to train BatchNorm chunk by chunk: its statistics would be those of chunks, each counted twice.

    Raises:
        RecipeError: the network has BatchNorm.
    """
    if any(map(is_batch_norm, network.modules())):
        raise RecipeError(
            "training.accumulate=two_pass with BatchNorm, whose statistics would be those of chunks",
            expected="a network that embeds each image independently of the others",
            remedy="set model.freeze_batch_norm=true",
        )
