"""A device of torch, as what multiplies blocks of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from hiertree.errors import DeviceError

if TYPE_CHECKING:
    from hiertree.jit import Array

_GALLERY_BYTES, _BLOCK_BYTES = 2**29, 2**28  # where memory is shared with everything else
_BLOCK_BYTES_OF_A_GPU = 2**31
_LARGEST_INTEGER = 2**24  # that a float32 holds with no rounding
_WITH_FLOAT64 = ("cpu", "cuda")


class Device:
    """A torch device that multiplies blocks of vectors, in the precision of the vectors.

    A gallery of up to ``gallery_bytes`` is kept there, on a GPU a half of what is free, and ``block_bytes`` are for the
    positives of a product. Products of integers up to ``largest_integer`` are exact.
    """

    def __init__(self, name: str) -> None:
        try:
            self.where = torch.zeros(1, device=name).device
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
            remedy = "leave device out to use the processor"
            raise DeviceError(f"device={name!r}", expected="a device that torch finds here", remedy=remedy) from error
        self.largest_integer = _LARGEST_INTEGER if self.where.type in _WITH_FLOAT64 else 0
        self.gallery_bytes, self.block_bytes = _GALLERY_BYTES, _BLOCK_BYTES
        if self.where.type == "cuda":
            self.gallery_bytes, self.block_bytes = torch.cuda.mem_get_info(self.where)[0] // 2, _BLOCK_BYTES_OF_A_GPU

    def send(self, values: Array) -> torch.Tensor:
        """An array there, as it is."""
        return sent(values, self.where)

    def send_all(self, blocks: Iterable[Array], shape: tuple[int, int], dtype: np.dtype[np.generic]) -> torch.Tensor:
        """Vectors that come block by block, there."""
        dtype_there = torch.from_numpy(np.empty(0, dtype)).dtype
        vectors, start = torch.empty(shape, dtype=dtype_there, device=self.where), 0
        for block in blocks:
            vectors[start : start + len(block)] = self.send(block)
            start += len(block)
        return vectors

    def multiply(self, queries: torch.Tensor, items: torch.Tensor, *, exact: bool = False) -> torch.Tensor:
        """Queries × itemsᵀ, in float32 or float64, or the squared cosines of small integers with their signs."""
        products = queries @ items.T
        if not exact:
            return products
        norms = [vectors.double().square().sum(dim=1) for vectors in (queries, items)]
        signed = products.double() * products.double().abs()
        return (signed / (norms[0][:, None] * norms[1])).to(products.dtype)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A block whose products there are those of full precision, whatever contexts and settings the caller has.

        Tensors are ordinary ones, without gradients and autocasting: these contexts are those of the thread.
        """
        autocast = torch.autocast(self.where.type, enabled=False)
        with torch.inference_mode(mode=False), torch.no_grad(), autocast, float32_products(self.where):
            yield


def sent(values: Array, device: torch.device) -> torch.Tensor:
    """An array on a device, without waiting for what is done there; Apple's might read what has been freed."""
    return torch.from_numpy(values).to(device, non_blocking=device.type != "mps")


@contextmanager
def float32_products(device: torch.device, precision: Literal["ieee", "tf32"] = "ieee") -> Iterator[None]:
    """Products of float32 there in this precision, whatever the program has set, and that again afterwards.

    The setting is one for all threads: where it is already as it should be, as on a thread of a block, it is left.
    """
    backend: Any = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    previous_precision = backend.matmul.fp32_precision
    if previous_precision == precision or (previous_precision, precision) == ("none", "ieee"):
        yield
        return
    backend.matmul.fp32_precision = precision
    try:
        yield
    finally:
        backend.matmul.fp32_precision = previous_precision


@contextmanager
def single_threaded(device: torch.device) -> Iterator[None]:
    """On the processor, torch computes in the calling thread: its own would wait for each other on a busy machine."""
    num_threads = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
