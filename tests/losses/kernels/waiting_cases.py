"""On a device that computes while the program goes on, a loss looks at its inputs and then at nothing.

The device is not there: tensors are fake, with a shape and a device but without numbers. ``test_triton.py`` runs these
in processes of their own, with ``FAKE_DEVICE=cuda``, on which torch has no backward pass where it finds no driver, and
with another, which torch takes for a device of its user's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_metric_learning import losses as library
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from hiertree import losses
from hiertree.losses.pairs import pairs as _pairs

DEVICE = os.environ.get("FAKE_DEVICE", "cuda")
HAS_BACKWARD = DEVICE != "cuda"
LOOKS = {
    getattr(torch.ops.aten, name).default
    for name in ("_local_scalar_dense", "nonzero", "equal", "masked_select", "unique_dim", "_unique2")
}
PRODUCTS = {getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "addmm_", "bmm")}
CLASSES, SIZE = 8, 4
LOSSES: dict[str, Callable[[], losses.Loss]] = {
    "HAPPIER": lambda: losses.HAPPIER(CLASSES, SIZE),
    "HAPPIER by relevance": lambda: losses.HAPPIER(CLASSES, SIZE, split_by="relevance"),
    "ROADMAP": losses.ROADMAP,
    "ROADMAP of proxies": lambda: losses.ROADMAP(CLASSES, SIZE, decomposability="proxy"),
    "RODNDCG": lambda: losses.RODNDCG(CLASSES, SIZE),
    "RODRecall": lambda: losses.RODRecall(CLASSES, SIZE),
    "SupHAP": losses.SupHAP,
    "SupNDCG": losses.SupNDCG,
    "SupAP": losses.SupAP,
    "SupRecall": losses.SupRecall,
    "SmoothHAP": losses.SmoothHAP,
    "SmoothNDCG": losses.SmoothNDCG,
    "SmoothAP": losses.SmoothAP,
    "SmoothRecall": lambda: losses.SmoothRecall(similarity_mixup=True),
    "PairDecomposability": lambda: losses.PairDecomposability(reduction="avg_nonzero"),
    "ProxyDecomposability": lambda: losses.ProxyDecomposability(CLASSES, SIZE, centers=2, sampled_classes=3),
    "soft centers": lambda: losses.ProxyDecomposability(CLASSES, SIZE, centers=2, center_temperature=0.1),
    "TieAwareAP": losses.TieAwareAP,
    "TieAwareNDCG": losses.TieAwareNDCG,
    "FastAP": losses.FastAP,
    "BlackboxAP": losses.BlackboxAP,
    "CSL": lambda: losses.CSL(np.stack([np.arange(CLASSES) // 2, np.arange(CLASSES)], axis=1), SIZE),
    "DistributedLoss": lambda: losses.DistributedLoss(losses.HAPPIER(CLASSES, SIZE)),
    "LevelSum": lambda: losses.LevelSum(lambda size: losses.ProxyDecomposability(size, SIZE), (4, CLASSES)),
    "LevelSum of sums": lambda: losses.LevelSum(lambda size: losses.HAPPIER(size, SIZE), (4, CLASSES)),
    "memory": lambda: losses.CrossBatchMemory(losses.HAPPIER(CLASSES, SIZE), SIZE, 2, batch_loss=True),
    "memory first": lambda: losses.CrossBatchMemory(losses.SupAP(), SIZE, 2, enqueue="before"),
    "the library's softmax": lambda: losses.LevelSum(
        lambda size: losses.PytorchMetricLearning("NormalizedSoftmaxLoss", (size,), SIZE), (4, CLASSES)
    ),
}


class Watched(TorchDispatchMode):
    """Every operation in turn, as "look", "wait" for a copy, "product" or "other"; looks find nothing bad."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = False if func in LOOKS else func(*args, **(kwargs or {}))
        kind = "look" if func in LOOKS else "product" if func in PRODUCTS else "other"
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source, waits = (
                args[-1 if func is torch.ops.aten.copy_.default else 0],
                not (kwargs or {}).get("non_blocking"),
            )
            leaves = result.device != source.device
            kind = "look" if leaves and result.device.type == "cpu" else "wait" if leaves and waits else kind
        self.found.append(kind)
        return result


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    """A device of the user's, whose kernels are Triton's too."""
    _pairs.triton_works_on = lambda device: device != "cpu"
    if HAS_BACKWARD:
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

        module: Any = ModuleType(DEVICE)
        module.is_available = module.is_initialized = lambda: True
        module._is_in_bad_fork = lambda: False
        module.device_count, module.current_device = (lambda: 1), (lambda: 0)
        module.get_amp_supported_dtype = lambda: [torch.bfloat16]
        _setup_privateuseone_for_python_backend(DEVICE, module)


@pytest.fixture
def watched() -> Iterator[Watched]:
    with FakeTensorMode(), torch.autograd.set_multithreading_enabled(False), Watched() as mode:
        yield mode


def put_parameters(module: torch.nn.Module, _dtype: torch.dtype, device: torch.device) -> None:
    """New parameters on a device: fake ones cannot be given other data."""
    for name, parameter in list(module.named_parameters()):
        if parameter.device != device:
            setattr(module, name, torch.nn.Parameter(torch.randn(parameter.shape, device=device)))


def assert_looks_before_products(watched: Watched, loss: losses.Loss) -> None:
    first, is_memory = watched.found.index("product"), isinstance(loss, losses.CrossBatchMemory)
    most = 1 + len(list(loss.parameters())) + 2 * is_memory  # at embeddings, at proxies; for the memory, and at it
    assert 1 <= watched.found[:first].count("look") <= most
    assert set(watched.found[first:]) <= {"product", "other"}
    assert "wait" not in watched.found


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_looks_at_its_inputs_and_then_at_nothing(
    name: str, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library.NormalizedSoftmaxLoss, "cast_types", put_parameters)
    paths = np.stack([np.arange(16) // 4, np.arange(16) // 2], axis=1)
    with torch.device(DEVICE):
        loss, embeddings = LOSSES[name](), torch.randn(16, SIZE, requires_grad=HAS_BACKWARD)
    if isinstance(loss, losses.CrossBatchMemory):
        loss(embeddings.detach(), paths)
    watched.found.clear()
    with torch.set_grad_enabled(HAS_BACKWARD):
        value = loss(embeddings, paths)
    if HAS_BACKWARD:
        value.backward()
        assert embeddings.grad is not None
        assert embeddings.grad.device == embeddings.device
    assert value.device.type == DEVICE
    assert_looks_before_products(watched, loss)


@pytest.mark.skipif(not HAS_BACKWARD, reason="torch has no backward pass there")
def test_a_step_of_training_looks_at_its_inputs_and_then_at_nothing(watched: Watched) -> None:
    with torch.device(DEVICE):
        network, loss = torch.nn.Conv2d(3, SIZE, 4), losses.HAPPIER(CLASSES, SIZE)
        images = torch.randn(16, 3, 4, 4)
    optimizer = torch.optim.SGD([*network.parameters(), *loss.parameters()], lr=0.1)
    watched.found.clear()
    loss(network(images).flatten(1), np.arange(16) // 2).backward()
    optimizer.step()
    assert_looks_before_products(watched, loss)
