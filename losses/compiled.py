"""A loss as one operator of torch, which torch.compile takes into its graph whole and leaves as it is.

Operators take tensors and numbers but no objects, and torch has no public way around that. A loss therefore goes in as
its ``id``, on which Dynamo guards, and is found again among the losses that are alive.
"""

from __future__ import annotations

from functools import reduce
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.library import custom_op

from hiertree.errors import OptionError

from .pairs.inputs import check_references
from .pairs.one_batch import first_derivative

_alive: WeakValueDictionary[int, nn.Module] = WeakValueDictionary()
_disable: Any = torch.compiler.disable  # torch has no type for it
_TAGS = (torch.Tag.nondeterministic_seeded, torch.Tag.cudagraph_unsafe)  # a loss may draw, and looks at its inputs


def announce(loss: nn.Module) -> None:
    """Let the operator find this loss."""
    _alive[id(loss)] = loss


def evaluated_whole(
    loss: nn.Module, embeddings: Any, paths: Any, ref_embeddings: Any, ref_paths: Any, *, valid: Any
) -> Tensor:
    """The value of a loss, for the compiler to trace; arguments other than tensors and arrays break its graph."""
    if not torch.compiler.is_dynamo_compiling() and torch.compiler.is_exporting():  # in Dynamo of torch 2.10 always so
        raise OptionError("a loss under torch.export", expected="the network alone, without its loss")
    within_batch = ref_embeddings is embeddings
    vectors = [each for each in (embeddings, ref_embeddings) if each is not None][: 1 if within_batch else 2]
    others = paths, ref_paths, valid
    if not all(isinstance(each, Tensor | np.ndarray) for each in (*vectors, *others) if each is not None):
        broken: Tensor = _disable(_Total(loss))(embeddings, paths, ref_embeddings, ref_paths, valid=valid)
        return broken
    floats = [*map(torch.as_tensor, vectors), *loss.parameters()]
    dtype = reduce(torch.promote_types, (each.dtype for each in floats[: len(vectors)]), torch.float32)
    wanted = [torch.is_grad_enabled() and each.requires_grad for each in floats]
    given = [None if each is None else torch.as_tensor(each) for each in others]
    value: Tensor = _evaluate(id(loss), floats, wanted, dtype, *given, within_batch)[0]
    return value


class _Total(nn.Module):
    """The value of a loss whose parameters can be replaced, without the hooks of its call."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, *batch: Any, valid: Any) -> Tensor:
        """The weighted sum of the terms."""
        loss: Any = self.loss
        value: Tensor = loss.total(loss.terms(*batch, valid=valid))
        return value


@custom_op("hiertree::loss", mutates_args=(), tags=_TAGS)
def _evaluate(
    loss: int,
    floats: list[Tensor],
    wanted: list[bool],
    dtype: torch.dtype,
    paths: Tensor,
    ref_paths: Tensor | None,
    valid: Tensor | None,
    within_batch: bool,
) -> list[Tensor]:
    """The value, and its gradients by those of embeddings, references and parameters that are wanted."""
    total = _Total(_alive[loss])
    parameters = dict(total.named_parameters())
    differentiates = any(wanted)
    reached: Any = torch._C._SetExcludeDispatchKeyGuard  # an operator is below autograd, and no public way leads back
    autograd = reached(torch._C.DispatchKey.AutogradFunctionality, not differentiates)
    with autograd, torch.set_grad_enabled(differentiates):
        given = [each.detach().requires_grad_() if needs else each for each, needs in zip(floats, wanted, strict=True)]
        own, *refs = vectors = given[: len(given) - len(parameters)]
        references = own if within_batch else refs[0] if refs else None
        check_references(references, ref_paths)
        by_name = zip(parameters.items(), given[len(vectors) :], strict=True)
        others = {name: each for (name, kept), each in by_name if each.data_ptr() != kept.data_ptr()}
        value = functional_call(total, others, (own, paths, references, ref_paths), {"valid": valid})
        differentiable = zip((*vectors, *{**parameters, **others}.values()), wanted, strict=True)
        sources = [each for each, needs in differentiable if needs]
        gradients = torch.autograd.grad(value, sources, materialize_grads=True) if sources else ()
    return [value.detach().to(dtype), *(each.clone(memory_format=torch.contiguous_format) for each in gradients)]


@_evaluate.register_fake
def _(_loss: int, floats: list[Tensor], wanted: list[bool], dtype: torch.dtype, *_: Any) -> list[Tensor]:
    sources = (each for each, needs in zip(floats, wanted, strict=True) if needs)
    gradients = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in sources]
    return [floats[0].new_empty((), dtype=dtype), *gradients]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    ctx.wanted = inputs[2]
    ctx.save_for_backward(inputs[1][0], *output[1:])


def _backward(ctx: Any, upstream: list[Tensor]) -> tuple[Any, ...]:
    anchor, *gradients = ctx.saved_tensors
    left = iter(gradients)
    by_floats = [first_derivative(next(left) * upstream[0], anchor) if needs else None for needs in ctx.wanted]
    return None, by_floats, *[None] * 6


torch.fx.node.has_side_effect(torch.ops.hiertree.loss.default)  # fills memories, refuses rows: is computed if unused
_evaluate.register_autograd(_backward, setup_context=_keep)
