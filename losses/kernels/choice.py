"""Which kernel evaluates the pairs of a batch.

A backend is ``"torch"`` (any device, every pair evaluated), ``"numba"`` (a CPU, compiled), ``"triton"`` (a GPU,
compiled) or ``"auto"``: numba on a CPU, triton on CUDA where it is installed, torch elsewhere.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import torch

from hiertree.errors import OptionError
from hiertree.options import require

from .base import BACKENDS, Backend, PairKernel
from .torch_kernel import TorchKernel


def check_backend(backend: str) -> None:
    """Refuse a backend that does not exist."""
    require(backend in BACKENDS, "backend", backend, f"one of {', '.join(map(repr, BACKENDS))}")


def kernel_for(backend: Backend, device: torch.device) -> type[PairKernel]:
    """The kernel of a backend for scores on a device.

    Raises:
        OptionError: the backend does not work there.
    """
    chosen = _automatic(device.type) if backend == "auto" else backend
    if chosen == "torch":
        return TorchKernel
    if chosen == "triton":
        expected = "CUDA scores, and triton, which comes with torch on Linux"
        _refuse_unless(_triton_works_on(device.type), backend, device, expected)
        from .triton.kernel import TritonKernel

        return TritonKernel
    _refuse_unless(device.type == "cpu", backend, device, "scores on a CPU")
    from .numba.kernel import NumbaKernel  # compiled code is loaded when it is first needed

    return NumbaKernel


def _automatic(device: str) -> Backend:
    if device == "cpu":
        return "numba"
    return "triton" if _triton_works_on(device) else "torch"


def _triton_works_on(device: str) -> bool:
    """Whether triton is installed and compiles for the device, or interprets, as tests let it do on a CPU."""
    interpreted = device == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return (device == "cuda" or interpreted) and _triton_is_installed()


@cache
def _triton_is_installed() -> bool:
    return find_spec("triton") is not None


def _refuse_unless(holds: bool, backend: Backend, device: torch.device, expected: str) -> None:
    if not holds:
        raise OptionError(f"backend={backend!r} for scores on {device}", expected=expected, remedy="pass 'auto'")
