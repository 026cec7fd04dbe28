"""Functions of a whole batch: how autograd, torch.func and autocast treat them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd import Function

from hiertree.errors import OptionError
from hiertree.metrics.engine.device import float32_products


class OneBatch(Function):
    """A function of a whole batch, whose queries and candidates are no dimension to map over."""

    def __init_subclass__(cls) -> None:
        forward: Any = cls.forward
        forward.__signature__ = inspect.signature(forward)  # torch reads it in each call, which takes 70 µs

    @staticmethod
    def vmap(_info: Any, _in_dims: Any, *_arguments: Any) -> NoReturn:
        """Refuse torch.func.vmap."""
        remedy = "loop over the batches; torch.func.grad of a loss works"
        raise OptionError("a loss under torch.func.vmap", expected="one batch a call", remedy=remedy)

    @staticmethod
    def jvp(_ctx: Any, *_tangents: Any) -> NoReturn:
        """Refuse forward-mode differentiation."""
        raise OptionError("a loss under torch.func.jvp", expected="reverse mode", remedy="use torch.func.grad")


class _Whole(OneBatch):
    @staticmethod
    def forward(*arguments: Any) -> Tensor:
        batch: Tensor = arguments[0]
        return batch.view_as(batch)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(_ctx: Any, upstream: Tensor) -> Tensor:
        return upstream


class _Plain(_Whole):
    @staticmethod
    def forward(*arguments: Any) -> Tensor:
        function, *operands = arguments
        result: Tensor = function(*operands)
        return result


def plain(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Call a function without a derivative: numpy cannot read the tensors that torch.func.grad wraps."""
    result: Tensor = _Plain.apply(function, *arguments) if _is_wrapped(torch.empty(0)) else function(*arguments)
    return result


def whole_batch(tensor: Tensor) -> Tensor:
    """The tensor, if it is one batch: under ``vmap`` the checks that follow would fail with misleading errors."""
    result: Tensor = _Whole.apply(tensor) if _is_wrapped(tensor) else tensor
    return result


def _is_wrapped(tensor: Tensor) -> bool:
    """Whether it belongs to a transform of torch.func; under ``grad``, each tensor that is made does."""
    return torch.func.debug_unwrap(tensor) is not tensor


def first_derivative(gradient: Tensor, anchor: Tensor) -> Tensor:
    """A gradient computed by hand, made to raise an error when it is differentiated again.

    Without it a gradient penalty would take the gradient for a constant, and silently have no effect. The anchor is a
    tensor with a graph that leads to the inputs of the forward pass.
    """
    if not torch.is_grad_enabled():  # no second derivative is asked for
        return gradient
    result: Tensor = _FirstDerivative.apply(gradient, anchor)
    return result


class _FirstDerivative(_Whole):
    @staticmethod
    def backward(_ctx: Any, _upstream: Tensor) -> NoReturn:
        raise OptionError("a second derivative of a loss", expected="the first alone, without create_graph=True")


@contextmanager
def keep_full_precision(device: torch.device) -> Iterator[None]:
    """Products in the type of their factors, whatever the program has set: τ needs more digits than others have."""
    with torch.autocast(device.type, enabled=False), float32_products(device):
        yield
