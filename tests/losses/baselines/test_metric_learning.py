"""Losses of pytorch-metric-learning in hiertree, hiertree's in that library, and flat losses summed over levels."""

from __future__ import annotations

import sys
from functools import partial

import pytest
import torch
from loss_loops import labeled_batch

from hiertree.errors import EmbeddingError, MissingResourceError, OptionError, PathError, ShapeError
from hiertree.losses import (
    HAPPIER,
    ROADMAP,
    FastAP,
    LevelSum,
    ProxyDecomposability,
    PytorchMetricLearning,
    SmoothNDCG,
    SupAP,
    SupHAP,
    TieAwareAP,
    as_pytorch_metric_learning,
)

library = pytest.importorskip("pytorch_metric_learning.losses")
miners = pytest.importorskip("pytorch_metric_learning.miners")


batch = partial(labeled_batch, dtype=torch.float32)


PAIR_LOSSES = ["TripletMarginLoss", "MultiSimilarityLoss", "ContrastiveLoss", "NTXentLoss"]
PROXY_LOSSES = ["NormalizedSoftmaxLoss", "ProxyNCALoss", "ArcFaceLoss", "CosFaceLoss", "SoftTripleLoss"]


@pytest.mark.parametrize("name", PAIR_LOSSES)
@pytest.mark.parametrize("level", [None, 1])
def test_a_loss_of_the_library_gets_the_labels_of_its_level(name, level):
    embeddings, paths = batch()
    column = paths[:, 1 if level is None else 0]
    loss = PytorchMetricLearning(name, level=level)
    torch.testing.assert_close(loss(embeddings, paths), getattr(library, name)()(embeddings, column))
    references, other_paths = batch(1)
    expected = getattr(library, name)()(
        embeddings, column, ref_emb=references, ref_labels=other_paths[:, 1 if level is None else 0]
    )
    torch.testing.assert_close(loss(embeddings, paths, references, other_paths), expected)


@pytest.mark.parametrize("name", PROXY_LOSSES)
def test_a_loss_with_proxies_has_one_class_a_node_of_its_level(name):
    embeddings, paths = batch()
    for level, num_classes in ((1, 3), (2, 6)):
        loss = PytorchMetricLearning(name, (3, 6), 5, level=level)
        twin = getattr(library, name)(num_classes=num_classes, embedding_size=5)
        twin.load_state_dict(loss.loss.state_dict())
        value = loss(embeddings, paths)
        torch.testing.assert_close(value, twin(embeddings, paths[:, level - 1]))
        value.backward()
        assert all(parameter.grad is not None for parameter in loss.parameters())


def test_distance_and_reducer_by_name_give_the_gradient_of_xbms_own_pair_loss():
    """``xbm_loss.py`` of SupRank: 1 − s of positives and s of negatives above 0.5, summed, over the queries."""
    (embeddings, paths), (references, other_paths) = batch(0), batch(1)
    modules_by_name = {"distance": "DotProductSimilarity", "reducer": "SumReducer"}
    loss = PytorchMetricLearning(
        "ContrastiveLoss", loss_options={"pos_margin": 1.0, "neg_margin": 0.5, **modules_by_name}
    )
    loss(embeddings.requires_grad_(), paths, references, other_paths).backward()
    gradient, embeddings.grad = embeddings.grad, None
    scores = torch.nn.functional.normalize(embeddings) @ torch.nn.functional.normalize(references).T
    positives = paths[:, 1:] == other_paths[:, 1]
    (((1 - scores) * positives).sum() + (scores * (~positives & (scores > 0.5))).sum()).div(len(embeddings)).backward()
    torch.testing.assert_close(gradient, len(embeddings) * embeddings.grad)
    with pytest.raises(OptionError, match="a class of pytorch_metric_learning"):
        PytorchMetricLearning("TripletMarginLoss", loss_options={"distance": "Cosine"})


def test_a_miner_chooses_the_triplets():
    embeddings, paths = batch()
    loss = PytorchMetricLearning(
        "TripletMarginLoss",
        loss_options={"margin": 0.1},
        miner="TripletMarginMiner",
        miner_options={"margin": 0.1, "type_of_triplets": "semihard"},
    )
    miner = miners.TripletMarginMiner(margin=0.1, type_of_triplets="semihard")
    expected = library.TripletMarginLoss(margin=0.1)(embeddings, paths[:, 1], miner(embeddings, paths[:, 1]))
    torch.testing.assert_close(loss(embeddings, paths), expected)


@pytest.mark.parametrize("miner", [None, "TripletMarginMiner", "MultiSimilarityMiner"])
def test_a_mask_says_which_pairs_count(miner):
    embeddings, paths = batch()
    loss = PytorchMetricLearning("ContrastiveLoss", miner=miner)
    queries = torch.arange(16) < 9
    masked = loss(embeddings, paths, valid=queries[:, None])
    valid = torch.ones(16, 16, dtype=torch.bool)
    torch.testing.assert_close(loss(embeddings, paths, valid=valid), loss(embeddings, paths))
    assert masked.item() != loss(embeddings, paths).item()
    if miner is None:
        anchors = torch.arange(9)
        pairs = (paths[:9, None, 1] == paths[None, :, 1], paths[:9, None, 1] != paths[None, :, 1])
        pairs[0][anchors, anchors] = False
        indices = (*pairs[0].nonzero(as_tuple=True), *pairs[1].nonzero(as_tuple=True))
        torch.testing.assert_close(masked, library.ContrastiveLoss()(embeddings, paths[:, 1], indices))


def test_distance_weighted_sampling_goes_with_a_margin():
    torch.manual_seed(0)
    loss = PytorchMetricLearning("MarginLoss", (3, 6), 5, miner="DistanceWeightedMiner", miner_options={"cutoff": 0.5})
    embeddings, paths = batch()
    value = loss(embeddings.requires_grad_(), paths)
    value.backward()
    assert value.isfinite()
    assert embeddings.grad is not None


def test_proxies_are_compared_with_when_there_is_a_memory_too():
    embeddings, paths = batch()
    loss = PytorchMetricLearning("NormalizedSoftmaxLoss", (3, 6), 5)
    torch.testing.assert_close(loss(embeddings, paths, *batch(1)), loss(embeddings, paths))


def test_proxy_decomposability_is_proxy_nca_at_half_its_temperature():
    proxy_nca_loss = ProxyDecomposability(6, 5, eta=1 / 18, initial=0.125)
    library_loss = PytorchMetricLearning("ProxyNCALoss", (3, 6), 5, loss_options={"softmax_scale": 9})
    library_loss.loss.proxies.data.copy_(proxy_nca_loss.proxies)
    embeddings, labels = torch.randn(12, 5), torch.arange(12) % 6
    values = [loss(embeddings, labels) for loss in (proxy_nca_loss, library_loss)]
    gradients = [
        torch.autograd.grad(value, list(loss.parameters()))[0]
        for value, loss in zip(values, (proxy_nca_loss, library_loss), strict=True)
    ]
    torch.testing.assert_close(values[0], values[1])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("initial", "deviation"), [("normal", 1.0), (0.125, 0.125), ("uniform", (3 * 400) ** -0.5)])
def test_proxies_start_as_far_out_as_asked(initial, deviation):
    assert float(ProxyDecomposability(50, 400, initial=initial).proxies.detach().std()) == pytest.approx(
        deviation, rel=0.03
    )


def test_a_mask_says_which_items_meet_the_proxies():
    embeddings, paths = batch()
    loss = PytorchMetricLearning("ProxyNCALoss", (3, 6), 5)
    torch.testing.assert_close(
        loss(embeddings, paths, valid=(torch.arange(16) < 9)[:, None]), loss(embeddings[:9], paths[:9])
    )
    value = loss(embeddings.requires_grad_(), paths, valid=torch.zeros(16, 1, dtype=torch.bool))
    value.backward()
    assert value.item() == 0


def test_half_precision_is_computed_with_in_float32():
    embeddings, paths = batch()
    loss = PytorchMetricLearning("NormalizedSoftmaxLoss", (3, 6), 5)
    half = embeddings.bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(half, paths)
    value.backward()
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float(), paths))


def test_what_the_library_does_not_have_is_refused():
    with pytest.raises(OptionError, match="did you mean 'TripletMarginLoss'"):
        PytorchMetricLearning("TripletMarginLos")
    with pytest.raises(OptionError, match="'margn'"):
        PytorchMetricLearning("TripletMarginLoss", loss_options={"margn": 1})
    with pytest.raises(OptionError, match="level_sizes and embedding_size"):
        PytorchMetricLearning("ProxyNCALoss")
    with pytest.raises(OptionError, match="level=3"):
        PytorchMetricLearning("TripletMarginLoss", level=3)(*batch())
    with pytest.raises(OptionError, match="an object of one"):
        PytorchMetricLearning(7)
    with pytest.raises(PathError, match="finest id 5 in row"):
        PytorchMetricLearning("ProxyNCALoss", (2, 5), 5)(*batch(num_items=60))
    embeddings, paths = batch()
    embeddings[3] = float("nan")
    with pytest.raises(EmbeddingError, match="rows: 3"):
        PytorchMetricLearning("TripletMarginLoss")(embeddings, paths)


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning", None)
    for call in (lambda: PytorchMetricLearning("TripletMarginLoss"), lambda: as_pytorch_metric_learning(SupAP())):
        with pytest.raises(MissingResourceError, match=r'pip install "hiertree\[interop\]"'):
            call()


def test_a_level_sum_adds_the_loss_of_every_level():
    embeddings, paths = batch()
    triplets = LevelSum(lambda _: library.TripletMarginLoss(), level_sizes=(3, 6))
    expected = sum(library.TripletMarginLoss()(embeddings, paths[:, column]) for column in (0, 1))
    torch.testing.assert_close(triplets(embeddings, paths), expected)
    softmax = LevelSum(lambda n: library.NormalizedSoftmaxLoss(n, 5), level_sizes=(3, 6))
    assert [tuple(parameter.shape) for parameter in softmax.parameters()] == [(5, 3), (5, 6)]
    mean = LevelSum(lambda _: library.TripletMarginLoss(), level_sizes=(3, 6), reduction="mean")
    torch.testing.assert_close(2 * mean(embeddings, paths), triplets(embeddings, paths))
    level_sum = LevelSum(lambda _: SupAP(), level_sizes=(3, 6))
    references = batch(1)
    value = level_sum(embeddings, paths, *references)
    torch.testing.assert_close(
        value, SupAP(level=1)(embeddings, paths, *references) + SupAP()(embeddings, paths, *references)
    )
    assert set(level_sum.terms(embeddings, paths)) == set(level_sum.weights) == {"level 1", "level 2"}
    mixed = LevelSum(lambda n: ProxyDecomposability(n, 5), level_sizes=(3, 6))
    assert mixed(embeddings, paths).isfinite()


def test_a_level_sum_counts_the_queries_left_out_at_each_level():
    loss = LevelSum(lambda _: SupAP(), level_sizes=(1, 3))
    loss(torch.eye(3), torch.tensor([[0, 0], [0, 1], [0, 2]]))
    assert loss.last_num_skipped == 3
    with pytest.raises(ShapeError, match="1 levels"):
        loss(torch.eye(3), torch.arange(3))
    with pytest.raises(OptionError, match="level_sizes"):
        LevelSum(lambda _: SupAP(), level_sizes=())


def test_our_losses_are_called_as_the_librarys():
    embeddings, paths = batch()
    references, other_paths = batch(1)
    loss = as_pytorch_metric_learning(SupHAP())
    torch.testing.assert_close(loss(embeddings, paths), SupHAP()(embeddings, paths))
    torch.testing.assert_close(
        loss(embeddings, paths, ref_emb=references, ref_labels=other_paths),
        SupHAP()(embeddings, paths, references, other_paths),
    )
    assert isinstance(loss, library.BaseMetricLossFunction)
    multiple = library.MultipleLosses([loss, library.TripletMarginLoss()])
    column = paths[:, 1]
    torch.testing.assert_close(
        multiple(embeddings, column), SupHAP()(embeddings, column) + library.TripletMarginLoss()(embeddings, column)
    )
    with pytest.raises(OptionError, match="labels"):
        loss(embeddings)


CLASS_PATHS = torch.stack([torch.arange(6) // 2, torch.arange(6)], dim=1)


def test_the_librarys_memory_takes_our_losses_with_labels_and_with_paths_of_classes():
    (first, first_paths), (second, second_paths) = batch(), batch(1)
    pair_of_batches, mask = torch.cat([first, second]), torch.cat([torch.ones(16, 16), 1 - torch.eye(16)], dim=1).bool()
    for loss, class_paths, columns in ((SupAP(), None, [1]), (SupHAP(), CLASS_PATHS, [0, 1])):
        memory = library.CrossBatchMemory(as_pytorch_metric_learning(loss, class_paths=class_paths), 5, memory_size=40)
        memory(first, first_paths[:, 1])
        value = memory(second, second_paths[:, 1])
        every_path = torch.cat([first_paths, second_paths])[:, columns]
        torch.testing.assert_close(
            value, loss(second, second_paths[:, columns], pair_of_batches, every_path, valid=mask)
        )
    with pytest.raises(PathError, match="row of class_paths"):
        as_pytorch_metric_learning(SupHAP(), class_paths=CLASS_PATHS[:2])(first, first_paths[:, 1])
    with pytest.raises(ShapeError, match="with class_paths"):
        as_pytorch_metric_learning(SupHAP(), class_paths=CLASS_PATHS)(first, first_paths)


@pytest.mark.parametrize("symmetric", [True, False])
def test_self_supervision_of_the_library_takes_our_losses(symmetric):
    (images, _), (augmented, _) = batch(), batch(1)
    value = library.SelfSupervisedLoss(as_pytorch_metric_learning(SupAP()), symmetric=symmetric)(images, augmented)
    labels = torch.arange(16)
    expected = SupAP()(torch.cat([images, augmented]), labels.repeat(2))
    torch.testing.assert_close(value, expected if symmetric else SupAP()(images, labels, augmented, labels))


@pytest.mark.parametrize("efficient", [True, False])
def test_the_librarys_wrapper_for_processes_takes_our_losses(efficient, monkeypatch):
    from pytorch_metric_learning.utils import distributed

    (embeddings, paths), (references, other_paths) = batch(), batch(1)
    column, other_column = paths[:, 1], other_paths[:, 1]
    monkeypatch.setattr(distributed, "is_distributed", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(
        distributed, "all_gather", lambda rows: references if rows.is_floating_point() else other_column
    )
    adapter = as_pytorch_metric_learning(SupHAP(), class_paths=CLASS_PATHS)
    value = distributed.DistributedLossWrapper(adapter, efficient=efficient)(embeddings, column)
    full_batch = torch.cat([embeddings, references]), torch.cat([paths, other_paths])
    queries = (embeddings, paths) if efficient else full_batch
    valid = ~torch.eye(len(queries[0]), 32, dtype=torch.bool)
    torch.testing.assert_close(value, 2 * SupHAP()(*queries, *full_batch, valid=valid))


def test_pairs_without_labels_say_which_are_positive():
    embeddings, paths = batch()
    references, other_paths = batch(1)
    cross_positives = paths[:, None, 1] == other_paths[None, :, 1]
    of_references = (*cross_positives.nonzero(as_tuple=True), *(~cross_positives).nonzero(as_tuple=True))
    positives = paths[:, None, 1] == paths[None, :, 1]
    pairs = (*positives.clone().fill_diagonal_(False).nonzero(as_tuple=True), *(~positives).nonzero(as_tuple=True))
    for loss in (SupAP(), ROADMAP(), SmoothNDCG(), FastAP(), TieAwareAP()):
        adapter = as_pytorch_metric_learning(loss)
        torch.testing.assert_close(adapter(embeddings, None, pairs), loss(embeddings, paths[:, 1]))
        expected = loss(embeddings, paths[:, 1], references, other_paths[:, 1])
        torch.testing.assert_close(adapter(embeddings, None, of_references, references), expected)
    with pytest.raises(OptionError, match="labels=None: expected labels"):
        as_pytorch_metric_learning(HAPPIER(6, 5))(embeddings, None, pairs)


def test_labels_may_be_what_the_librarys_may_be():
    embeddings, paths = batch()
    column = paths[:, 1]
    loss, library_loss = as_pytorch_metric_learning(SupAP()), library.ContrastiveLoss()
    for labels in (column.float(), column - 3, column.double() * 0.1, column.to(torch.uint8), -column.bfloat16()):
        assert library_loss(embeddings, labels) == library_loss(embeddings, column)
        torch.testing.assert_close(loss(embeddings, labels), SupAP()(embeddings, column))
        value = loss(embeddings, labels, ref_emb=embeddings[3:], ref_labels=labels[3:])
        torch.testing.assert_close(value, SupAP()(embeddings, column, embeddings[3:], column[3:]))
    torch.testing.assert_close(loss(embeddings, column > 2), SupAP()(embeddings, (column > 2).long()))
    torch.testing.assert_close(
        as_pytorch_metric_learning(SupHAP())(embeddings, paths - 1.5), SupHAP()(embeddings, paths)
    )
    without_positives = loss(embeddings, torch.full((16,), float("nan")))  # not equal to itself
    assert without_positives == 0
    happier = HAPPIER(6, 5)
    torch.testing.assert_close(
        as_pytorch_metric_learning(happier)(embeddings, column.float()), happier(embeddings, column)
    )
    with pytest.raises(PathError, match="finest id 6"):
        as_pytorch_metric_learning(happier)(embeddings, torch.where(column == 0, -1, column))


def test_mined_tuples_are_the_candidates_of_our_losses():
    embeddings, paths = batch()
    column = paths[:, 1]
    loss = as_pytorch_metric_learning(SupAP())
    positives = column[:, None] == column[None, :]
    pairs = (
        *positives.fill_diagonal_(False).nonzero(as_tuple=True),
        *(column[:, None] != column).nonzero(as_tuple=True),
    )
    torch.testing.assert_close(loss(embeddings, column, pairs), SupAP()(embeddings, column))
    triplets = miners.TripletMarginMiner(type_of_triplets="hard")(embeddings, column)
    valid = torch.zeros(16, 16, dtype=torch.bool)
    valid[triplets[0], triplets[1]] = True
    valid[triplets[0], triplets[2]] = True
    torch.testing.assert_close(loss(embeddings, column, triplets), SupAP()(embeddings, column, valid=valid))


def test_proxies_of_our_losses_are_parameters_of_the_librarys():
    loss = as_pytorch_metric_learning(HAPPIER(6, 5))
    assert [tuple(parameter.shape) for parameter in loss.parameters()] == [(6, 5)]
