"""Ranking a batch among earlier ones, and batches larger than the memory for their graph."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from loss_loops import labeled_batch
from torch import nn

from hiertree.errors import EmbeddingError, OptionError, ShapeError
from hiertree.losses import HAPPIER, CrossBatchMemory, PytorchMetricLearning, SupAP, SupHAP, large_batch_backward

SIZE = 5


batch = partial(labeled_batch, num_items=8, size=SIZE)


def memory_of(loss, size=64, **options):
    return CrossBatchMemory(loss, SIZE, 2, size=size, **options).double()


@pytest.mark.parametrize("enqueue", ["before", "after"])
def test_a_batch_is_ranked_among_itself_and_all_earlier_ones(enqueue):
    loss = memory_of(SupHAP(), enqueue=enqueue)
    for seed in range(2):
        loss(*batch(seed))
    value = loss(*batch(2))
    assert loss.num_remembered == 24
    embeddings, paths = (torch.cat(tensors) for tensors in zip(*map(batch, range(3)), strict=True))
    valid = ~torch.eye(24, dtype=torch.bool)[16:]
    torch.testing.assert_close(value, SupHAP()(*batch(2), embeddings, paths, valid=valid))


def test_after_gives_a_gradient_to_candidates_and_before_to_queries_only():
    gradients = {}
    for enqueue in ("before", "after"):
        loss = memory_of(SupHAP(), enqueue=enqueue)
        loss(*batch(0))
        embeddings, paths = batch(1)
        loss(embeddings.requires_grad_(), paths).backward()
        gradients[enqueue] = embeddings.grad
    embeddings, paths = batch(1)
    references, other_paths = batch(0)
    valid = ~torch.eye(8, 16, dtype=torch.bool)
    refs = torch.cat([embeddings, references]), torch.cat([paths, other_paths])
    SupHAP()(embeddings.requires_grad_(), paths, *refs, valid=valid).backward()
    torch.testing.assert_close(gradients["before"], embeddings.grad)
    assert not torch.allclose(gradients["after"], gradients["before"])


@pytest.mark.parametrize("enqueue", ["before", "after"])
def test_an_empty_memory_gives_the_loss_of_the_batch(enqueue):
    torch.testing.assert_close(memory_of(SupAP(), enqueue=enqueue)(*batch(0)), SupAP()(*batch(0)))


def test_the_oldest_leave_a_full_memory():
    loss = memory_of(SupAP(), size=20)
    for seed in range(5):
        loss(*batch(seed))
    assert loss.num_remembered == 20
    expected_rows = torch.cat([batch(seed)[0] for seed in range(5)])[-20:]
    torch.testing.assert_close(loss.embeddings.sort(dim=0).values, expected_rows.sort(dim=0).values)


def test_warm_up_batches_neither_see_nor_fill_the_memory():
    loss = memory_of(SupAP(), warm_up=2)
    for seed in range(2):
        torch.testing.assert_close(loss(*batch(seed)), SupAP()(*batch(seed)))
        assert loss.num_remembered == 0
    loss(*batch(2))
    assert loss.num_remembered == 8


def test_a_resumed_memory_goes_on_as_before():
    torch.manual_seed(0)
    loss = memory_of(HAPPIER(6, SIZE), size=20, warm_up=1)
    for seed in range(4):
        loss(*batch(seed))
    copy = memory_of(HAPPIER(6, SIZE), size=20, warm_up=1)
    copy.load_state_dict(loss.state_dict())
    for seed in range(4, 6):
        assert copy(*batch(seed)).item() == loss(*batch(seed)).item()


def test_evaluation_sees_the_memory_and_leaves_it_alone():
    for enqueue in ("before", "after"):
        loss = memory_of(SupAP(), enqueue=enqueue).eval()
        torch.testing.assert_close(loss(*batch(0)), SupAP()(*batch(0)))
        loss.train()(*batch(1))
        loss.eval()(*batch(2))
        assert loss.num_remembered == 8


def test_terms_weights_and_skipped_queries_are_those_of_the_loss():
    loss = memory_of(HAPPIER(6, SIZE))
    loss(*batch(0))
    terms = loss.terms(*batch(1))
    assert set(terms) == set(loss.weights) == {"SupHAP", "ProxyDecomposability"}
    paths_of_one = torch.full((8, 2), 5)
    paths_of_one[:, 0] = torch.arange(90, 98)
    fresh = memory_of(SupAP(level=1))
    fresh(batch(0)[0], paths_of_one)
    assert fresh.last_num_skipped == 8


def test_masked_queries_do_not_see_the_memory():
    embeddings, paths = batch(1)
    queries = torch.arange(8) < 5
    for enqueue in ("before", "after"):
        loss = memory_of(SupAP(), enqueue=enqueue)
        loss(*batch(0))
        value = loss(embeddings, paths, valid=queries[:, None])
        references, other_paths = batch(0)
        valid = ~torch.eye(5, 16, dtype=torch.bool)
        refs = torch.cat([embeddings, references]), torch.cat([paths, other_paths])
        torch.testing.assert_close(value, SupAP()(embeddings[:5], paths[:5], *refs, valid=valid))


def test_a_contrastive_loss_of_the_library_has_its_own_copies_masked():
    library = pytest.importorskip("pytorch_metric_learning.losses")
    memory = memory_of(PytorchMetricLearning("ContrastiveLoss"), enqueue="before")
    library_memory = library.CrossBatchMemory(library.ContrastiveLoss(), SIZE, memory_size=64)
    for seed in range(3):
        embeddings, paths = batch(seed)
        torch.testing.assert_close(memory(embeddings, paths), library_memory(embeddings, paths[:, 1]))


def test_what_does_not_fit_the_memory_is_refused():
    loss = memory_of(SupAP(), size=10)
    with pytest.raises(ShapeError, match="at most 10"):
        loss(*batch(0, num_items=11))
    with pytest.raises(ShapeError, match="2 levels"):
        loss(batch(0)[0], torch.arange(8))
    with pytest.raises(ShapeError, match="with a memory"):
        loss(*batch(0), *batch(1))
    with pytest.raises(EmbeddingError, match="rows: 3"):
        loss(batch(0)[0].index_fill(0, torch.tensor([3]), float("nan")), batch(0)[1])
    assert loss.num_remembered == 0


def test_the_memory_of_suprank_fills_from_the_start_and_counts_for_half_from_its_epoch_on():
    """base_training_loop.py of its authors: the mean of the batch's loss and of that over a memory that it entered."""
    inner = SupAP(include_self=True)
    loss = memory_of(inner, enqueue="before", from_epoch=2, batch_loss=True)
    for epoch in range(2):
        loss.start_epoch(epoch)
        torch.testing.assert_close(loss(*batch(epoch)), inner(*batch(epoch)))
    assert loss.num_remembered == 16
    loss.start_epoch(2)
    remembered = [torch.cat(tensors) for tensors in zip(*map(batch, range(3)), strict=True)]
    expected = (inner(*batch(2)) + inner(*batch(2), *remembered)) / 2  # each query is among what is remembered
    torch.testing.assert_close(loss(*batch(2)), expected)


def network(dropout):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, SIZE)).double()


@pytest.mark.parametrize("sizes", [(24,), (8, 8, 8), (10, 10, 4)])
def test_chunks_give_the_gradient_of_one_big_batch(sizes):
    images, paths = torch.randn(24, 7, dtype=torch.float64), batch(0, num_items=24)[1]
    torch.manual_seed(1)
    full, chunked = network(0.0), network(0.0)
    losses = [HAPPIER(6, SIZE).double() for _ in range(2)]
    losses[1].load_state_dict(losses[0].state_dict())
    value = losses[0](full(images), paths)
    value.backward()
    terms = large_batch_backward(chunked, images.split(sizes), paths, losses[1])
    assert losses[1].total(terms).item() == pytest.approx(value.item(), rel=1e-12)
    parameters = [[*full.parameters(), *losses[0].parameters()], [*chunked.parameters(), *losses[1].parameters()]]
    for a, b in zip(*parameters, strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-9, atol=1e-12)


def test_dropout_is_drawn_alike_in_both_passes_and_the_generator_goes_on():
    images, paths = torch.randn(24, 7, dtype=torch.float64), batch(0, num_items=24)[1]
    chunked, loss = network(0.5), SupHAP()
    torch.manual_seed(5)
    large_batch_backward(chunked, images.split(8), paths, loss)
    next_draw = torch.rand(())
    full = network(0.5)
    torch.manual_seed(5)
    loss(torch.cat([full(chunk) for chunk in images.split(8)]), paths).backward()
    assert next_draw == torch.rand(())
    for a, b in zip(full.parameters(), chunked.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-9, atol=1e-12)


def test_a_scaled_backward_scales_the_whole_gradient():
    images, paths = torch.randn(12, 7, dtype=torch.float64), batch(0, num_items=12)[1]
    reference, scaled = network(0.0), network(0.0)
    large_batch_backward(reference, images.split(4), paths, SupHAP())
    large_batch_backward(scaled, images.split(4), paths, SupHAP(), backward=lambda loss: (1024 * loss).backward())
    for a, b in zip(reference.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(b.grad, 1024 * a.grad)
    with pytest.raises(OptionError, match="chunks"):
        large_batch_backward(reference, [], paths, SupHAP())
