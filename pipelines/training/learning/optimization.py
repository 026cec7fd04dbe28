"""The loss, the optimizer with its learning rates, and the moving average of the weights."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.swa_utils import AveragedModel

from hiertree.errors import OptionError, RecipeError

from ..network.embedder import Embedder
from ..recipe.components import Component, makes, takes, target
from ..recipe.schema import Recipe
from ..recipe.settings import OptimizerSettings, ScheduleSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hiertree.losses import Loss

Paths: TypeAlias = "NDArray[np.integer[Any]]"
Tensors = tuple[Tensor, ...] | list[Tensor]


def build_loss(recipe: Recipe, *, class_paths: Paths) -> Loss:
    """Build the loss that a recipe asks for, with the sizes that follow from the (C, L) paths of its classes."""
    if recipe.model.embedding_size is None:
        raise RecipeError("model.embedding_size=null, to be trained", expected="the dimensions of an embedding")
    try:
        return _built(recipe.loss, class_paths, recipe.model.embedding_size)
    except OptionError as error:
        raise RecipeError(f"loss: {error.given}", expected=error.expected, remedy=error.remedy) from error


def _built(component: Component, class_paths: Paths, embedding_size: int) -> Loss:
    """Build a loss, and before it the losses that it wraps, or functions that build them for flat classes."""
    level_sizes = tuple((class_paths.max(axis=0) + 1).tolist())
    sizes = {"num_classes": level_sizes[-1], "num_levels": class_paths.shape[1], "level_sizes": level_sizes}
    derived = {**sizes, "embedding_size": embedding_size, "class_paths": class_paths}
    options = {name: value for name, value in derived.items() if takes("loss", component.name, name)}
    for name, value in component.options().items():
        if not isinstance(value, Component):
            options[name] = value
        elif makes("loss", component.name, name):
            options[name] = partial(_built_for_flat_classes, value, embedding_size)
        else:
            options[name] = _built(value, class_paths, embedding_size)
    loss: Loss = target("loss", component.name)(**options)
    return loss


def _built_for_flat_classes(component: Component, embedding_size: int, num_classes: int) -> Loss:
    return _built(component, np.arange(num_classes)[:, None], embedding_size)


def parameter_groups(embedder: Embedder, loss: nn.Module, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Backbone, head and proxies (the loss's parameters, if any), each with its learning rate and weight decay."""
    groups = [
        ("backbone", list(embedder.backbone.parameters()), settings.lr, settings.weight_decay),
        ("head", embedder.head_parameters(), settings.head_lr or settings.lr, settings.weight_decay),
        ("proxies", list(loss.parameters()), settings.proxies_lr or settings.lr, settings.proxies_weight_decay),
    ]
    keys = ("name", "params", "lr", "weight_decay", "base_lr")
    return [dict(zip(keys, (*group, group[2]), strict=True)) for group in groups if group[1]]


def build_optimizer(embedder: Embedder, loss: nn.Module, settings: OptimizerSettings) -> Optimizer:
    """Build the optimizer that a recipe asks for, over all parameter groups."""
    groups = parameter_groups(embedder, loss, settings)
    if settings.name == "sgd":
        return SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.momentum > 0)
    return (Adam if settings.name == "adam" else AdamW)(groups, lr=settings.lr)


def learning_rate_factor(settings: ScheduleSettings, step: int, *, total: int, steps_per_epoch: int) -> float:
    """Compute the factor of the learning rate of step 0 … total − 1; the last step of the warm-up has factor 1."""
    warmup = round(settings.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return (step + 1) / warmup
    if settings.name == "step":
        return float(settings.factor ** sum(step >= round(epoch * steps_per_epoch) for epoch in settings.milestones))
    if settings.name == "constant":
        return 1.0
    done = (step - warmup) / max(1, total - warmup)
    return settings.final + (1.0 - settings.final) * 0.5 * (1.0 + math.cos(math.pi * done))


def set_learning_rates(
    optimizer: Optimizer, settings: ScheduleSettings, *, step: int, total: int, steps_per_epoch: int
) -> None:
    """Set the learning rate of every parameter group for this step."""
    step = max(0, step - round(settings.hold_epochs * steps_per_epoch))
    final = settings.final if settings.proxies_final is None else settings.proxies_final
    of_proxies = settings.model_copy(update={"final": final})
    for group in optimizer.param_groups:
        own = of_proxies if group["name"] == "proxies" else settings
        group["lr"] = group["base_lr"] * learning_rate_factor(own, step, total=total, steps_per_epoch=steps_per_epoch)


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    r"""Copy a network as the average of its weights: :math:`\bar{w}_t = d \, \bar{w}_{t-1} + (1 - d) \, w_t`.

    BatchNorm's running statistics are averaged too, as the original's belong to other weights; its counts are copied.
    """

    def follow(averages: Tensors, values: Tensors, _: Tensor | int) -> None:
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point():
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(value)

    device = next(network.parameters()).device
    return AveragedModel(network, device, multi_avg_fn=follow, use_buffers=True).requires_grad_(False)
