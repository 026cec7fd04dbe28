"""The loss, the optimizer with its learning rates, and the moving average of the weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.optim.swa_utils import AveragedModel

from hiertree.errors import OptionError, RecipeError, raised_as
from hiertree.losses import Loss

from ...networks.embedder import Embedder
from ..recipe.components import Component
from ..recipe.settings import AnySchedule, OptimizerSettings, Recipe, ScheduleSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

Paths: TypeAlias = "NDArray[np.integer[Any]]"
Tensors = tuple[Tensor, ...] | list[Tensor]
Made = TypeVar("Made", Optimizer, LRScheduler)


class OwnLoss(Loss):
    """A module or function of one's own, ``loss(embeddings, paths)``, as a loss of one term."""

    is_mean_over_queries = False  # as far as is known

    def __init__(self, compute: Callable[[Tensor, Tensor], Any], *, name: str) -> None:
        super().__init__()
        self.compute, self.weights = compute, {name: 1.0}

    def terms(
        self, embeddings: Any, paths: Any, ref_embeddings: Any = None, ref_paths: Any = None, *, valid: Any = None
    ) -> dict[str, Tensor]:
        """The one term; no references and no mask."""
        if ref_embeddings is not None or ref_paths is not None or valid is not None:
            raise OptionError("reference embeddings or a mask with a custom loss", expected="neither")
        (name,) = self.weights
        value = self.compute(embeddings, paths.to(embeddings.device))
        if not isinstance(value, Tensor) or value.ndim or not value.is_floating_point():
            result = f"a tensor {tuple(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else repr(value)
            raise RecipeError(f"loss: {name} returns {result}", expected="one floating number, as a tensor")
        return {name: value}


def build_loss(recipe: Recipe, *, class_paths: Paths, embedding_size: int) -> Loss:
    """Build the loss that a recipe asks for, with the sizes that follow from the (C, L) paths of its classes."""
    try:
        return _built(recipe.loss, class_paths, embedding_size)
    except OptionError as error:
        raise error.naming("loss", RecipeError) from error


def _built(component: Component, class_paths: Paths, embedding_size: int) -> Loss:
    """Build a loss, and before it the losses that it wraps, or functions that build them for flat classes."""
    level_sizes = tuple((class_paths.max(axis=0) + 1).tolist())
    arguments: dict[str, Any] = {"num_classes": level_sizes[-1], "num_levels": class_paths.shape[1]}
    whole_paths = class_paths[class_paths[:, -1] >= 0]  # of known classes
    arguments |= {"level_sizes": level_sizes, "embedding_size": embedding_size, "class_paths": whole_paths}
    for name, value in component.options().items():
        if isinstance(value, Component) and component.makes(name):
            arguments[name] = partial(_built_for_flat_classes, value, embedding_size)
        elif isinstance(value, Component):
            arguments[name] = _built(value, class_paths, embedding_size)
    loss = component.build(**arguments)
    if isinstance(loss, Loss):
        return loss
    if not callable(loss):
        raise RecipeError(f"loss: {component.name} makes {loss!r}", expected="a torch.nn.Module or a function")
    return OwnLoss(loss, name=component.name.rpartition(":")[2])


def _built_for_flat_classes(component: Component, embedding_size: int, num_classes: int) -> Loss:
    return _built(component, np.arange(num_classes)[:, None], embedding_size)


def parameter_groups(embedder: Embedder, loss: nn.Module, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Backbone, head, projection of texts and proxies (the loss's parameters), if any, each with its learning rate."""
    groups = [
        ("backbone", list(embedder.backbone.parameters()), settings.lr, settings.weight_decay),
        ("head", embedder.head_parameters(), settings.head_lr or settings.lr, settings.weight_decay),
        ("texts", list(embedder.text_projection.parameters()), settings.texts_lr or settings.lr, settings.weight_decay),
        ("proxies", list(loss.parameters()), settings.proxies_lr or settings.lr, settings.proxies_weight_decay),
    ]
    return [dict(zip(("name", "params", "lr", "weight_decay"), group, strict=True)) for group in groups if group[1]]


def build_optimizer(embedder: Embedder, loss: nn.Module, settings: OptimizerSettings) -> Optimizer:
    """Build the optimizer that a recipe asks for, over all parameter groups."""
    return _build(Optimizer, settings, parameter_groups(embedder, loss, settings), lr=settings.lr)


def _build(kind: type[Made], settings: Component, *arguments: Any, **options: Any) -> Made:
    """Build an optimizer or a schedule; its own complaints become errors of the recipe."""
    with raised_as(RecipeError, settings.name, expected="options that it accepts", on=(TypeError, ValueError)):
        result = settings.build(*arguments, **options)
    if not isinstance(result, kind):
        raise RecipeError(f"{settings.name} makes {result!r}", expected=f"a torch {kind.__name__}")
    return result


class Schedule:
    """The learning rates of an optimizer step by step: at rest, rising, then those of a schedule of torch.

    They depend on the number of the step alone, so a resumed run has the rates of one that was not interrupted.
    """

    def __init__(self, optimizer: Optimizer, settings: AnySchedule, *, total: int, steps_per_epoch: int) -> None:
        self._optimizer = optimizer
        self._held = round(settings.hold_epochs * steps_per_epoch)
        self._warmup = round(settings.warmup_epochs * steps_per_epoch)
        self._unit = steps_per_epoch if getattr(settings, "unit", "step") == "epoch" else 1
        if isinstance(settings, ScheduleSettings):
            steps = {"total": total, "warmup": self._warmup, "steps_per_epoch": steps_per_epoch}
            self._scheduler: LRScheduler = LambdaLR(optimizer, _factors(optimizer, settings, **steps))
        else:
            units = max(1, math.ceil((total - self._warmup) / self._unit))
            self._scheduler = _build(LRScheduler, settings, optimizer, total_steps=units)
        self._first = [group["lr"] for group in optimizer.param_groups]

    def set(self, step: int) -> None:
        """Set the learning rate of every parameter group for this step; steps never go back."""
        position = max(0, step - self._held)
        due = max(0, position - self._warmup) // self._unit
        if due == 0:
            factor = min(1.0, (position + 1) / self._warmup) if self._warmup else 1.0
            for group, rate in zip(self._optimizer.param_groups, self._first, strict=True):
                group["lr"] = rate * factor
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*lr_scheduler.step", category=UserWarning)  # of resumed runs
            while self._scheduler.last_epoch < due:
                self._scheduler.step()


def _factors(
    optimizer: Optimizer, settings: ScheduleSettings, *, total: int, warmup: int, steps_per_epoch: int
) -> list[Callable[[int], float]]:
    """The factor of each parameter group, by the number of steps since the warm-up."""
    milestones = [round(epoch * steps_per_epoch) - warmup for epoch in settings.milestones]

    def cosine(final: float, step: int) -> float:
        return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * step / max(1, total - warmup)))

    def steps(_final: float, step: int) -> float:
        return float(settings.factor ** sum(step >= milestone for milestone in milestones))

    compute = {"cosine": cosine, "step": steps, "constant": lambda _final, _step: 1.0}[settings.name]
    group_finals = {"head": settings.head_final, "proxies": settings.proxies_final}
    finals = [group_finals.get(group["name"]) for group in optimizer.param_groups]
    return [partial(compute, settings.final if final is None else final) for final in finals]


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
