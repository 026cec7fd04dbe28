"""On a device that computes while the program goes on, a loss looks at its inputs and then at nothing.

The device is not there: tensors are fake, with a shape and a device but without numbers. ``test_triton.py`` runs these
in processes of their own, with ``FAKE_DEVICE=cuda``, on which torch has no backward pass where it finds no driver, and
with another; see ``fake_device``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from every_loss import CLASSES, LOSSES, SIZE
from fake_device import Watched, move, set_up, watched_device
from pytorch_metric_learning import losses as library
from torch.library import CustomOpDef

from hiertree import losses
from hiertree.errors import OptionError
from hiertree.losses.kernels import triton_kernel as _triton_kernel
from hiertree.losses.pairs import pairs as _pairs

DEVICE = os.environ.get("FAKE_DEVICE", "cuda")
HAS_BACKWARD = DEVICE != "cuda"


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    """A device of the user's, whose kernels are Triton's too."""
    _pairs.triton_works_on = lambda device: device != "cpu"
    if HAS_BACKWARD:
        set_up(DEVICE)
    torch.set_float32_matmul_precision("medium")  # as programs do for the speed of their networks


@pytest.fixture
def watched() -> Iterator[Watched]:
    with watched_device() as mode:
        yield mode


def assert_looks_before_products(watched: Watched, loss: losses.Loss) -> None:
    first, is_memory = watched.found.index("product"), isinstance(loss, losses.CrossBatchMemory)
    most = 1 + len(list(loss.parameters())) + 2 * is_memory  # at embeddings, at proxies; for the memory, and at it
    assert 1 <= watched.found[:first].count("look") <= most
    assert set(watched.found[first:]) <= {"product", "other"}
    assert not {"wait", "copy to host"} & set(watched.found)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_looks_at_its_inputs_and_then_at_nothing(
    name: str, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library.NormalizedSoftmaxLoss, "cast_types", lambda *_: None)
    paths = np.stack([np.arange(16) // 4, np.arange(16) // 2], axis=1)
    with torch.device(DEVICE):
        loss, embeddings = LOSSES[name](), torch.randn(16, SIZE, requires_grad=HAS_BACKWARD)
        move(loss, DEVICE)
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
    assert watched.precisions == {"ieee"} or name.startswith("the library")  # whose gradients are its own


class NoKernels:
    """Instead of Triton's kernels, those that do nothing on any grid."""

    def __getattr__(self, name: str) -> NoKernels:
        return self

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.fixture
def _operators_in_the_open(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operators that start kernels are watched inside, too; the constants that these read are there for good."""
    constant = torch.empty(1, device=DEVICE)
    for name, value in list(vars(_triton_kernel).items()):
        if isinstance(value, CustomOpDef):
            monkeypatch.setattr(_triton_kernel, name, value._init_fn)
        elif hasattr(value, "cache_info"):
            assert value.cache_info().maxsize is None  # a graph reads them where they are
            monkeypatch.setattr(_triton_kernel, name, lambda *_: constant)
    for name in ("_triton_groups", "_triton_rows"):
        monkeypatch.setattr(_triton_kernel, name, NoKernels())
    monkeypatch.setattr(_triton_kernel, "current", nullcontext)
    monkeypatch.setattr(_triton_kernel, "_num_warps", lambda *_, **__: 2)  # there is no card to ask


NOT_CAPTURED = {
    "SmoothRecall": "reads labels",
    "ProxyDecomposability": "reads labels",
    "CSL": "reads labels",
    "memory": "a memory",
    "memory first": "a memory",
    "the library's softmax": "a loss of pytorch-metric-learning",
}


@pytest.mark.usefixtures("_operators_in_the_open")
@pytest.mark.parametrize("name", LOSSES)
def test_a_cuda_graph_of_a_loss_is_of_operations_on_the_device_alone(
    name: str, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.device(DEVICE):
        loss, embeddings = LOSSES[name](), torch.randn(16, SIZE, requires_grad=HAS_BACKWARD)
        paths = torch.zeros(16, 2, dtype=torch.int64)
        move(loss, DEVICE)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    watched.found.clear()
    watched.num_copies = 0
    with torch.set_grad_enabled(HAS_BACKWARD):
        if name in NOT_CAPTURED:
            with pytest.raises(OptionError, match=f"{NOT_CAPTURED[name]} in a CUDA graph"):
                loss(embeddings, paths)
            return
        value = loss(embeddings, paths)
    if HAS_BACKWARD:
        value.backward()
    assert set(watched.found) == {"product", "other"}
    assert watched.num_copies == 0


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
