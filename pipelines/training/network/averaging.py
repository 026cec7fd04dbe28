"""The exponential moving average of a network's weights over the training steps."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

Tensors = tuple[Tensor, ...] | list[Tensor]


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    r"""Make a copy of a network that averages the original's weights at each ``update_parameters``.

    .. math:: \bar{w}_1 = w_1, \quad \bar{w}_t = d \, \bar{w}_{t-1} + (1 - d) \, w_t

    BatchNorm's running means and variances are averaged too, since the original's last ones belong to other weights;
    its batch counts are copied.

    Args:
        network: the original.
        decay: d, between 0 and 1.

    >>> import torch
    >>> network = nn.Linear(1, 1, bias=False)
    >>> average = moving_average(network, decay=0.75)
    >>> for weight in (1.0, 5.0, 4.0):
    ...     _ = nn.init.constant_(network.weight, weight)
    ...     average.update_parameters(network)
    >>> average.module.weight.item()
    2.5
    """
    device = next(network.parameters()).device
    average = AveragedModel(network, device, multi_avg_fn=_follow(decay), use_buffers=True)
    return average.requires_grad_(False)


def _follow(decay: float) -> Callable[[Tensors, Tensors, Tensor | int], None]:
    """The update of the averages by one step's values."""

    def follow(averages: Tensors, values: Tensors, _: Tensor | int) -> None:
        for average, value in zip(averages, values, strict=True):
            if average.is_floating_point():
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(value)

    return follow
