"""The objectives, per query, from soft ranks: 1 − H-AP and 1 − NDCG (1 − AP is 1 − H-AP with one level)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from hiertree.options import require

from .blocks import LossPerQuery
from .pairs import ScoredPairs
from .ranks import soft_ranks
from .steps import Sigmoid, SupStep

SplitBy: TypeAlias = Literal["level", "relevance"]
"""What decides which candidates count exactly in the rank of a positive (rank⁺), and which through H⁻ (rank⁻)."""
SPLITS = ("level", "relevance")


def check_split(split_by: str) -> None:
    """Refuse a split that does not exist."""
    require(split_by in SPLITS, "split_by", split_by, f"one of {', '.join(map(repr, SPLITS))}")


def h_ap_losses(
    pairs: ScoredPairs, table: Tensor, step: SupStep | Sigmoid, split_by: SplitBy = "level"
) -> LossPerQuery:
    """1 − (1/R)·Σ_{k ∈ Ω⁺} H-rank⁺(k) / rank(k), with R = Σ_{k ∈ Ω⁺} rel(k)."""
    if split_by == "relevance":
        pairs, table = by_relevance(pairs, table)
    table, ranks = _scaled(pairs, table), soft_ranks(pairs, step)
    reached = (ranks.hierarchical_rank(table) / ranks.rank()).sum(dim=1)
    return one_minus(reached, (table * pairs.counts()).sum(dim=1))


def ap_losses(pairs: ScoredPairs, level: int | None, step: SupStep | Sigmoid) -> LossPerQuery:
    """1 − (1/|Ω⁺|)·Σ_{k ∈ Ω⁺} rank⁺(k) / rank(k), the positives agreeing with the query down to ``level``."""
    binary = pairs.binary(level)
    table = binary.scores.new_tensor([0.0, 1.0]).expand(len(binary.scores), 2)
    return h_ap_losses(binary, table, step)


def ndcg_losses(
    pairs: ScoredPairs, table: Tensor, step: SupStep | Sigmoid, split_by: SplitBy = "level"
) -> LossPerQuery:
    """1 − (1/IDCG)·Σ_{k ∈ Ω⁺} rel(k) / log2(1 + rank(k)), IDCG the same sum for the best ranking."""
    if split_by == "relevance":
        pairs, table = by_relevance(pairs, table)
    table = _scaled(pairs, table)
    reached = (pairs.by_item(table) / torch.log2(1 + soft_ranks(pairs, step).rank())).sum(dim=1)
    places = torch.arange(1, pairs.scores.shape[1] + 1, dtype=torch.float64, device=table.device)
    ideal = ideal_dcg(table[:, 1:].double(), pairs.counts()[:, 1:], 1 / torch.log2(1 + places))
    return one_minus(reached, ideal.to(reached.dtype))


def by_relevance(pairs: ScoredPairs, table: Tensor) -> tuple[ScoredPairs, Tensor]:
    """The same pairs with levels renumbered by relevance, query by query, and the table of the new levels.

    Levels of one relevance become one level; those of relevance 0 become level 0, as level 0 is.
    """
    relevance = table.clone(memory_format=torch.contiguous_format)
    relevance[:, 0] = 0
    ascending = relevance.sort(dim=1).values
    renumbered = torch.searchsorted(ascending, relevance).to(torch.uint8)
    return pairs._replace(levels=renumbered.gather(1, pairs.levels.long())), ascending


def ideal_dcg(gains: Tensor, counts: Tensor, discounts: Tensor) -> Tensor:
    """The DCG of the best ranking: levels by falling gain, each taking as many ranks as it has items."""
    gains, order = gains.sort(dim=1, descending=True)
    last = counts.gather(1, order).cumsum(dim=1)
    first = torch.nn.functional.pad(last, (1, 0))[:, :-1]
    up_to = torch.nn.functional.pad(discounts.cumsum(dim=0), (1, 0))
    return (gains * (up_to[last] - up_to[first])).sum(dim=1)


def one_minus(reached: Tensor, best: Tensor) -> LossPerQuery:
    """1 − reached/best, for the queries that can reach anything."""
    counted = best > 0
    return LossPerQuery((1 - reached / torch.where(counted, best, 1)) * counted, counted)


def _scaled(pairs: ScoredPairs, table: Tensor) -> Tensor:
    """The table, in the type of the scores, with 0 at level 0 and 1 at most: no objective depends on its scale."""
    largest = table.amax(dim=1, keepdim=True)
    scaled = (table / torch.where(largest > 0, largest, 1)).to(pairs.scores.dtype)
    scaled[:, 0] = 0
    return scaled
