"""Errors of a training step, with the settings that may mend them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hiertree.errors import DeviceError, RecipeError, TrainingError

from ..network.backbones import is_batch_norm

SMALLER_STEPS = (
    "lower sampler.batch_size or images.size, set training.precision=bf16-mixed, or keep the batch and set "
    "training.accumulate=two_pass with a small training.chunk_size; the last checkpoint is whole"
)


def finite_values(terms: Mapping[str, Tensor], loss: Tensor, step: int) -> dict[str, float]:
    """The loss of a step and its terms as numbers, unless some are not finite."""
    values = dict(zip(["loss", *terms], torch.stack([loss, *terms.values()]).tolist(), strict=True))
    require_finite(values, step)
    return values


def require_finite(values: Mapping[str, float], step: int) -> None:
    """Refuse values of a step that are not finite."""
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
    """Refuse to train BatchNorm chunk by chunk: its statistics would be those of chunks, each counted twice."""
    if any(map(is_batch_norm, network.modules())):
        raise RecipeError(
            "training.accumulate=two_pass with BatchNorm, whose statistics would be those of chunks",
            expected="a network that embeds each image independently of the others",
            remedy="set model.freeze_batch_norm=true",
        )


@contextmanager
def compiler_errors() -> Iterator[None]:
    """Turn an error of the compiler into one that says what to change."""
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        problem = " ".join(str(error).split("\n\n")[0].split())
        raise RecipeError(
            f"training.compile=true ({problem})",
            expected="a network that torch.compile supports, and a C++ compiler (on a GPU, Triton)",
            remedy="set training.compile=false",
        ) from error
