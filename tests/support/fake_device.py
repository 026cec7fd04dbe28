"""A device that is not there: tensors with a shape and a device but without numbers, and what is done with them.

On ``"cuda"`` torch has no backward pass where it finds no driver; on a device of a user's, of any other name, it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

LOOKS = {
    getattr(torch.ops.aten, name).default
    for name in ("_local_scalar_dense", "nonzero", "equal", "masked_select", "unique_dim", "_unique2")
}
PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "addmm_", "bmm")}
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Watched(TorchDispatchMode):
    """Every operation in turn: "look" at numbers, "copy to host", "wait" for a copy, "product" or "other".

    Looks find nothing bad, and the host gets zeros.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.precisions: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = False if func in LOOKS else func(*args, **(kwargs or {}))
        kind = "look" if func in LOOKS else "product" if func in PRODUCTS else "other"
        if kind == "product":
            self.precisions.add(precision_of(result.device).fp32_precision)
        if func in COPIES:
            source = args[-1 if func is COPIES[1] else 0]
            if result.device != source.device:
                waits = not (kwargs or {}).get("non_blocking")
                kind = "copy to host" if result.device.type == "cpu" else "wait" if waits else kind
        self.found.append(kind)
        return result


def precision_of(device: torch.device) -> Any:
    """Where torch keeps the precision of products there."""
    backend: Any = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    return backend.matmul


@contextmanager
def watched_device() -> Iterator[Watched]:
    """Watch what is done; on a device of a user's, after :func:`set_up`."""
    with (
        patch.object(torch.Tensor, "numpy", _zeros_of_fakes),
        FakeTensorMode(allow_non_fake_inputs=True),
        torch.autograd.set_multithreading_enabled(False),
        Watched() as mode,
    ):
        yield mode


_numpy = torch.Tensor.numpy


def _zeros_of_fakes(tensor: torch.Tensor) -> Any:
    if isinstance(tensor, FakeTensor):
        return np.zeros(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
    return _numpy(tensor)


def set_up(name: str) -> None:
    """Let torch know a device of its user's, once a process."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    module: Any = ModuleType(name)
    module.is_available = module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.device_count, module.current_device = (lambda: 1), (lambda: 0)
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]
    _setup_privateuseone_for_python_backend(name, module)
