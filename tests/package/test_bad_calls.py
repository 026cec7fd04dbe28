"""Every public function, each argument of a good call spoiled in turn: a typed error of ours, or a sound value.

A value is sound if it holds no infinity and not only NaN. Whatever happens, no array that was given is changed.
"""

from __future__ import annotations

import copy
import signal
from contextlib import suppress

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import hiertree as ht
from hiertree import losses, metrics
from hiertree.errors import HiertreeError
from hiertree.losses import functional
from hiertree.metrics import statistics

RANDOM = np.random.default_rng(0)
PATHS = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [1, 3], [1, 3]])
EMBEDDINGS = RANDOM.standard_normal((8, 4)).astype(np.float32)
SCORES = RANDOM.standard_normal((3, 6))
LEVELS = np.array([[2, 1, 0, 2, 0, 1], [0, 2, 1, 1, 0, 0], [1, 0, 2, 0, 2, 2]])
TABLE = np.array([[0.0, 0.25, 0.5]] * 3)
CODES = RANDOM.choice([-1.0, 1.0], size=(8, 16))
RUN = {"q": {"a": 2.0, "b": 1.0}, "r": {"b": 3.0, "c": 1.0}}
QRELS = {"q": {"a": 2, "b": 0}, "r": {"b": 1, "c": 2}}
TREE = ht.LabelTree.from_paths([("natural", "lake", 1), ("natural", "lake", 2), ("human-made", "church", 3)])
GRAPH = nx.DiGraph([("all", "natural"), ("all", "human-made"), ("natural", "lake"), ("human-made", "church")])


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float32 if np.asarray(values).dtype.kind == "f" else None)


def loss_call(name, **construction):
    """The class built and called at once, so that its options and its inputs are spoiled alike."""

    def call(embeddings, paths, **options):
        torch.manual_seed(0)
        return getattr(losses, name)(**options)(embeddings, paths)

    return call, {"embeddings": tensor(EMBEDDINGS), "paths": torch.as_tensor(PATHS), **construction}


def batches(sampler):
    return lambda **options: [batch for batch, _ in zip(sampler(**options), range(3), strict=False)]


_STEP = {"tau": 0.01, "rho": 100.0, "delta": 0.05, "start": 0.5, "offset": 1.0}
_LOSS = {"scores": tensor(SCORES), "levels": torch.as_tensor(LEVELS), "table": tensor(TABLE)}
_BATCH = {"paths": PATHS, "batch_size": 4, "images_per_class": 2, "seed": 0}
_METRIC = {"scores": SCORES, "levels": LEVELS, "valid": np.ones((3, 6), bool), "ties": "average"}
_PROXIES = {"num_classes": 4, "embedding_size": 4}

CALLS = {
    "LabelTree.from_paths": (
        ht.LabelTree.from_paths,
        {"rows": [("natural", "lake", 1), ("human-made", "church", 2)], "level_names": ["kind", "type", "id"]},
    ),
    "LabelTree.from_edges": (ht.LabelTree.from_edges, {"edges": [("all", "natural"), ("all", "human-made")]}),
    "LabelTree.from_networkx": (ht.LabelTree.from_networkx, {"graph": GRAPH}),
    "LabelTree.from_frame": (
        ht.LabelTree.from_frame,
        {"frame": pd.DataFrame({"kind": ["natural", "human-made"], "id": [1, 2]}), "levels": ["kind", "id"]},
    ),
    "LabelTree.restrict": (TREE.restrict, {"leaves": [1, 3]}),
    "LabelTree.paths": (TREE.paths, {"leaf_ids": [1, 2, 3]}),
    "LabelTree.lca_level": (TREE.lca_level, {"a": 1, "b": 3}),
    "levels": (ht.levels, {"query_paths": PATHS, "gallery_paths": PATHS}),
    "level_counts": (ht.level_counts, {"levels": LEVELS, "num_levels": 2}),
    "relevance.hap": (ht.relevance.hap, {"counts": np.array([[2, 1, 1]]), "alpha": 1.0}),
    "relevance.linear": (ht.relevance.linear, {"counts": np.array([[2, 1, 1]])}),
    "relevance.gain": (ht.relevance.gain, {"counts": np.array([[2, 1, 1]])}),
    "relevance.weighted_ap": (ht.relevance.weighted_ap, {"counts": np.array([[2, 1, 1]]), "weights": [0.5, 0.5]}),
    "samplers.ClassBalancedSampler": (batches(ht.samplers.ClassBalancedSampler), _BATCH),
    "samplers.SuperCategoryPairSampler": (batches(ht.samplers.SuperCategoryPairSampler), _BATCH),
    "samplers.TreeSampler": (batches(ht.samplers.TreeSampler), {**_BATCH, "batch_size": 8}),
    "datasets.load": (ht.datasets.load, {"name": "synthetic", "split": "train"}),
    "evaluate": (
        metrics.evaluate,
        {
            "query": EMBEDDINGS,
            "query_paths": PATHS,
            "metrics": ["H-AP", "R@1", "NDCG@3"],
            "alpha": 1.0,
            "ties": "best",
            "block_size": 4,
            "query_ids": list("abcdefgh"),
            "protocol": None,
        },
    ),
    "evaluate with a gallery": (
        metrics.evaluate,
        {"query": EMBEDDINGS[:3], "query_paths": PATHS[:3], "gallery": EMBEDDINGS, "gallery_paths": PATHS},
    ),
    "evaluate_scores": (
        metrics.evaluate_scores,
        {"scores": SCORES, "levels": LEVELS, "valid": np.ones((3, 6), bool), "num_levels": 2},
    ),
    "evaluate_codes": (metrics.evaluate_codes, {"query_codes": CODES, "query_paths": PATHS, "metrics": ["H-AP", "AP"]}),
    "evaluate_ranking": (metrics.evaluate_ranking, {"run": RUN, "qrels": QRELS, "num_levels": 2}),
    "evaluate_ranking of indices": (
        metrics.evaluate_ranking,
        {"run": np.array([[1, 2, 3], [0, 2, 3]]), "query_paths": PATHS[:2], "gallery_paths": PATHS},
    ),
    "h_ap": (metrics.h_ap, {**_METRIC, "alpha": 1.0}),
    "ndcg": (metrics.ndcg, {**_METRIC, "k": 3}),
    "asi": (metrics.asi, _METRIC),
    "average_precision": (metrics.average_precision, {**_METRIC, "level": 1}),
    "recall_at_k": (metrics.recall_at_k, {**_METRIC, "k": 2, "level": 1}),
    "true_recall_at_k": (metrics.true_recall_at_k, {**_METRIC, "k": 2}),
    "precision_at_k": (metrics.precision_at_k, {**_METRIC, "k": 2}),
    "map_at_r": (metrics.map_at_r, _METRIC),
    "map_at_k": (metrics.map_at_k, {**_METRIC, "k": 2}),
    "hierarchical_precision_recall": (metrics.hierarchical_precision_recall, _METRIC),
    "holm": (statistics.holm, {"p_values": [0.01, 0.2, 0.5]}),
    "functional.sup_hap": (functional.sup_hap, {**_LOSS, **_STEP, "reduction": "mean"}),
    "functional.sup_ndcg": (functional.sup_ndcg, _LOSS),
    "functional.sup_ap": (functional.sup_ap, {**_LOSS, "level": 2}),
    "functional.smooth_hap": (functional.smooth_hap, {**_LOSS, "tau": 0.01}),
    "functional.sup_recall": (functional.sup_recall, {**_LOSS, "ks": (1, 2), "tau_star": 1.0}),
    "functional.fast_ap": (
        functional.fast_ap,
        {"scores": tensor(SCORES), "levels": torch.as_tensor(LEVELS), "level": 2, "num_bins": 10},
    ),
    "functional.pair_decomposability": (
        functional.pair_decomposability,
        {"scores": tensor(SCORES), "levels": torch.as_tensor(LEVELS), "level": 2, "alpha": 0.9, "beta": 0.6},
    ),
    "SupHAP": loss_call("SupHAP", alpha=1.0, **_STEP),
    "SupNDCG": loss_call("SupNDCG"),
    "SmoothAP": loss_call("SmoothAP", tau=0.01),
    "SupRecall": loss_call("SupRecall"),
    "HAPPIER": loss_call("HAPPIER", **_PROXIES, alpha=1.0, lambda_=0.1),
    "ROADMAP": loss_call("ROADMAP"),
    "PairDecomposability": loss_call("PairDecomposability", alpha=0.9, beta=0.6),
    "ProxyDecomposability": loss_call("ProxyDecomposability", **_PROXIES),
    "CSL": loss_call("CSL", class_paths=np.unique(PATHS, axis=0), embedding_size=4),
    "FastAP": loss_call("FastAP"),
    "BlackboxAP": loss_call("BlackboxAP"),
    "TieAwareAP": loss_call("TieAwareAP"),
}

SCALARS = {
    "text": "x",
    "empty text": "",
    "a NUL": "a\0b",
    "minus one": -1,
    "zero": 0,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a half": 2.5,
    "huge": 10**30,
    "bytes": b"x",
    "a list": [1],
    "an empty list": [],
    "a mapping": {},
    "an object": object(),
    "numbers for names": [3],
    "a ragged list": [[1.0], [1.0, 2.0]],
}


def spoiled(value):
    """What people give by mistake where ``value`` belongs."""
    if not isinstance(value, np.ndarray | torch.Tensor):
        yield from SCALARS.items()
        return
    for name in ("text", "a half", "a mapping", "an object", "an empty list", "a ragged list"):
        yield name, SCALARS[name]
    array = value.numpy() if isinstance(value, torch.Tensor) else value
    back = tensor if isinstance(value, torch.Tensor) else np.asarray
    yield "one dimension less", back(array[0])
    yield "one dimension more", back(array[None])
    yield "four dimensions", back(array[None, None])
    yield "one row less", back(array[:-1])
    yield "no rows", back(array[:0])
    yield "no columns", back(array[:, :0])
    yield "another order in memory", np.asfortranarray(array)
    yield "every second column backwards", array[:, ::-1]
    yield "complex", array.astype(complex)
    yield "texts", array.astype(str)
    yield "objects", array.astype(object)
    yield "big-endian", array.astype(array.dtype.newbyteorder(">"))
    yield "half precision", array.astype(np.float16)
    yield "negated", back(-array if array.dtype != bool else ~array)
    yield "a masked array", np.ma.masked_greater(array, array.min())
    yield "a frame", pd.DataFrame(array)
    if array.dtype.kind == "f":
        for name, bad in (("a NaN", np.nan), ("an infinity", np.inf)):
            yield name, back(np.where(np.arange(array.size).reshape(array.shape) == 1, bad, array))
        yield "all zero", back(np.zeros_like(array))
        yield "huge numbers", back(array * 1e30)
    else:
        yield "huge integers", array.astype(np.int64) + 2**62


CASES = [
    pytest.param(name, argument, how, id=f"{name}-{argument}-{how}")
    for name, (_, arguments) in CALLS.items()
    for argument, value in arguments.items()
    for how, _ in spoiled(value)
]


def numbers_in(result):
    if isinstance(result, torch.Tensor):
        yield result.detach().numpy()
    elif isinstance(result, metrics.Evaluation):
        yield result.summary().to_numpy()
    elif isinstance(result, np.ndarray):
        yield result
    elif isinstance(result, tuple):
        for entry in result:
            yield from numbers_in(entry)


def unchanged(originals, copies):
    arrays = [name for name, value in originals.items() if isinstance(value, np.ndarray | torch.Tensor)]
    return all(np.array_equal(np.asarray(originals[name]), np.asarray(copies[name])) for name in arrays)


@pytest.fixture(autouse=True)
def _no_hang():
    """A call that does not come back is a failure that says where it was."""

    def give_up(*_):
        raise TimeoutError("the call did not come back")

    handler = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)


@pytest.mark.parametrize("name", CALLS)
def test_the_good_call_is_good(name):
    call, arguments = CALLS[name]
    for values in numbers_in(call(**copy.deepcopy(arguments))):
        assert np.isfinite(values).any()


@pytest.mark.fuzz
@pytest.mark.parametrize(("name", "argument", "damage"), CASES)
def test_a_bad_argument_is_a_typed_error_or_does_no_harm(name, argument, damage):
    call, arguments = CALLS[name]
    spoiled_value = dict(spoiled(arguments[argument]))[damage]
    call_arguments = {**copy.deepcopy(arguments), argument: spoiled_value}
    originals = copy.deepcopy({key: value for key, value in call_arguments.items() if key != argument})
    with suppress(HiertreeError):
        for values in numbers_in(call(**call_arguments)):
            assert not np.isinf(values.astype(float)).any()
            assert not values.size or not np.isnan(values.astype(float)).all()
    assert unchanged(originals, call_arguments)
