"""Every loss that ranks a memory, against its loops: one to four levels, ties, a mask, classes of one image."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import pytest
import reference_baselines as baselines
import reference_hashing as hashing
import reference_losses as reference
import torch
from torch import Tensor

from hiertree.losses import (
    BlackboxAP,
    FastAP,
    Loss,
    PairDecomposability,
    SmoothAP,
    SmoothHAP,
    SmoothNDCG,
    SmoothRecall,
    SoftBinAP,
    SupAP,
    SupHAP,
    SupNDCG,
    SupRecall,
    TieAwareAP,
    TieAwareNDCG,
)

Objective: TypeAlias = Callable[[list[float], list[int]], float | None]
SIZE = 4
INATURALIST = {"delta": 0.05, "start": 0.0, "offset": 1.0}
SUP = {"equal": reference.heaviside, "lower": reference.h_minus()}
AUTHORS = {"equal": reference.heaviside, "lower": reference.h_minus(**INATURALIST)}
SMOOTH = {"equal": reference.sigmoid(), "lower": reference.sigmoid()}
RECALL = {"ks": (1, 3), "tau_star": 1.0}
HASHING = {"num_bits": SIZE, "num_bins": SIZE, "simplified": False}


def gains(levels: list[int]) -> list[float]:
    return [2.0**level - 1 for level in levels]


def cosine_losses(depth: int) -> dict[str, tuple[Loss, Objective]]:
    """The loss, and its transcription for the cosines and levels of one query."""
    table, gain = partial(reference.hap_table, num_levels=depth), gains(list(range(depth + 1)))

    def places_ap(scores: list[float], levels: list[int]) -> float | None:
        positive = [level >= depth for level in levels]
        return baselines.one_minus_ap_of_places(baselines.places(scores), positive) if any(positive) else None

    return {
        "SupHAP": (SupHAP(), lambda s, lev: reference.one_minus_h_ap(s, lev, table(lev), **SUP)),
        "SupHAP, H⁻ of the authors": (
            SupHAP(**INATURALIST),
            lambda s, lev: reference.one_minus_h_ap(s, lev, table(lev), **AUTHORS),
        ),
        "SupNDCG": (SupNDCG(), lambda s, lev: reference.one_minus_ndcg(s, lev, gain, **SUP)),
        "SupAP": (SupAP(), lambda s, lev: reference.one_minus_ap(s, lev, depth, **SUP)),
        "SupRecall": (
            SupRecall(**RECALL),
            lambda s, lev: baselines.one_minus_recall(s, lev, depth, **RECALL, **SUP),
        ),
        "SmoothHAP": (SmoothHAP(), lambda s, lev: reference.one_minus_h_ap(s, lev, table(lev), **SMOOTH)),
        "SmoothNDCG": (SmoothNDCG(), lambda s, lev: reference.one_minus_ndcg(s, lev, gain, **SMOOTH)),
        "SmoothAP": (SmoothAP(level=1), lambda s, lev: reference.one_minus_ap(s, lev, 1, **SMOOTH)),
        "SmoothRecall": (
            SmoothRecall(**RECALL),
            lambda s, lev: baselines.one_minus_recall(s, lev, depth, **RECALL, **SMOOTH),
        ),
        "PairDecomposability": (PairDecomposability(), lambda s, lev: reference.pair_decomposability(s, lev, depth)),
        "FastAP": (
            FastAP(),
            lambda s, lev: baselines.one_minus_fast_ap([2 - 2 * c for c in s], [x >= depth for x in lev], 10),
        ),
        "SoftBinAP": (SoftBinAP(), lambda s, lev: baselines.one_minus_soft_bin_ap(s, [x >= depth for x in lev], 20)),
        "BlackboxAP": (BlackboxAP(margin=0.0), places_ap),
    }


def hashing_losses(depth: int) -> dict[str, tuple[Loss, Objective]]:
    """The same for distances of codes; their AP and NDCG are of metrics."""

    def one_minus(value: float | None) -> float | None:
        return None if value is None else 1 - value

    return {
        "TieAwareAP": (
            TieAwareAP(),
            lambda d, lev: one_minus(hashing.relaxed_ap(d, [x >= depth for x in lev], **HASHING)),
        ),
        "TieAwareNDCG": (TieAwareNDCG(), lambda d, lev: one_minus(hashing.relaxed_ndcg(d, gains(lev), **HASHING))),
    }


def corners(num_items: int, depth: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Vectors of ±1, whose few cosines are exact, and paths of a binary tree."""
    fine = torch.randint(0, 2**depth, (num_items,), generator=generator)
    vectors = torch.randint(0, 2, (num_items, SIZE), generator=generator, dtype=torch.float64) * 2 - 1
    return vectors, torch.stack([fine >> (depth - level) for level in range(1, depth + 1)], dim=1)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", {**cosine_losses(1), **hashing_losses(1)})
def test_value_among_a_masked_memory_with_ties_is_that_of_the_loops(name: str, depth: int) -> None:
    generator = torch.Generator().manual_seed(depth)
    (embeddings, paths), (memory, memory_paths) = corners(9, depth, generator), corners(40, depth, generator)
    valid = torch.rand(9, 40, generator=generator) < 0.8
    paths[3] = 2**depth  # no other item shares anything with it
    valid[5] = False  # no query
    loss, objective = {**cosine_losses(depth), **hashing_losses(depth)}[name]
    value = float(loss(embeddings, paths, memory, memory_paths, valid=valid))
    values = []
    for query in range(9):
        items = valid[query].nonzero()[:, 0].tolist()
        levels = [reference.level_of(paths[query].tolist(), memory_paths[item].tolist()) for item in items]
        term = objective(_comparison(name, embeddings[query], memory[items]), levels)
        values += [] if term is None else [term]
    assert loss.last_num_skipped == 9 - len(values) >= 2
    assert value == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-12)


def _comparison(name: str, query: Tensor, items: Tensor) -> list[float]:
    if not name.startswith("TieAware"):
        return reference.cosines(query.tolist(), items.tolist())
    return [hashing.hamming_distance(torch.tanh(query).tolist(), torch.tanh(item).tolist()) for item in items]
