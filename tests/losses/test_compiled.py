"""torch.compile breaks its graph once at a loss, which computes there what it computes without."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch
from every_loss import CLASSES, LOSSES, SIZE
from torch import nn

from hiertree import losses
from hiertree.errors import EmbeddingError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")  # which torch.compile looks for
FINE = torch.arange(16) // 2
PATHS = torch.stack([FINE // 2, FINE], dim=1)


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function):
    return torch.compile(function, backend="aot_eager")


def embeddings_of(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, SIZE, generator=generator).requires_grad_()


def outcome(run, loss, leaf):
    """Value, gradients, and the queries skipped."""
    leaves = [leaf, *loss.parameters()]
    torch.manual_seed(0)
    value = run(leaf)
    gradients = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return [value.detach(), *gradients, torch.tensor(loss.last_num_skipped)]


@pytest.mark.parametrize("name", LOSSES)
def test_a_compiled_step_changes_no_bit_of_a_loss(name):
    eager, network = LOSSES[name](), nn.Linear(5, SIZE)
    loss = copy.deepcopy(eager)
    step = compiled(lambda images: 2 * loss(network(images).tanh(), PATHS))
    for batch in torch.randn(2, 16, 5):
        expected = outcome(lambda images: 2 * eager(network(images).tanh(), PATHS), eager, batch.requires_grad_())
        assert all(map(torch.equal, outcome(step, loss, batch), expected))


@pytest.mark.parametrize("name", ["HAPPIER", "ROADMAP", "memory"])
def test_a_loss_breaks_the_graph_once(name):
    loss, network = LOSSES[name](), nn.Linear(5, SIZE)
    explained = torch._dynamo.explain(lambda images: 2 * loss(network(images), PATHS))(torch.randn(16, 5))
    assert (explained.graph_count, explained.graph_break_count) == (2, 1)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler")
@pytest.mark.parametrize("name", ["HAPPIER", "SmoothAP", "TieAwareNDCG", "HIER"])
def test_a_step_of_machine_code_is_equal_up_to_rounding(name):
    eager, network, images = LOSSES[name](), nn.Linear(5, SIZE), torch.randn(16, 5)
    loss = copy.deepcopy(eager)
    step = torch.compile(lambda images: loss(network(images).tanh(), PATHS), backend="inductor")
    expected = outcome(lambda images: eager(network(images).tanh(), PATHS), eager, images.requires_grad_())
    for value, expected_value in zip(outcome(step, loss, images), expected, strict=True):
        torch.testing.assert_close(value, expected_value, rtol=1e-4, atol=1e-6)


def test_every_kind_of_loss_is_compiled():
    kinds = {part.__class__ for build in LOSSES.values() for part in build().with_parts()}
    public = {value for value in vars(losses).values() if isinstance(value, type) and issubclass(value, losses.Loss)}
    assert public - kinds <= {losses.Loss}


def test_what_a_loss_refuses_it_refuses_in_a_compiled_step():
    loss = losses.HAPPIER(CLASSES, SIZE)
    with pytest.raises(EmbeddingError, match=r"\(1 rows: 3\)"):
        compiled(lambda vectors: loss(vectors.index_fill(0, FINE[6:7], torch.nan), PATHS))(embeddings_of(0))


def test_a_compiled_loss_has_no_second_derivative():
    loss, leaf = losses.SupAP(), embeddings_of(0)
    gradient = torch.autograd.grad(compiled(loss)(leaf, PATHS), leaf, create_graph=True)[0]
    with pytest.raises(OptionError, match="second derivative"):
        gradient.sum().backward()
