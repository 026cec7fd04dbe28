"""numba's compiler behind one typed door."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def jit(kernel: Kernel) -> Kernel:
    """Compile a kernel on first use and keep the machine code on disk; it runs without the interpreter's lock.

    The stored code is renewed when the file of the kernel changes, not when another file does: a kernel may therefore
    call only kernels of its own file.
    """
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy")(kernel))


def reordering_jit(kernel: Kernel) -> Kernel:
    """As :func:`jit`, and sums may be taken in another order, which lets the processor take several terms at once."""
    reorder = {"reassoc", "contract", "nsz", "arcp"}
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=reorder)(kernel))


def jit_without_nan(kernel: Kernel) -> Kernel:
    """As :func:`jit`, for numbers among which is no NaN; every rounding stays as written."""
    return cast(Kernel, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})(kernel))
