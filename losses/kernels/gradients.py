"""Gradients that were computed by hand, and cannot be differentiated again."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from hiertree.errors import OptionError


def first_derivative(gradient: Tensor, anchor: Tensor) -> Tensor:
    """The gradient, made to raise an error when it is differentiated.

    Without it a gradient penalty would take the gradient for a constant, and silently have no effect.

    Args:
        gradient: what a backward pass computed.
        anchor: a tensor with a graph that leads to the inputs of the forward pass.
    """
    if not torch.is_grad_enabled():  # no second derivative is asked for
        return gradient
    result: Tensor = _FirstDerivative.apply(gradient, anchor)
    return result


class _FirstDerivative(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, _anchor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(_ctx: Any, _upstream: Tensor) -> NoReturn:
        raise OptionError("a second derivative of a loss", expected="the first alone, without create_graph=True")
