"""Functions of a whole batch: their gradient, and the precision of their products."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd import Function

from hiertree.errors import OptionError
from hiertree.metrics.engine.device import float32_products


class OneBatch(Function):
    """A function of a whole batch."""

    def __init_subclass__(cls) -> None:
        forward: Any = cls.forward
        forward.__signature__ = inspect.signature(forward)  # torch reads it in each call, which takes 70 µs


def first_derivative(gradient: Tensor, anchor: Tensor) -> Tensor:
    """A gradient computed by hand, made to raise an error when it is differentiated again.

    Without it a gradient penalty would take the gradient for a constant, and silently have no effect. The anchor is a
    tensor with a graph that leads to the inputs of the forward pass.
    """
    if not torch.is_grad_enabled():  # no second derivative is asked for
        return gradient
    result: Tensor = _FirstDerivative.apply(gradient, anchor)
    return result


class _FirstDerivative(OneBatch):
    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, _anchor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(_ctx: Any, _upstream: Tensor) -> NoReturn:
        raise OptionError("a second derivative of a loss", expected="the first alone, without create_graph=True")


@contextmanager
def in_full_precision(device: torch.device) -> Iterator[None]:
    """Products in the type of their factors, whatever the program has set: τ needs more digits than others have."""
    with torch.autocast(device.type, enabled=False), float32_products(device):
        yield
