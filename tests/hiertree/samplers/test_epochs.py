"""An epoch depends on seed and epoch alone, can begin at any batch, and may show a part of each class."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_cases import LABELS, build, class_balanced, samplers, super_pairs, trees
from torch.utils.data import DataLoader, TensorDataset

from hiertree.errors import OptionError, PathError
from hiertree.samplers import ClassBalancedSampler


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_epochs_and_seeds_differ_but_each_is_the_same_every_time(kind: int) -> None:
    def epoch(number: int, seed: int = 0) -> list[list[int]]:
        sampler = samplers(seed)[kind]
        sampler.set_epoch(number)
        return list(sampler)

    assert epoch(3) == epoch(3)
    assert epoch(3) != epoch(4)
    assert epoch(3) != epoch(3, seed=1)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_the_state_counts_the_batches_yielded(kind: int) -> None:
    sampler, other = samplers()[kind], samplers()[kind]
    sampler.set_epoch(2)
    batches = iter(sampler)
    first = [next(batches) for _ in range(3)]
    assert sampler.state_dict() == {"epoch": 2, "batch": 3}
    other.load_state_dict(sampler.state_dict())
    assert other.state_dict() == {"epoch": 2, "batch": 3}
    other_rest = list(other)
    other.set_epoch(2)
    assert first + other_rest == list(other)


def test_a_data_loader_takes_the_batches_as_they_are() -> None:
    import torch

    sampler = samplers()[0]
    loader = DataLoader(TensorDataset(torch.arange(len(LABELS))), batch_sampler=sampler)
    assert len(loader) == len(sampler)
    assert [items.tolist() for (items,) in loader] == list(sampler)


def test_negative_labels_and_no_items_are_refused() -> None:
    with pytest.raises(PathError, match="negative"):
        ClassBalancedSampler([-1, 0], batch_size=1, images_per_class=1)
    with pytest.raises(OptionError, match="among 0 items"):
        ClassBalancedSampler(np.zeros((0, 2), np.int64), batch_size=1, images_per_class=1)


@pytest.mark.parametrize("state", [{"epoch": -1, "batch": 0}, {"epoch": 0, "batch": 10}, {"epoch": 0, "batch": -1}])
def test_a_state_beyond_the_epoch_is_refused(state: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="a batch from 0 to 9"):
        samplers()[0].load_state_dict(state)


def test_an_epoch_of_a_million_items_is_planned_in_seconds() -> None:
    import time

    generator = np.random.default_rng(0)
    leaves = generator.integers(0, 81_000, 1_400_000)
    paths = np.stack([leaves % 2, leaves % 78, leaves], axis=1)
    start = time.process_time()
    sampler = ClassBalancedSampler(paths, batch_size=256, images_per_class=4)
    assert sum(len(batch) for batch in sampler) == 5468 * 256
    assert time.process_time() - start < 10


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
