"""Typed decorators that compile kernels with numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def jit(kernel: Kernel) -> Kernel:
    """Compile a kernel on first use and cache its machine code on disk. It runs without the interpreter's lock.

    numba renews the cache when the kernel's own file changes, but not when another file does. A kernel may therefore
    call only kernels of its own file.
    """
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy")(kernel))


def reordering_jit(kernel: Kernel) -> Kernel:
    """As :func:`jit`, but sums may be reordered, so that the processor can add several terms at once."""
    reorder = {"reassoc", "contract", "nsz", "arcp"}
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=reorder)(kernel))


def jit_without_nan(kernel: Kernel) -> Kernel:
    """As :func:`jit`, for inputs without NaN. The order of operations and every rounding stay as written."""
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})(kernel))
