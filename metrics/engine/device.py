"""A device of torch, as what multiplies blocks of vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from hiertree.errors import DeviceError

if TYPE_CHECKING:
    from hiertree.evaluation_options import Precision
    from hiertree.jit import Array

_GALLERY_BYTES, _BLOCK_BYTES = 2**29, 2**28  # where memory is shared with everything else
_BLOCK_BYTES_OF_A_GPU = 2**31
_LARGEST_INTEGERS = {None: 2**24, "float32": 2**24, "tf32": 2**11, "bfloat16": 2**8}  # held with no rounding
_WITH_FLOAT64 = ("cpu", "cuda")


class Device:
    """A torch device that multiplies blocks of vectors, in the precision given or else in that of the vectors.

    A gallery of up to ``gallery_bytes`` is kept there, on a GPU a half of what is free, and ``block_bytes`` are for the
    positives of a product. Products of integers up to ``largest_integer`` are exact.
    """

    def __init__(self, name: str, precision: Precision | None = None) -> None:
        try:
            self.where, self.precision = torch.zeros(1, device=name).device, precision
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
            remedy = "leave device out to use the processor"
            raise DeviceError(f"device={name!r}", expected="a device that torch finds here", remedy=remedy) from error
        if precision == "tf32" and self.where.type != "cuda":
            remedy = "precision='float32' gives the products of full precision"
            raise DeviceError(f"precision='tf32' with device={name!r}", expected="a CUDA device", remedy=remedy)
        self.largest_integer = _LARGEST_INTEGERS[precision] if self.where.type in _WITH_FLOAT64 else 0
        self.gallery_bytes, self.block_bytes = _GALLERY_BYTES, _BLOCK_BYTES
        if self.where.type == "cuda":
            self.gallery_bytes, self.block_bytes = torch.cuda.mem_get_info(self.where)[0] // 2, _BLOCK_BYTES_OF_A_GPU

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.where) if self.where.type == "cuda" else self.where.type
        return f"torch {torch.__version__} on {name}, {self.precision}"

    def send(self, values: Array) -> torch.Tensor:
        """An array there, as it is."""
        return sent(values, self.where)

    def put(self, vectors: Array) -> torch.Tensor:
        """The vectors there, rounded where the precision asks for it."""
        tensor = self.send(vectors)
        return tensor.bfloat16() if self.precision == "bfloat16" else tensor

    def rounded(self, vectors: Array) -> Array:
        """The vectors as the precision rounds them."""
        if self.precision != "bfloat16":
            return vectors
        return torch.from_numpy(vectors).bfloat16().float().numpy()

    def put_all(self, parts: Iterable[Array], shape: tuple[int, int], dtype: np.dtype[np.generic]) -> torch.Tensor:
        """The same of vectors that come part by part."""
        dtype_there = torch.bfloat16 if self.precision == "bfloat16" else torch.from_numpy(np.empty(0, dtype)).dtype
        vectors, start = torch.empty(shape, dtype=dtype_there, device=self.where), 0
        for part in parts:
            vectors[start : start + len(part)] = self.send(part)
            start += len(part)
        return vectors

    def multiply(self, queries: torch.Tensor, items: torch.Tensor, *, exact: bool = False) -> torch.Tensor:
        """Queries × itemsᵀ, in float32 or float64, or the squared cosines of small integers with their signs."""
        products = self._multiply(queries, items)
        if not exact:
            return products
        norms = [vectors.double().square().sum(dim=1) for vectors in (queries, items)]
        signed = products.double() * products.double().abs()
        return (signed / (norms[0][:, None] * norms[1])).to(products.dtype)

    def product_precision(self) -> AbstractContextManager[None]:
        """Products of float32 there in the precision of this device meanwhile."""
        return float32_products(self.where, "tf32" if self.precision == "tf32" else "ieee")

    def _multiply(self, queries: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Products of bfloat16 are exact in float32 and summed in it."""
        with self.product_precision():
            if self.precision != "bfloat16":
                return queries @ items.T
            if self.where.type == "cuda":
                return torch.mm(queries, items.T, out_dtype=torch.float32)
            return queries.float() @ items.T.float()


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
    number = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(number)
