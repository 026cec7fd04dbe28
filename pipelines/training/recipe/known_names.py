"""The components that a recipe may name: of hiertree, torch and torchvision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import isclass, signature
from typing import Any, TypeAlias

Named: TypeAlias = Mapping[str, Callable[..., Any]]


def loaders() -> Named:
    """Benchmarks and the user's own images."""
    from hiertree.datasets.registry import LOADERS

    return LOADERS


@cache
def samplers() -> Named:
    """Batch samplers of hiertree."""
    from hiertree import samplers

    members = {name: getattr(samplers, name) for name in samplers.__all__}
    return {name: member for name, member in members.items() if "paths" in signature(member).parameters}


@cache
def losses() -> Named:
    """Losses of hiertree."""
    from hiertree import losses

    members = {name: getattr(losses, name) for name in losses.__all__ if name != "Loss"}
    return {name: member for name, member in members.items() if isclass(member) and issubclass(member, losses.Loss)}


@cache
def transforms() -> Named:
    """Transforms of torchvision."""
    from torchvision.transforms import v2

    members = {name: getattr(v2, name) for name in dir(v2)}
    return {name: member for name, member in members.items() if isclass(member) and issubclass(member, v2.Transform)}


@cache
def optimizers() -> Named:
    """Optimizers of torch, in lower case."""
    from torch import optim

    unusual = ("Optimizer", "LBFGS", "SparseAdam", "Muon")  # the base; a closure, sparse gradients, matrices needed
    members = {name.lower(): getattr(optim, name) for name in dir(optim) if name not in unusual}
    return {name: member for name, member in members.items() if isclass(member)} | {"sgd": sgd}


def sgd(params: Any, lr: float, momentum: float = 0.9, dampening: float = 0.0, nesterov: bool | None = None) -> object:
    """The optimizer of torch; ``nesterov`` None means where there is momentum without dampening."""
    from torch.optim import SGD

    is_nesterov = momentum > 0 and not dampening if nesterov is None else nesterov
    return SGD(params, lr=lr, momentum=momentum, dampening=dampening, nesterov=is_nesterov)


@cache
def schedules() -> Named:
    """Schedules of torch that numbers describe."""
    from torch.optim import lr_scheduler

    unusual = ("LambdaLR", "MultiplicativeLR", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau", "LRScheduler")
    return {name: getattr(lr_scheduler, name) for name in lr_scheduler.__all__ if name not in unusual}
