"""Every loss of scores against its loops: one to four levels, ties, a mask, a memory, classes of one image."""

from __future__ import annotations

import pytest
import torch
from loss_loops import SIZE, loops, losses_and_loops


def corners(num_items, depth, generator):
    """Vectors of ±1, whose few cosines are exact, and paths of a binary tree."""
    fine = torch.randint(0, 2**depth, (num_items,), generator=generator)
    vectors = torch.randint(0, 2, (num_items, SIZE), generator=generator, dtype=torch.float64) * 2 - 1
    return vectors, torch.stack([fine >> (depth - level) for level in range(1, depth + 1)], dim=1)


@pytest.mark.parametrize("has_memory", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", losses_and_loops(1))
def test_value_with_a_mask_and_ties_is_the_mean_of_the_loops(name, depth, has_memory):
    generator = torch.Generator().manual_seed(depth)
    batch, memory = corners(22, depth, generator), corners(40, depth, generator)
    batch[1][3] = 2**depth  # no other item shares anything with it
    candidates = memory if has_memory else batch
    valid = torch.rand(22, len(candidates[0]), generator=generator) < 0.8
    valid[5] = False  # no query
    loss, objective = losses_and_loops(depth)[name]
    value = loss(*batch, *(memory if has_memory else ()), valid=valid).item()
    if not has_memory:
        valid.fill_diagonal_(False)
    values = loops(objective, batch, candidates, valid, codes=name.startswith("TieAware"))
    assert loss.last_num_skipped == 22 - len(values) >= 2
    assert value == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-12)
