"""Where blocks are multiplied: by numpy, or by torch on a device of the user's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Multiplier:
    """Products of two blocks of vectors, in full precision: on a GPU without tf32.

    Args:
        device: a torch device such as ``"cuda"``, or None for numpy.

    Raises:
        DeviceError: torch is not installed, or has no such device.
    """

    def __init__(self, device: str | None) -> None:
        self._device = None if device is None else _available(device)

    def hold(self, items: NDArray[Any]) -> Any:
        """The items where they are multiplied."""
        if self._device is None:
            return items
        import torch

        return torch.from_numpy(items).to(self._device)

    def multiply(self, queries: NDArray[Any], items: Any, scores: NDArray[Any]) -> None:
        """Write queries × itemsᵀ, the items as :meth:`hold` gave them."""
        if self._device is None:
            np.matmul(queries, items.T, out=scores)
            return
        import torch

        allowed = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        try:
            torch.from_numpy(scores).copy_(torch.from_numpy(queries).to(self._device) @ items.T)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed


def _available(device: str) -> Any:
    """The torch device of that name, once a number has been put there."""
    try:
        import torch
    except ImportError as error:
        raise DeviceError(f"device={device!r}", expected="torch, which is not installed") from error
    try:
        return torch.zeros(1, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        remedy = "leave device out to use the processor"
        raise DeviceError(f"device={device!r}", expected="a device that torch finds here", remedy=remedy) from error
