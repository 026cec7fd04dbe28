"""Processes share one plan, and resume it exactly."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampler_cases import build, class_balanced, samplers, super_pairs, trees

from hiertree.errors import OptionError
from hiertree.samplers import DistributedBatches


@given(st.one_of(class_balanced(), super_pairs(), trees()), st.data())
def test_processes_share_the_one_plan_and_resume_it_exactly(case, data):
    plan = list(build(case))
    size = data.draw(st.integers(1, 3))
    if build(case).classes_per_batch % size:
        with pytest.raises(OptionError):
            DistributedBatches(build(case), rank=0, world_size=size)
        return
    ranks = [DistributedBatches(build(case), rank=rank, world_size=size) for rank in range(size)]
    batches_of_ranks = [list(rank) for rank in ranks]
    assert {len(batches) for batches in batches_of_ranks} == {len(rank) for rank in ranks} == {len(plan)}
    assert [list(chain(*pieces_of_ranks)) for pieces_of_ranks in zip(*batches_of_ranks, strict=True)] == plan
    done = data.draw(st.integers(0, len(ranks[0])))
    states = []
    for rank in range(size):
        copy = DistributedBatches(build(case), rank=rank, world_size=size)
        batches = iter(copy)
        assert [next(batches) for _ in range(done)] == batches_of_ranks[rank][:done]
        states.append(copy.state_dict())
    assert states == [{"epoch": 0, "batch": done}] * size
    for rank in range(size):
        resumed = DistributedBatches(build(case), rank=rank, world_size=size)
        resumed.load_state_dict(states[0])
        if done < len(resumed):
            assert list(resumed) == batches_of_ranks[rank][done:]
        resumed.set_epoch(0)
        assert list(resumed) == batches_of_ranks[rank]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "world_size": 2}, "rank=2 of 2"),
        ({"rank": 0, "world_size": 3}, "10 class visits for 3 processes.*batch_size=18"),
        ({"rank": "0", "world_size": 2}, "rank='0'"),
        ({"rank": 0.5, "world_size": 2}, "rank=0.5"),
        ({"rank": 0, "world_size": 0}, "world_size=0"),
    ],
)
def test_impossible_shares_say_how_to_fix_them(options, message):
    with pytest.raises(OptionError, match=message):
        DistributedBatches(samplers()[0], **options)
    single = DistributedBatches(samplers()[0])
    assert (single.rank, single.world_size) == (0, 1)
    with pytest.raises(OptionError, match="a batch from 0 to 9"):
        single.load_state_dict({"epoch": 0, "batch": 10})


def test_rank_and_number_of_processes_come_from_torch_where_it_is_distributed():
    from torch import distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=5)
    try:
        policy = DistributedBatches(samplers()[0])
    finally:
        distributed.destroy_process_group()
    assert (policy.rank, policy.world_size) == (1, 5)
    assert next(iter(policy)) == next(iter(samplers()[0]))[4:8]
