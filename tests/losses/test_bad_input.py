"""Input that cannot be used is refused with an error of hiertree that says what was given, whatever its type."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from hiertree import losses
from hiertree.errors import HiertreeError, InputError, OptionError, ShapeError
from hiertree.losses import functional

NUM_CLASSES, SIZE = 3, 4
EMBEDDINGS = torch.randn(6, SIZE, generator=torch.Generator().manual_seed(0))
PATHS = torch.tensor([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2]])
MINED = (torch.tensor([0]), torch.tensor([1]), torch.tensor([0]), torch.tensor([2]))
LOSSES = {
    "SupHAP": losses.SupHAP,
    "SupHAP of weighted levels": lambda: losses.SupHAP(level_weights=(0.2, 0.8)),
    "SmoothRecall": lambda: losses.SmoothRecall(similarity_mixup=True),
    "FastAP": losses.FastAP,
    "BlackboxAP": losses.BlackboxAP,
    "HAPPIER": lambda: losses.HAPPIER(NUM_CLASSES, SIZE),
    "ROADMAP": losses.ROADMAP,
    "ProxyDecomposability": lambda: losses.ProxyDecomposability(NUM_CLASSES, SIZE),
    "CSL": lambda: losses.CSL([[0, 0], [0, 1], [1, 2]], SIZE),
    "TieAwareAP": losses.TieAwareAP,
    "HashNet": losses.HashNet,
    "DTSH": losses.DTSH,
    "HierarchicalTriplet": lambda: losses.HierarchicalTriplet((0.1, 0.2)),
    "Hyperbolic": lambda: losses.Hyperbolic(losses.SupCon()),
    "HIER": lambda: losses.HIER(losses.SupAP(), SIZE),
    "LevelSum": lambda: losses.LevelSum(lambda _: losses.SupAP(), (2, NUM_CLASSES)),
    "CrossBatchMemory": lambda: losses.CrossBatchMemory(losses.SupHAP(), SIZE, 2, size=10),
    "DistributedLoss": lambda: losses.DistributedLoss(losses.SupHAP()),
}
BATCHES = {
    "rows of different lengths": ([[1.0, 2.0, 3.0, 4.0], [1.0]], PATHS[:2]),
    "paths of different lengths": (EMBEDDINGS, [[0, 0], [0], [0, 1], [0, 1], [1, 2], [1, 2]]),
    "embeddings that are strings": (np.full((6, SIZE), "a"), PATHS),
    "labels that are strings": (EMBEDDINGS, np.full((6, 2), "a")),
    "objects": (np.full((6, SIZE), None), PATHS),
    "no embeddings": (None, PATHS),
    "no paths": (EMBEDDINGS, None),
    "a mapping": ({}, PATHS),
    "a number": (1.0, 2),
    "integer embeddings": (EMBEDDINGS.long(), PATHS),
    "booleans": (EMBEDDINGS > 0, PATHS),
    "complex numbers": (EMBEDDINGS + 0j, PATHS),
    "too few labels": (EMBEDDINGS, PATHS[:4]),
    "NaN": (EMBEDDINGS * math.nan, PATHS),
    "infinite values": (EMBEDDINGS / 0, PATHS),
    "an empty batch": (EMBEDDINGS[:0], PATHS[:0]),
    "three dimensions": (EMBEDDINGS[None], PATHS),
    "float paths": (EMBEDDINGS, PATHS.float()),
    "negative paths": (EMBEDDINGS, PATHS - 3),
}
KNOW_SIZE = ["HAPPIER", "HIER", "ProxyDecomposability", "CSL", "CrossBatchMemory"]
KNOW_DEPTH = ["SupHAP of weighted levels", "HierarchicalTriplet", "CSL", "LevelSum", "CrossBatchMemory"]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("case", BATCHES)
def test_a_batch_that_cannot_be_used_is_refused(name, case):
    with pytest.raises(InputError):
        LOSSES[name]()(*BATCHES[case])


@pytest.mark.parametrize("case", ["rows of different lengths", "a mapping", "NaN", "too few labels", "no paths"])
@pytest.mark.parametrize("name", ["SupHAP", "SmoothRecall", "HAPPIER", "TieAwareAP", "LevelSum"])
def test_references_that_cannot_be_used_are_refused(name, case):
    with pytest.raises(InputError):
        LOSSES[name]()(EMBEDDINGS, PATHS, *BATCHES[case])


def test_arrays_that_cannot_be_written_are_read_without_a_warning():
    embeddings, paths = EMBEDDINGS.numpy().copy(), PATHS.numpy().copy()
    for array in (embeddings, paths):
        array.flags.writeable = False  # as those of frames and memory maps are
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(losses.SupHAP()(embeddings, paths), losses.SupHAP()(EMBEDDINGS, PATHS))
        losses.CSL(paths[[0, 2, 4]], SIZE)


@pytest.mark.parametrize("name", KNOW_SIZE)
def test_embeddings_of_another_size_than_at_construction_are_refused(name):
    with pytest.raises(ShapeError, match=r"5 dimensions.*4"):
        LOSSES[name]()(torch.randn(6, 5), PATHS)


@pytest.mark.parametrize("name", KNOW_DEPTH)
@pytest.mark.parametrize("depth", [1, 3])
def test_paths_of_another_depth_than_at_construction_are_refused(name, depth):
    paths = torch.cat([PATHS, torch.arange(6)[:, None]], dim=1)[:, :depth]
    with pytest.raises(InputError, match=f"{depth} level"):
        LOSSES[name]()(EMBEDDINGS, paths)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "DistributedLoss"])
def test_a_mask_may_be_an_array_or_a_list_of_booleans_and_nothing_else(name):
    mask = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) < 0.7

    def value(valid):
        torch.manual_seed(0)
        return LOSSES[name]()(EMBEDDINGS, PATHS, valid=valid)

    for mask_form in (mask.numpy(), mask.tolist()):
        torch.testing.assert_close(value(mask_form), value(mask), rtol=0, atol=0)
    for wrong in (mask.numpy().astype(int), mask.float(), [[True], [True, False]], "mask", mask[0], mask[:5]):
        with pytest.raises(ShapeError, match="valid"):
            value(wrong)


@pytest.mark.parametrize("name", LOSSES)
def test_pairs_of_a_miner_are_not_taken_for_references(name):
    with pytest.raises(ShapeError, match="as_pytorch_metric_learning"):
        LOSSES[name]()(EMBEDDINGS, PATHS, indices_tuple=MINED)
    if name not in ("CrossBatchMemory", "DistributedLoss"):
        with pytest.raises(ShapeError, match="as_pytorch_metric_learning"):
            LOSSES[name]()(EMBEDDINGS, PATHS, MINED)


def test_pairs_of_a_miner_must_be_pairs_of_the_batch():
    pytest.importorskip("pytorch_metric_learning")
    loss = losses.as_pytorch_metric_learning(losses.SupHAP())
    assert loss(EMBEDDINGS, PATHS, MINED).ndim == 0
    with pytest.raises(ShapeError, match="indices_tuple"):
        loss(EMBEDDINGS, PATHS, MINED[:1])
    with pytest.raises(ShapeError, match="indices_tuple"):
        loss(EMBEDDINGS, PATHS, (torch.tensor([90]), *MINED[1:]))


SCORES, LEVELS = torch.tensor([[0.5, 0.2, 0.1], [0.3, 0.2, 0.4]]), torch.tensor([[1, 0, 0], [1, 1, 0]])
TABLE = torch.ones(2, 2)
BAD_SCORES = {
    "scores of different lengths": {"scores": [[1.0, 2.0], [1.0]]},
    "scores that are strings": {"scores": "abc"},
    "no scores": {"scores": None},
    "complex scores": {"scores": SCORES + 0j},
    "levels of different lengths": {"levels": [[1], [0, 1]]},
    "levels that are strings": {"levels": "a"},
    "no levels": {"levels": None},
    "a mask of integers": {"valid": np.ones((2, 3), int)},
    "a mask of floats": {"valid": torch.ones(2, 3)},
    "a mask that is a string": {"valid": "all"},
}
BAD_TABLES = {
    "a table of different lengths": {"table": [[1], [0, 1]]},
    "a table that is a string": {"table": "hap"},
    "no table": {"table": None},
    "a complex table": {"table": TABLE + 0j},
}
WITH_TABLE = ["sup_hap", "sup_ndcg", "sup_ap", "sup_recall", "smooth_hap", "smooth_ndcg", "smooth_ap", "smooth_recall"]
WITHOUT = ["fast_ap", "blackbox_ap", "pair_decomposability"]


@pytest.mark.parametrize("case", {**BAD_SCORES, **BAD_TABLES})
@pytest.mark.parametrize("name", [*WITH_TABLE, *WITHOUT])
def test_scores_that_cannot_be_used_are_refused(name, case):
    changed = {**BAD_SCORES, **BAD_TABLES}[case]
    arguments = {"scores": SCORES, "levels": LEVELS, "table": TABLE, **changed}
    if name in WITHOUT:
        arguments = {"level": 1, **{key: value for key, value in arguments.items() if key != "table"}}
        if case in BAD_TABLES:
            return
    with pytest.raises(InputError):
        getattr(functional, name)(**arguments)


def happier(**changed):
    return losses.HAPPIER(**{"num_classes": 3, "embedding_size": 4, **changed})


def csl(**changed):
    return losses.CSL(**{"class_paths": [[0, 0], [0, 1]], "embedding_size": 4, **changed})


def memory(**changed):
    return losses.CrossBatchMemory(**{"loss": losses.SupAP(), "embedding_size": 4, "num_levels": 2, **changed})


def level_sum(**changed):
    return losses.LevelSum(**{"loss": lambda _: losses.SupAP(), "level_sizes": (2, 3), **changed})


NUMBERS = ["a", None, [1], {}, math.nan, 10**400, True]
INTEGERS = [*NUMBERS[:5], True, 1.5, -1]
SCALES = [*NUMBERS, 0, -1.0]  # numbers above 0
COUNTS = [*INTEGERS, 0]
OPTIONS = [
    *[(losses.SupHAP, name, NUMBERS) for name in ("rho", "start")],
    (losses.SupHAP, "tau", SCALES),
    (losses.SupHAP, "split_by", ["rank"]),
    (happier, "alpha", [*NUMBERS, -1.0]),
    *[(losses.SupHAP, name, ["a", [1], {}, math.nan]) for name in ("delta", "offset")],
    (losses.SupHAP, "level_weights", ["a", ["a"], {}, 0.5, [-1.0, 2.0]]),
    (losses.SmoothAP, "tau", NUMBERS),
    *[(loss, "level", ["a", [1], {}, 1.5, 0, True]) for loss in (losses.SmoothAP, losses.TieAwareAP, losses.MIHash)],
    (losses.SupRecall, "ks", ["a", None, 1.5, -1, [], ["a"], [0], (1.5,)]),
    *[(loss, "tau_star", SCALES) for loss in (losses.SupRecall, losses.SmoothRecall)],
    *[(losses.PairDecomposability, name, NUMBERS) for name in ("alpha", "beta")],
    (losses.PairDecomposability, "reduction", ["sum"]),
    (losses.ROADMAP, "decomposability", ["proxies", "proxy"]),
    *[(happier, name, COUNTS) for name in ("num_classes", "embedding_size", "centers")],
    (happier, "lambda_", [*NUMBERS, 1.5]),
    (happier, "eta", SCALES),
    (happier, "center_temperature", [0]),
    (happier, "sampled_classes", ["a", [1], {}, 1.5, 0]),
    (happier, "initial", ["small", 0, -1.0, math.nan, None]),
    *[(losses.TieAwareAP, name, SCALES) for name in ("alpha", "alpha_factor")],
    (losses.TieAwareAP, "alpha_every", COUNTS),
    (losses.TieAwareNDCG, "alpha_factor", [0.5]),
    *[(loss, "num_bins", ["a", [1], {}, 1.5, 0]) for loss in (losses.TieAwareAP, losses.TieAwareNDCG)],
    (losses.HashNet, "slope", [0]),
    *[(loss, name, [-1]) for loss, name in ((losses.HashNet, "positive_weight"), (losses.DTSH, "margin"))],
    (losses.DPSH, "quantization", [-1]),
    (losses.FastAP, "num_bins", COUNTS),
    (losses.SoftBinAP, "num_bins", [1]),
    (losses.BlackboxAP, "blackbox_lambda", SCALES),
    (losses.BlackboxAP, "margin", [*NUMBERS, -1.0]),
    (csl, "scale", SCALES),
    (csl, "margins", ["a", [1], 1.5, ["a", "b"], (0.2,)]),
    (csl, "embedding_size", COUNTS),
    (memory, "loss", ["a", None, torch.nn.Identity()]),
    (memory, "warm_up", INTEGERS),
    *[(memory, name, COUNTS) for name in ("embedding_size", "num_levels", "size")],
    *[(memory, name, value) for name, value in (("enqueue", ["never"]), ("from_epoch", [-1]))],
    (losses.DistributedLoss, "loss", ["a", None, torch.nn.Identity()]),
    (level_sum, "loss", ["a", None, 3]),
    (level_sum, "level_sizes", ["a", None, 3, (), (0,), (1.5,)]),
    *[(losses.GrowingAlpha, name, NUMBERS) for name in ("initial", "factor")],
    (losses.GrowingAlpha, "every", COUNTS),
    (partial(losses.Hyperbolic, losses.SupAP()), "curvature", [0]),
    *[(partial(losses.HIER, losses.SupAP(), SIZE), name, [0]) for name in ("temperature", "neighbors")],
]


@pytest.mark.parametrize(("make", "name", "value"), [(*case[:2], value) for case in OPTIONS for value in case[2]])
def test_an_option_of_the_wrong_type_or_range_is_refused_by_name(make, name, value):
    with pytest.raises(OptionError, match=name):
        make(**{name: value})


def test_a_loss_of_another_library_is_told_from_one_of_hiertree():
    library = pytest.importorskip("pytorch_metric_learning.losses")
    with pytest.raises(OptionError, match="PytorchMetricLearning"):
        losses.CrossBatchMemory(library.ContrastiveLoss(), 4, 2)
    for options in ({"loss_options": 3}, {"level": "a"}, {"level_sizes": 3}):
        with pytest.raises(OptionError):
            losses.PytorchMetricLearning("ContrastiveLoss", **options)


@pytest.mark.parametrize(
    "call",
    [
        lambda: losses.binary_codes([[1.0], [1.0, 2.0]]),
        lambda: losses.all_gather("a", [0]),
        lambda: losses.decomposability_gap([[1], [1, 2]], LEVELS, [0, 0, 1]),
        lambda: losses.decomposability_gap("a", LEVELS, [0, 0, 1]),
        lambda: losses.decomposability_bound([["a"]], [0]),
        lambda: losses.decomposability_bound(LEVELS, [0, 0, 1], level="a"),
        lambda: losses.decomposability_bound_with_margins(SCORES, LEVELS, [0, 0, 1], alpha="a"),
        lambda: losses.large_batch_backward(torch.nn.Identity(), [EMBEDDINGS], PATHS, torch.nn.Identity()),
        lambda: losses.as_pytorch_metric_learning(None),
    ],
)
def test_other_functions_refuse_what_they_cannot_use(call):
    with pytest.raises(HiertreeError):
        call()
