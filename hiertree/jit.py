"""Typed decorators that compile kernels with numba, and names for the arrays that kernels take."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias, TypeVar, cast

import numba
import numpy as np
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
        dispatcher: Any = numba.njit(cache=True, **options)(kernel)
    except RuntimeError:  # no folder that numba may write to
        _announce_compilation("for this run: set NUMBA_CACHE_DIR to a writable folder to keep what is compiled")
        return cast(Kernel, numba.njit(**options)(kernel))
    if dispatcher is not kernel and numba.version_info.short < (0, 69):  # the kernel itself under NUMBA_DISABLE_JIT
        dispatcher._cache.load_overload = partial(_load, dispatcher._cache)
        dispatcher._compilation_chain_init_hook = lambda: None  # ``_load`` does it, where there is something to compile
    return cast(Kernel, dispatcher)


def _load(cache: Any, signature: Any, target: Any) -> Any:
    """The machine code on disk for a signature, or None; it and :func:`_compiled` alone name what is private in numba.

    It stands for ``FunctionCache.load_overload`` of numba 0.60 to 0.68, for two reasons; later numbas keep their own.
    That method first imports all that the compiler knows, and loading then imports numba's implementation of arrays:
    0.4 s of a first call, while machine code needs only the functions that allocate arrays, and of a module its name.
    And it fails where a stored signature names a type that was since renamed or moved; here such a cache is emptied.
    numba calls it with its lock held, so that no other thread loads or compiles while modules are not imported.
    """
    from numba.core.runtime.nrt import rtsys

    rtsys.initialize(target)
    environment: Any = importlib.import_module("numba.core.environment")
    machine_code, environment.importlib = None, SimpleNamespace(import_module=_loaded_module)
    try:
        with cache._guard_against_spurious_io_errors():
            machine_code = cache._load_overload(signature, target)
    except (AttributeError, ImportError):
        cache.flush()
    finally:
        environment.importlib = importlib
    if machine_code is None:
        _announce_compilation("for this machine; later runs find what is compiled")
        extensions: Any = importlib.import_module("numba.core.entrypoints")
        extensions.init_all()  # which are looked for among all packages
    return machine_code


def _loaded_module(name: str) -> ModuleType:
    """A module if it is loaded, else one that has its name alone."""
    return sys.modules.get(name) or ModuleType(name)


def _announce_compilation(purpose: str) -> None:
    """Say once, in one of the processes of a command, that kernels are compiled, unless progress is not wanted."""
    if os.environ.get("HIERTREE_PROGRESS") != "0" and os.environ.get("LOCAL_RANK", "0") == "0":
        if not os.environ.get(_ANNOUNCED):
            print(f"hiertree: compiling {purpose}", file=sys.stderr, flush=True)
        os.environ[_ANNOUNCED] = "1"  # for the processes that this one starts, too
