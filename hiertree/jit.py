"""Typed decorators that compile kernels with numba."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def jit(kernel: Kernel) -> Kernel:
    """Compile a kernel on first use and cache its machine code on disk. It runs without the interpreter's lock.

    numba renews the cache when the kernel's own file changes, but not when another file does. A kernel may therefore
    call only kernels of its own file.
    """
    return _cached(kernel)


def reordering_jit(kernel: Kernel) -> Kernel:
    """As :func:`jit`, but sums may be reordered, so that the processor can add several terms at once."""
    return _cached(kernel, fastmath={"reassoc", "contract", "nsz", "arcp"})


def jit_without_nan(kernel: Kernel) -> Kernel:
    """As :func:`jit`, for inputs without NaN. The order of operations and every rounding stay as written."""
    return _cached(kernel, fastmath={"nnan", "nsz"})


def _cached(kernel: Kernel, *, fastmath: bool | set[str] = False) -> Kernel:
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)(kernel)  # its types are incomplete
    cache_of: Any = _Cache
    dispatcher._cache = cache_of(kernel)  # as njit(cache=True) does, with the cache below
    return cast(Kernel, dispatcher)


class _Cache(FunctionCache):
    """numba's cache on disk, but one that names a type which was renamed or moved is emptied, not an error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; None where it must be compiled.

        numba's own method first imports all that its compiler knows, which takes 0.3 s; machine code only needs the
        functions that allocate arrays.
        """
        numbas: Any = super()
        load, guard = numbas._load_overload, numbas._guard_against_spurious_io_errors
        rtsys.initialize(target_context)
        found = None
        try:
            with guard():
                found = load(sig, target_context)
        except (AttributeError, ImportError):
            numbas.flush()
        if found is None:
            _say_that_it_compiles()
        return found


@cache
def _say_that_it_compiles() -> None:
    """Once a process, unless progress is not wanted."""
    if os.environ.get("HIERTREE_PROGRESS") != "0":
        print("hiertree: compiling for this machine, once; the next runs start at once", file=sys.stderr, flush=True)
