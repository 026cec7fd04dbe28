"""Typed decorators that compile kernels with numba, and names for the arrays that kernels take."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
from numba.core import event
from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
Bools: TypeAlias = "NDArray[np.bool_]"
Bytes: TypeAlias = "NDArray[np.uint8]"
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"
Int32s: TypeAlias = "NDArray[np.int32]"
Words: TypeAlias = "NDArray[np.uint64]"
Kernel = TypeVar("Kernel", bound=Callable[..., object])
_ANNOUNCED = "HIERTREE_COMPILATION_ANNOUNCED"


def jit(kernel: Kernel) -> Kernel:
    """Compile a kernel on first use, without the interpreter's lock, and cache its machine code on disk.

    numba renews the cache only when the kernel's own file changes, so a kernel may call only kernels of its own file.
    """
    return _compiled(kernel)


def reordering_jit(kernel: Kernel) -> Kernel:
    """As :func:`jit`, but sums may be reordered, so that the processor can add several terms at once."""
    return _compiled(kernel, fastmath={"reassoc", "contract", "nsz", "arcp"})


def jit_without_nan(kernel: Kernel) -> Kernel:
    """As :func:`jit`, for inputs without NaN. The order of operations and every rounding stay as written."""
    return _compiled(kernel, fastmath={"nnan", "nsz"})


def _compiled(kernel: Kernel, *, fastmath: bool | set[str] = False) -> Kernel:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        dispatcher = numba.njit(cache=True, **options)(kernel)
        _listener.kernels.add(kernel)
    except RuntimeError:  # no folder that numba may write to
        _announce_compilation("for this run: set NUMBA_CACHE_DIR to a writable folder to keep what is compiled")
        dispatcher = numba.njit(**options)(kernel)
    return cast(Kernel, dispatcher)


class _CompilationListener:
    """Announces that kernels are compiled which were not found on disk."""

    def __init__(self) -> None:
        self.kernels: set[Any] = set()

    def notify(self, event: Any) -> None:
        """Take an event of numba."""
        if event.is_start and event.data["dispatcher"].py_func in self.kernels:
            _announce_compilation("for this machine; later runs find what is compiled")


_listener, _events = _CompilationListener(), cast(Any, event)
_events.Listener.register(_CompilationListener)
_events.register("numba:compile", _listener)


def _announce_compilation(purpose: str) -> None:
    """Say once, in one of the processes of a command, that kernels are compiled, unless progress is not wanted."""
    if os.environ.get("HIERTREE_PROGRESS") != "0" and os.environ.get("LOCAL_RANK", "0") == "0":
        if not os.environ.get(_ANNOUNCED):
            print(f"hiertree: compiling {purpose}", file=sys.stderr, flush=True)
        os.environ[_ANNOUNCED] = "1"  # for the processes that this one starts, too
