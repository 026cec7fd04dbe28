"""An epoch depends on seed and epoch alone, can begin at any batch, and may show a part of each class."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import chain, islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_cases import LABELS, build, class_balanced, samplers, super_pairs, trees
from torch.utils.data import DataLoader, TensorDataset

from hiertree.errors import OptionError, PathError
from hiertree.samplers import ClassBalancedSampler, DistributedBatches


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_epochs_and_seeds_differ_but_each_is_the_same_every_time(kind):
    def epoch(index, seed=0):
        sampler = samplers(seed)[kind]
        sampler.set_epoch(index)
        return list(sampler)

    assert epoch(3) == epoch(3)
    assert epoch(3) != epoch(4)
    assert epoch(3) != epoch(3, seed=1)


def test_negative_labels_and_no_items_are_refused():
    with pytest.raises(PathError, match="negative"):
        ClassBalancedSampler([-1, 0], batch_size=1, images_per_class=1)
    with pytest.raises(OptionError, match="among 0 items"):
        ClassBalancedSampler(np.zeros((0, 2), np.int64), batch_size=1, images_per_class=1)


@pytest.mark.parametrize("state", [{"epoch": -1, "batch": 0}, {"epoch": 0, "batch": 10}, {"epoch": 0, "batch": -1}])
def test_a_state_beyond_the_epoch_is_refused(state):
    with pytest.raises(OptionError, match="a batch from 0 to 9"):
        samplers()[0].load_state_dict(state)


def test_an_epoch_of_a_million_items_is_planned_in_seconds():
    import time

    generator = np.random.default_rng(0)
    leaves = generator.integers(0, 81_000, 1_400_000)
    paths = np.stack([leaves % 2, leaves % 78, leaves], axis=1)
    start = time.process_time()
    sampler = ClassBalancedSampler(paths, batch_size=256, images_per_class=4)
    assert sum(len(batch) for batch in sampler) == 5468 * 256
    assert time.process_time() - start < 10


@given(st.one_of(class_balanced(), super_pairs(), trees()), st.integers(0, 3))
def test_an_epoch_shows_no_more_of_a_class_than_asked_and_another_part_each_time(case, more):
    paths, options = case
    limit = options["images_per_class"] + more
    sampler = build((paths, {**options, "reduce_per_class": limit}))
    names = [str(row) for row in np.atleast_2d(paths.T).T.tolist()]
    items_by_class = {}
    for batch in sampler:
        for item in batch:
            items_by_class.setdefault(names[item], set()).add(item)
    assert max(map(len, items_by_class.values())) <= limit
    if isinstance(sampler, ClassBalancedSampler):
        sizes = [
            size
            for size in Counter(names).values()
            if size >= sampler.images_per_class or options["small_classes"] == "replace"
        ]
        assert len(sampler) == max(1, sum(min(size, limit) for size in sizes) // options["batch_size"])


def test_what_an_epoch_shows_of_a_class_changes_and_is_at_least_a_visit():
    sampler = ClassBalancedSampler([0] * 20 + [1] * 20, batch_size=4, images_per_class=2, reduce_per_class=4)
    by_rank = []
    for epoch in range(4):
        sampler.set_epoch(epoch)
        by_rank.append(frozenset(item for batch in sampler for item in batch))
    assert [len(of_rank) for of_rank in by_rank] == [8] * 4
    assert len(set(by_rank)) == 4
    with pytest.raises(OptionError, match="at least images_per_class=2"):
        ClassBalancedSampler([0, 0], batch_size=2, images_per_class=2, reduce_per_class=1)


@given(st.one_of(class_balanced(), super_pairs(), trees()), st.integers(0, 50), st.data())
def test_an_epoch_resumed_at_any_batch_equals_the_uninterrupted_one(case, epoch, data):
    uninterrupted, resumed = build(case), build(case)
    uninterrupted.set_epoch(epoch)
    batches = list(uninterrupted)
    done = data.draw(st.integers(0, len(batches)))
    for _ in range(2):
        resumed.load_state_dict({"epoch": epoch, "batch": done})
        if done < len(batches):
            assert list(resumed) == batches[done:]
    following = list(resumed)
    uninterrupted.set_epoch(epoch + 1)
    assert following == list(uninterrupted)
    resumed.set_epoch(epoch)
    assert list(resumed) == batches


def epochs_of(sampler, count):
    """The batches of the first epochs, each chosen by its number."""
    epochs = []
    for epoch in range(count):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    return epochs


def shared(kind):
    return DistributedBatches(samplers()[kind], rank=1, world_size=2)


KINDS = [
    *(partial(lambda kind: samplers()[kind], kind) for kind in range(3)),
    partial(shared, 1),
]


def test_an_iteration_that_is_broken_off_or_never_begun_does_not_repeat_or_skip_an_epoch():
    sampler, expected = samplers()[0], epochs_of(samplers()[0], 2)
    iter(sampler)
    first, second = iter(sampler), None
    assert next(first) == expected[0][0]
    second = iter(sampler)
    assert next(second) == expected[1][0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_plain_loop_over_a_data_loader_sees_another_epoch_each_time(workers):
    sampler, expected = samplers()[0], epochs_of(samplers()[0], 3)
    indices = TensorDataset(torch.arange(len(LABELS)))
    loader = DataLoader(indices, batch_sampler=sampler, num_workers=workers, persistent_workers=workers > 0)
    assert len(loader) == len(expected[0])
    assert [[items.tolist() for (items,) in loader] for _ in range(3)] == expected


@pytest.mark.parametrize("build_one", KINDS)
@settings(max_examples=20)
@given(done=st.integers(0, 200))
def test_epochs_resumed_at_any_batch_go_on_as_if_uninterrupted(build_one, done):
    sampler, resumed = build_one(), build_one()
    uninterrupted = list(chain(*epochs_of(build_one(), 4)))
    done = min(done, 3 * len(sampler) - 1)
    endless = chain.from_iterable(iter(lambda: sampler, None))
    assert list(islice(endless, done)) == uninterrupted[:done]
    resumed.load_state_dict(sampler.state_dict())
    rest = chain.from_iterable(iter(lambda: resumed, None))
    assert list(islice(rest, len(uninterrupted) - done)) == uninterrupted[done:]


@pytest.mark.parametrize("option", ["batch_size", "images_per_class", "seed", "reduce_per_class"])
@pytest.mark.parametrize("value", ["4", 4.5, [4], True])
def test_sizes_and_seeds_are_integers(option, value):
    options = {"batch_size": 8, "images_per_class": 2, option: value}
    with pytest.raises(OptionError, match=option):
        ClassBalancedSampler(LABELS, **options)


@pytest.mark.parametrize("state", [None, {}, {"epoch": 1}, {"epoch": "1", "batch": 0}, {"epoch": 1, "batch": None}])
def test_a_state_has_an_epoch_and_a_batch(state):
    for sampler in (samplers()[0], shared(0)):
        with pytest.raises(OptionError, match="state"):
            sampler.load_state_dict(state)


def test_epochs_and_batches_may_be_numbers_of_numpy():
    for make in (lambda: samplers()[0], lambda: shared(0)):
        expected, sampler = make(), make()
        expected.set_epoch(3)
        sampler.set_epoch(np.int64(3))
        assert list(expected) == list(sampler)
        expected.load_state_dict({"epoch": 1, "batch": 2})
        sampler.load_state_dict({"epoch": np.int64(1), "batch": np.uint8(2)})
        assert json.dumps(expected.state_dict()) == json.dumps(sampler.state_dict())
        with pytest.raises(OptionError, match="epoch='3'"):
            expected.set_epoch("3")
