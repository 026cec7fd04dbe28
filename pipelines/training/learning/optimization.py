"""Parameter groups, the optimizer, and the learning rate as a pure function of the step.

A function has no state to save, so a run resumes at any step; torch's schedulers count their own steps, and warn when
the optimizer skips one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from ..network.embedder import Embedder
from ..recipe.settings import OptimizerSettings, ScheduleSettings


def parameter_groups(embedder: Embedder, loss: nn.Module, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Backbone, head and proxies (the loss's parameters, if any), each with its learning rate and weight decay."""
    groups = [
        ("backbone", list(embedder.backbone.parameters()), settings.lr, settings.weight_decay),
        ("head", embedder.head_parameters(), settings.head_lr or settings.lr, settings.weight_decay),
        ("proxies", list(loss.parameters()), settings.proxies_lr or settings.lr, 0.0),
    ]
    return [
        {"name": name, "params": parameters, "lr": lr, "base_lr": lr, "weight_decay": decay}
        for name, parameters, lr, decay in groups
        if parameters
    ]


def build_optimizer(embedder: Embedder, loss: nn.Module, settings: OptimizerSettings) -> Optimizer:
    """Build the optimizer that a recipe asks for, over all parameter groups."""
    groups = parameter_groups(embedder, loss, settings)
    if settings.name == "sgd":
        return SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.momentum > 0)
    return (Adam if settings.name == "adam" else AdamW)(groups, lr=settings.lr)


def learning_rate_factor(
    step: int,
    *,
    total: int,
    warmup: int,
    final: float = 0.0,
    name: str = "cosine",
    milestones: Sequence[int] = (),
    factor: float = 1.0,
) -> float:
    """Compute the factor of a step's learning rate.

    Args:
        step: 0 … total − 1.
        total: steps of the whole run.
        warmup: steps of the linear rise; its last step has factor 1.
        final: factor towards which the cosine falls.
        name: ``cosine``, ``step`` or ``constant``.
        milestones: steps at each of which ``step`` multiplies by ``factor`` once more.
        factor: of ``step``.

    >>> [round(learning_rate_factor(step, total=6, warmup=2, final=0.0), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    >>> stepped = {"name": "step", "milestones": [2, 4], "factor": 0.5}
    >>> [learning_rate_factor(step, total=6, warmup=0, **stepped) for step in range(6)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    if name == "step":
        return factor ** sum(step >= milestone for milestone in milestones)
    if name == "constant":
        return 1.0
    done = (step - warmup) / max(1, total - warmup)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * done))


def set_learning_rates(
    optimizer: Optimizer, settings: ScheduleSettings, *, step: int, total: int, steps_per_epoch: int
) -> None:
    """Set the learning rate of every parameter group for this step."""
    warmup = round(settings.warmup_epochs * steps_per_epoch)
    milestones = [round(epoch * steps_per_epoch) for epoch in settings.milestones]
    for group in optimizer.param_groups:
        own_final = settings.proxies_final if group["name"] == "proxies" else None
        final = settings.final if own_final is None else own_final
        group["lr"] = group["base_lr"] * learning_rate_factor(
            step,
            total=total,
            warmup=warmup,
            final=final,
            name=settings.name,
            milestones=milestones,
            factor=settings.factor,
        )
