"""torch.compile takes a step into one graph with any loss, which computes there what it computes without."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from every_loss import CLASSES, LOSSES, SIZE
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hiertree import losses
from hiertree.errors import EmbeddingError, OptionError, ShapeError
from hiertree.losses.base import PairLoss
from hiertree.losses.pairs.blocks import LossPerQuery
from hiertree.losses.pairs.pairs import ScoredPairs

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")  # which torch.compile looks for
FINE = torch.arange(16) // 2
PATHS = torch.stack([FINE // 2, FINE], dim=1)


class OwnLoss(PairLoss):
    """A user's: the mean score of positives."""

    def __init__(self) -> None:
        super().__init__(include_self=False)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def query_losses(self, pairs: ScoredPairs) -> LossPerQuery:
        """Minus the sum of the positives' scores."""
        positives = pairs.positives()
        return LossPerQuery(-(pairs.scores * positives).sum(dim=1), positives.any(dim=1))

    def total(self, terms: Any) -> Tensor:
        """Scaled by what is learned."""
        return self.scale * super().total(terms)


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], backend: str = "aot_eager", **options: Any) -> Callable[..., Any]:
    run: Callable[..., Any] = torch.compile(function, backend=backend, fullgraph=True, **options)
    return run


def num_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def embeddings_of(seed: int, **options: Any) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, SIZE, generator=generator, **options).requires_grad_()


def outcome(run: Callable[..., Tensor], loss: nn.Module, *given: Tensor) -> list[Any]:
    """Value, gradients, and the queries skipped."""
    leaves = [*(each for each in given if each.requires_grad), *loss.parameters()]
    torch.manual_seed(0)
    value = run(*given)
    gradients = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    return [value.detach(), *gradients, torch.tensor(loss.last_num_skipped)]


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    assert [each.dtype for each in found] == [each.dtype for each in expected]
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("name", [*LOSSES, "a user's"])
def test_a_step_is_one_graph_for_all_batches_and_changes_no_bit(name: str) -> None:
    plain = {**LOSSES, "a user's": OwnLoss}[name]()
    loss = copy.deepcopy(plain)
    network = nn.Linear(5, SIZE)
    images = torch.randn(2, 16, 5)
    in_graph = compiled(lambda images, paths: 2 * loss(network(images).tanh(), paths))
    for batch in images:
        batch.requires_grad_()
        expected = outcome(lambda batch: 2 * plain(network(batch).tanh(), PATHS), plain, batch)
        assert_equal(outcome(lambda batch: in_graph(batch, PATHS), loss, batch), expected)
    assert num_graphs() == 1


@pytest.mark.parametrize("name", ["HAPPIER", "memory"])
def test_dynamo_explains_no_break(name: str) -> None:
    loss, network = LOSSES[name](), nn.Linear(5, SIZE)
    explained = torch._dynamo.explain(lambda images: loss(network(images), PATHS))(torch.randn(16, 5))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # of torch 2.10's own
def test_inductor_changes_no_bit_of_a_loss() -> None:
    loss, embeddings = losses.HAPPIER(CLASSES, SIZE), embeddings_of(0)
    in_graph = compiled(loss, "inductor")
    assert_equal(
        outcome(lambda given: in_graph(given, PATHS), loss, embeddings),
        outcome(lambda given: loss(given, PATHS), loss, embeddings),
    )


CALLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "flat labels": lambda loss, own: loss(own, FINE),
    "numpy labels": lambda loss, own: loss(own, FINE.numpy()),
    "a mask": lambda loss, own: loss(own, PATHS, valid=torch.ones(16, 1, dtype=torch.bool).tril(-4)),
    "references": lambda loss, own: loss(own, PATHS, own.double().flip(0), PATHS.flip(0)),
    "the batch as references": lambda loss, own: loss(own, PATHS, own, PATHS),
    "a transposed batch": lambda loss, own: loss(own.T, FINE[:SIZE]),
    "two calls": lambda loss, own: loss(own, PATHS) + loss(own + 1, FINE),
    "a checkpoint": lambda loss, own: checkpoint(loss, own, PATHS, use_reentrant=False),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_loss_takes_it_takes_in_a_graph(name: str) -> None:
    loss, embeddings = losses.ROADMAP(), embeddings_of(0)
    if name != "a transposed batch":
        loss = losses.ROADMAP(CLASSES, SIZE, decomposability="proxy")
    run = compiled(lambda given: CALLS[name](loss, given))
    expected = outcome(lambda given: CALLS[name](loss, given), loss, embeddings)
    assert_equal(outcome(run, loss, embeddings), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types_of_embeddings_and_autocast_stay(dtype: torch.dtype) -> None:
    loss, weight, images = losses.HAPPIER(CLASSES, SIZE), torch.randn(SIZE, 5, requires_grad=True), torch.randn(16, 5)

    def step(weight: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            value: Tensor = loss(nn.functional.linear(images, weight), PATHS)
        return value

    assert_equal(outcome(compiled(step), loss, weight), outcome(step, loss, weight))
    own, in_graph = embeddings_of(0, dtype=dtype), compiled(loss)
    assert_equal(
        outcome(lambda given: in_graph(given, PATHS), loss, own), outcome(lambda given: loss(given, PATHS), loss, own)
    )


def test_batches_of_several_sizes_take_one_dynamic_graph() -> None:
    loss, own = losses.HAPPIER(CLASSES, SIZE), embeddings_of(0)
    in_graph = compiled(loss, dynamic=True)
    for size in (16, 10, 12):
        found = outcome(lambda given, size=size: in_graph(given[:size], PATHS[:size]), loss, own)
        assert_equal(found, outcome(lambda given, size=size: loss(given[:size], PATHS[:size]), loss, own))
    assert num_graphs() <= 2


def test_a_graph_evaluates_the_loss_that_it_is_given() -> None:
    run, own = compiled(lambda loss, own: loss(own, PATHS)), embeddings_of(0)
    first = losses.SupHAP(alpha=1.0)
    others = [pickle.loads(pickle.dumps(losses.SupHAP(alpha=3.0))), copy.copy(losses.SupHAP(alpha=5.0))]
    for loss in (first, *others, first):
        assert torch.equal(run(loss, own), loss(own, PATHS))
    for alpha in range(2):  # at the address of one that is gone
        loss = losses.SupHAP(alpha=float(alpha))
        assert torch.equal(run(loss, own), loss(own, PATHS))
        del loss
        gc.collect()


def test_parameters_given_instead_of_those_of_a_loss_are_taken() -> None:
    loss, own = losses.HAPPIER(CLASSES, SIZE), embeddings_of(0)
    other = {"decomposability.proxies": torch.randn(CLASSES, SIZE)}

    def value(parameters: dict[str, Tensor]) -> Tensor:
        found: Tensor = torch.func.functional_call(loss, parameters, (own, PATHS))
        return found

    assert torch.equal(compiled(value)(other), value(other))
    assert not torch.equal(value(other), loss(own, PATHS))


def test_parameters_that_do_not_learn_get_no_gradient() -> None:
    loss, own = losses.HAPPIER(CLASSES, SIZE).requires_grad_(False), embeddings_of(0)
    in_graph = compiled(loss)
    assert in_graph(own.detach(), PATHS).requires_grad is False
    in_graph(own, PATHS).backward()
    found, own.grad = own.grad, None
    loss(own, PATHS).backward()
    assert torch.equal(found, own.grad)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_value_is_the_same(mode: Callable[[], Any]) -> None:
    loss, own = losses.HAPPIER(CLASSES, SIZE), embeddings_of(0)
    with mode():
        value, expected = compiled(loss)(own, PATHS), loss(own, PATHS)
    assert torch.equal(value, expected)
    assert not value.requires_grad


def test_a_loss_whose_value_is_not_used_is_computed_and_hooks_run_once() -> None:
    loss, calls = losses.CrossBatchMemory(losses.SupAP(), SIZE, 2), []
    loss.register_forward_hook(lambda *_: calls.append(1))
    compiled(lambda own: (loss(own, PATHS), own * 2)[1])(embeddings_of(0).detach())
    assert (loss.num_remembered, len(calls)) == (16, 1)


def test_threads_may_share_a_compiled_loss() -> None:
    loss = losses.HAPPIER(CLASSES, SIZE)
    in_graph, batches = compiled(loss), [embeddings_of(seed) for seed in range(20)]

    def of_batch(run: Callable[..., Tensor], own: Tensor) -> list[Tensor]:
        value = run(own, PATHS)
        return [value.detach(), *torch.autograd.grad(value, [own, *loss.parameters()])]

    of_batch(in_graph, batches[0])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(partial(of_batch, in_graph), batches))
    for own, each in zip(batches, found, strict=True):
        assert_equal(each, of_batch(loss, own))


BAD: dict[str, tuple[type[Exception], str, Callable[[Any, Tensor], Tensor]]] = {
    "a NaN": (EmbeddingError, r"\(1 rows: 3\)", lambda loss, own: loss(own.index_fill(0, FINE[6:7], torch.nan), PATHS)),
    "too few paths": (ShapeError, "paths of 3 rows", lambda loss, own: loss(own, PATHS[:3])),
    "one dimension": (ShapeError, r"shape \(16,\)", lambda loss, own: loss(own[:, 0], PATHS)),
    "no paths of references": (ShapeError, "only one of", lambda loss, own: loss(own, PATHS, own)),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_loss_refuses_it_refuses_in_a_graph(name: str) -> None:
    loss, (error, message, call) = losses.HAPPIER(CLASSES, SIZE), BAD[name]
    with pytest.raises(error, match=message):
        compiled(lambda own: call(loss, own))(embeddings_of(0))


def test_no_second_derivative_and_no_export() -> None:
    loss, own = losses.SupAP(), embeddings_of(0)
    gradient = torch.autograd.grad(compiled(loss, "eager")(own, PATHS), own, create_graph=True)[0]
    with pytest.raises(OptionError, match="second derivative"):
        gradient.sum().backward()
    with pytest.raises(OptionError, match=r"under torch.export"):
        torch.export.export(loss, (own, PATHS))


@pytest.fixture
def capturing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets torch believe from now on that it captures a CUDA graph; tensors are on the CPU, and keep their numbers."""

    def begin() -> None:
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    return begin


@pytest.mark.parametrize("name", ["HAPPIER", "ROADMAP", "RODNDCG", "SmoothAP", "TieAwareAP", "LevelSum"])
def test_a_captured_loss_is_the_loss_and_nan_where_a_call_refuses(name: str, capturing: Callable[[], None]) -> None:
    loss, own = LOSSES[name](), embeddings_of(0)
    expected = outcome(lambda own: loss(own, PATHS), loss, own)
    no_number, of_no_norm = (own.detach().index_fill(0, torch.tensor(3), value) for value in (torch.nan, 0.0))
    capturing()
    mask = torch.ones(16, 16, dtype=torch.bool)
    assert_equal(outcome(lambda own: loss(own, PATHS, valid=mask), loss, own), expected)
    bad = [(no_number, PATHS), (of_no_norm, PATHS), (own.detach(), PATHS.index_fill(0, torch.tensor(3), -1))]
    for embeddings, paths in bad:
        value, gradient, *_ = outcome(lambda given, paths=paths: loss(given, paths), loss, embeddings.requires_grad_())
        assert value.isnan()
        assert gradient.isnan().any()


def test_a_captured_loss_of_a_class_without_a_proxy_is_infinite(capturing: Callable[[], None]) -> None:
    loss = losses.ProxyDecomposability(CLASSES, SIZE)
    capturing()
    assert loss(embeddings_of(0), PATHS + 1).item() == torch.inf


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        (PATHS.numpy(), OptionError, "ndarray on .* expected a tensor on cpu; copy each batch into one"),
        (PATHS.to("meta"), OptionError, "Tensor on meta"),
        (PATHS[:3], ShapeError, r"paths of shape \(3, 2\)"),
        (PATHS.float(), ShapeError, "float32"),
    ],
)
def test_what_no_graph_can_read_is_refused(
    paths: Any, error: type[Exception], message: str, capturing: Callable[[], None]
) -> None:
    capturing()
    with pytest.raises(error, match=message):
        losses.SupHAP()(embeddings_of(0), paths)
