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
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

LOOKS = {
    getattr(torch.ops.aten, name).default
    for name in (
        "_local_scalar_dense",
        "item",
        "is_nonzero",
        "nonzero",
        "equal",
        "masked_select",
        "unique_dim",
        "_unique2",
    )
}
PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "addmm_", "bmm")}
COPIES = ("aten::_to_copy", "aten::to", "aten::copy_")


class Watched(TorchDispatchMode):
    """Every operation in turn: "look" at numbers, "copy to host", "wait" for a copy, "product" or "other".

    Looks find nothing bad, and the host gets zeros.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.num_copies = 0  # from a device to another
        self.precisions: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_look = func in LOOKS
        result = args[0].is_floating_point() if is_look else func(*args, **(kwargs or {}))  # 1.0, or nothing bad
        kind = "product" if func in PRODUCTS else "look" if is_look and args[0].device.type != "cpu" else "other"
        if kind == "product":
            backend: Any = torch.backends.cuda if result.device.type == "cuda" else torch.backends.mkldnn
            self.precisions.add(backend.matmul.fp32_precision)
        if func.name().split(".")[0] in COPIES:
            source = args[1 if func is torch.ops.aten.copy_.default else 0]
            if result.device != source.device:
                waits = not any(given is True for given in (*args, (kwargs or {}).get("non_blocking")))
                kind = "copy to host" if result.device.type == "cpu" else "wait" if waits else kind
                self.num_copies += 1
        self.found.append(kind)
        return result


@contextmanager
def watched_device() -> Iterator[Watched]:
    """Watch what is done; on a device of a user's, after :func:`set_up`."""
    with (
        patch.object(torch.Tensor, "numpy", _zeros_of_fakes),
        patch.object(fake_tensor, "CONSTANT_NUMEL_LIMIT", -1),  # or no number and one would be copied in earnest
        FakeTensorMode(),
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
    module.manual_seed_all = lambda _: None
    module.device_count, module.current_device = (lambda: 1), (lambda: 0)
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]
    _setup_privateuseone_for_python_backend(name, module)


def move(module: torch.nn.Module, device: torch.device | str) -> None:
    """Give a module new parameters and buffers on a device, for good: fake ones cannot be given other data."""
    vars(module)["to"] = lambda *_, **__: module
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            setattr(part, name, torch.nn.Parameter(torch.randn(parameter.shape, device=device)))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, torch.zeros(buffer.shape, dtype=buffer.dtype, device=device))
