"""Batches whose activations do not fit into memory: embed twice, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hiertree.errors import OptionError

from ..base import Loss, check_loss


def large_batch_backward(
    embed: Callable[[Any], Tensor],
    chunks: Sequence[Any],
    paths: Any,
    loss: Loss,
    *,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
) -> dict[str, Tensor]:
    """Backpropagate the loss of a large batch with the activations of one chunk in memory at a time.

    First pass: every chunk is embedded without a graph. The loss of all embeddings gives its gradient with respect to
    each of them (and to its own parameters). Second pass: every chunk is embedded again, with a graph, and
    backpropagates its part. Gradients are those of one big batch as long as an image's embedding depends on no other
    image: batch normalization must be frozen (it would see chunks, and update its statistics twice). Dropout is the
    same in both passes: the states of torch's generators are restored for each chunk.

    Args:
        embed: makes the (b, d) embeddings of a chunk.
        chunks: what ``embed`` takes; together they are the batch.
        paths: (B, L) of all chunks, in their order.
        loss: the loss of the batch.
        backward: called with the loss instead of ``loss.backward()``, for example to scale it for mixed precision.

    Returns:
        The terms of the loss, without a graph.

    >>> layer = torch.nn.Linear(2, 3)
    >>> images, labels = torch.randn(6, 2), torch.tensor([0, 0, 1, 1, 2, 2])
    >>> from hiertree.losses import SupAP
    >>> sorted(large_batch_backward(layer, images.split(2), labels, SupAP()))
    ['SupAP']
    >>> layer.weight.grad.shape
    torch.Size([3, 2])
    """
    check_loss(loss)
    if len(chunks) == 0:
        raise OptionError("chunks=()", expected="at least one chunk of the batch")
    states, embedded = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append((torch.get_rng_state(), torch.cuda.get_rng_state_all()))
            embedded.append(embed(chunk).detach())
    embeddings = torch.cat(embedded).requires_grad_()
    terms = loss.terms(embeddings, paths)
    backward(loss.total(terms))
    gradient = torch.zeros_like(embeddings) if embeddings.grad is None else embeddings.grad
    sizes = [len(part) for part in embedded]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        for chunk, (state, of_gpus), part in zip(chunks, states, torch.split(gradient, sizes), strict=True):
            torch.set_rng_state(state)
            torch.cuda.set_rng_state_all(of_gpus)
            torch.autograd.backward([embed(chunk)], [part])
    return {name: value.detach() for name, value in terms.items()}
