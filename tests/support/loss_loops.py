"""Losses of the scores of one query, with their transcriptions as loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import reference_baselines as baselines
import reference_hashing as hashing
import reference_losses as reference
import torch
from torch import Tensor

from hiertree.losses import (
    BlackboxAP,
    FastAP,
    HierarchicalTriplet,
    Loss,
    PairDecomposability,
    SmoothAP,
    SmoothHAP,
    SmoothNDCG,
    SmoothRecall,
    SoftBinAP,
    SupAP,
    SupCon,
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
RECALL = {"ks": (1, 3), "tau_star": 0.5}
MARGINS = (0.1, 0.3, 0.05, 0.2)
HASHING = {"num_bits": SIZE, "num_bins": SIZE, "simplified": False}


def labeled_batch(
    seed: int = 0,
    num_items: int = 16,
    *,
    size: int = 5,
    classes: int = 6,
    branching: int = 2,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Embeddings and (n, 2) paths, of super-categories of so many classes, unequal in size and unsorted."""
    generator = torch.Generator().manual_seed(seed)
    fine = torch.randint(0, classes, (num_items,), generator=generator)
    embeddings = torch.randn(num_items, size, generator=generator, dtype=dtype)
    return embeddings, torch.stack([fine // branching, fine], dim=1)


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
        "SupRecall": (SupRecall(**RECALL), lambda s, lev: baselines.one_minus_recall(s, lev, depth, **RECALL, **SUP)),
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
        "SoftBinAP, level 1": (
            SoftBinAP(level=1),
            lambda s, lev: baselines.one_minus_soft_bin_ap(s, [x >= 1 for x in lev], 20),
        ),
        "SupCon": (
            SupCon(temperature=0.3, level=1),
            lambda s, lev: baselines.contrastive(s, [x >= 1 for x in lev], 0.3),
        ),
        "HierarchicalTriplet": (
            HierarchicalTriplet(MARGINS[:depth]),
            lambda s, lev: baselines.hierarchical_triplet(s, lev, MARGINS[:depth]),
        ),
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


def losses_and_loops(depth: int) -> dict[str, tuple[Loss, Objective]]:
    """Every loss of the scores of one query, and its transcription."""
    return {**cosine_losses(depth), **hashing_losses(depth)}


def loops(
    objective: Objective,
    queries: tuple[Tensor, Tensor],
    candidates: tuple[Tensor, Tensor],
    valid: Tensor,
    *,
    codes: bool = False,
) -> list[float]:
    """The values of the queries that have one, of embeddings and paths."""
    values = []
    for query, (vector, path) in enumerate(zip(*queries, strict=True)):
        items = valid[query].nonzero()[:, 0].tolist()
        levels = [reference.level_of(path.tolist(), candidates[1][item].tolist()) for item in items]
        if codes:
            bits = torch.tanh(vector).tolist()
            scores = [hashing.hamming_distance(bits, torch.tanh(candidates[0][item]).tolist()) for item in items]
        else:
            scores = reference.cosines(vector.tolist(), candidates[0][items].tolist())
        value = objective(scores, levels)
        values += [] if value is None else [value]
    return values
