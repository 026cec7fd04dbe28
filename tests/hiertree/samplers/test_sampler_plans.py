"""The tree sampler's guarantee, sub-sampling per class, shares for several processes, and exact resumption of all."""

from __future__ import annotations

from collections import Counter
from itertools import chain, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_cases import TREE, build, class_balanced, samplers, super_pairs, trees

from hiertree.errors import OptionError
from hiertree.samplers import ClassBalancedSampler, DistributedBatches, TreeSampler


@settings(deadline=None)
@given(trees())
def test_every_item_of_a_tree_batch_has_items_at_each_level_the_data_set_has(case: Any) -> None:
    paths, options = case
    sampler = build(case)
    rows = [tuple(row) for row in paths.tolist()]
    sizes = Counter(rows)
    kept = [
        i
        for i, row in enumerate(rows)
        if options["small_classes"] == "replace" or sizes[row] >= sampler.images_per_class
    ]

    def levels_of(item: int, others: list[int]) -> set[int]:
        """The exact levels, in slow words: the length of the common beginning."""
        return {
            len(list(takewhile(lambda pair: pair[0] == pair[1], zip(rows[item], rows[other], strict=True))))
            for other in others
            if other != item
        }

    in_data = {row: levels_of(rows.index(row), kept) for row in set(rows)}
    batches = list(sampler)
    assert len(batches) == len(sampler)
    for batch in batches[:6]:
        assert len(batch) == options["batch_size"]
        assert set(batch) <= set(kept)
        for item in set(batch):
            assert levels_of(item, batch) == in_data[rows[item]]


def test_a_tree_sampler_reaches_every_class_in_time_and_draws_differently() -> None:
    sampler = TreeSampler(TREE, batch_size=24, images_per_class=2)
    classes = {tuple(row) for row in TREE.tolist()}
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    seen = Counter(tuple(TREE[item]) for batches in epochs for batch in batches for item in batch[::2])
    assert set(seen) == classes
    assert epochs[0] != epochs[1]


def test_a_batch_too_small_for_the_tree_says_what_it_needs() -> None:
    paths = [[0, 0], [0, 1], [1, 2], [1, 3]] * 2
    assert len(next(iter(TreeSampler(paths, batch_size=8, images_per_class=2)))) == 8
    with pytest.raises(OptionError, match=r"batches of 2 classes.*at least 4.*batch_size=8"):
        TreeSampler(paths, batch_size=4, images_per_class=2)
    with pytest.raises(OptionError, match="images_per_class=1"):
        TreeSampler(paths, batch_size=4, images_per_class=1)


@settings(deadline=None)
@given(st.one_of(class_balanced(), super_pairs(), trees()), st.integers(0, 3))
def test_an_epoch_shows_no_more_of_a_class_than_asked_and_another_part_each_time(case: Any, more: int) -> None:
    paths, options = case
    most = options["images_per_class"] + more
    sampler = build((paths, {**options, "reduce_per_class": most}))
    names = [str(row) for row in np.atleast_2d(paths.T).T.tolist()]
    shown: dict[str, set[int]] = {}
    for batch in sampler:
        for item in batch:
            shown.setdefault(names[item], set()).add(item)
    assert max(map(len, shown.values())) <= most
    if isinstance(sampler, ClassBalancedSampler):
        kept = [
            size
            for size in Counter(names).values()
            if size >= sampler.images_per_class or options["small_classes"] == "replace"
        ]
        assert len(sampler) == max(1, sum(min(size, most) for size in kept) // options["batch_size"])


def test_what_an_epoch_shows_of_a_class_changes_and_is_at_least_a_visit() -> None:
    sampler = ClassBalancedSampler([0] * 20 + [1] * 20, batch_size=4, images_per_class=2, reduce_per_class=4)
    parts = []
    for epoch in range(4):
        sampler.set_epoch(epoch)
        parts.append(frozenset(item for batch in sampler for item in batch))
    assert [len(part) for part in parts] == [8] * 4
    assert len(set(parts)) == 4
    with pytest.raises(OptionError, match="at least images_per_class=2"):
        ClassBalancedSampler([0, 0], batch_size=2, images_per_class=2, reduce_per_class=1)


@settings(deadline=None)
@given(st.one_of(class_balanced(), super_pairs(), trees()), st.sampled_from(["split", "deal", "replicate"]), st.data())
def test_processes_share_the_one_plan_and_resume_it_exactly(case: Any, share: Any, data: st.DataObject) -> None:
    plan = list(build(case))
    size = data.draw(st.integers(1, 3))
    visits = build(case).classes_per_batch
    if (share == "split" and visits % size) or (share == "deal" and len(plan) < size):
        with pytest.raises(OptionError):
            DistributedBatches(build(case), share=share, rank=0, world_size=size)
        return
    ranks = [DistributedBatches(build(case), share=share, rank=rank, world_size=size) for rank in range(size)]
    taken = [list(rank) for rank in ranks]
    assert {len(batches) for batches in taken} == {len(rank) for rank in ranks} == {len(ranks[0])}
    if share == "split":
        assert [list(chain(*parts)) for parts in zip(*taken, strict=True)] == plan
    elif share == "deal":
        assert [batch for parts in zip(*taken, strict=True) for batch in parts] == plan[: size * len(ranks[0])]
    else:
        assert all(batches == plan for batches in taken)
    done = data.draw(st.integers(0, len(ranks[0])))
    states = []
    for rank in range(size):
        again = DistributedBatches(build(case), share=share, rank=rank, world_size=size)
        batches = iter(again)
        assert [next(batches) for _ in range(done)] == taken[rank][:done]
        states.append(again.state_dict())
    assert states == [{"epoch": 0, "batch": done}] * size
    for rank in range(size):
        resumed = DistributedBatches(build(case), share=share, rank=rank, world_size=size)
        resumed.load_state_dict(states[0])
        assert list(resumed) == taken[rank][done:]
        assert list(resumed) == taken[rank][done:]
        resumed.set_epoch(0)
        assert list(resumed) == taken[rank]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 2, "world_size": 2}, "rank=2 of 2"),
        ({"rank": 0, "world_size": 3}, "10 class visits for 3 processes.*multiple of 6"),
        ({"rank": 0, "world_size": 99, "share": "deal"}, "9 batches for 99 processes"),
        ({"share": "lend"}, "'split', 'deal' or 'replicate'"),
    ],
)
def test_impossible_shares_say_how_to_mend_them(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        DistributedBatches(samplers()[0], **options)
    alone = DistributedBatches(samplers()[0])
    assert (alone.rank, alone.world_size) == (0, 1)
    with pytest.raises(OptionError, match="a batch from 0 to 9"):
        alone.load_state_dict({"epoch": 0, "batch": 10})


def test_rank_and_number_of_processes_come_from_torch_where_it_is_distributed() -> None:
    from torch import distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=5)
    try:
        shared = DistributedBatches(samplers()[0])
    finally:
        distributed.destroy_process_group()
    assert (shared.rank, shared.world_size) == (1, 5)
    assert next(iter(shared)) == next(iter(samplers()[0]))[4:8]


@settings(deadline=None)
@given(st.one_of(class_balanced(), super_pairs(), trees()), st.integers(0, 50), st.data())
def test_an_epoch_resumed_at_any_batch_equals_the_uninterrupted_one(case: Any, epoch: int, data: st.DataObject) -> None:
    whole, resumed = build(case), build(case)
    whole.set_epoch(epoch)
    batches = list(whole)
    done = data.draw(st.integers(0, len(batches)))
    resumed.load_state_dict({"epoch": epoch, "batch": done})
    assert list(resumed) == batches[done:]
    assert list(resumed) == batches[done:]
    resumed.set_epoch(epoch)
    assert list(resumed) == batches
