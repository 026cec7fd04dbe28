"""What every batch and every epoch of the samplers guarantees."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from sampler_cases import LABELS, PATHS, class_balanced, samplers, super_pairs
from torch.utils.data import DataLoader, TensorDataset

from hiertree.errors import OptionError, PathError
from hiertree.samplers import ClassBalancedSampler, SuperCategoryPairSampler


def assert_classes_are_whole(batch: list[int], labels: NDArray[np.int64], m: int) -> None:
    """Exactly m items of each class, distinct where the class has so many."""
    sizes, items = Counter(labels.tolist()), Counter(batch)
    assert set(Counter(labels[batch].tolist()).values()) == {m}
    for item, times in items.items():
        assert times <= -(-m // sizes[labels[item]])


@settings(deadline=None)
@given(class_balanced())
def test_every_balanced_batch_has_exactly_m_items_of_each_of_its_classes(case: Any) -> None:
    labels, options = case
    sampler = ClassBalancedSampler(labels, **options)
    batches = list(sampler)
    m = options["images_per_class"]
    kept = [size for size in Counter(labels.tolist()).values() if size >= m or options["small_classes"] == "replace"]
    assert len(batches) == len(sampler) == max(1, sum(kept) // options["batch_size"])
    for batch in batches:
        assert len(batch) == options["batch_size"]
        assert all(type(item) is int for item in batch)
        assert_classes_are_whole(batch, labels, m)


@settings(deadline=None)
@given(class_balanced())
def test_every_class_is_visited_before_one_is_visited_again(case: Any) -> None:
    labels, options = case
    m = options["images_per_class"]
    sizes = Counter(labels.tolist())
    visits = {label: 0 for label, size in sizes.items() if size >= m or options["small_classes"] == "replace"}
    for batch in ClassBalancedSampler(labels, **options):
        for label in labels[batch[::m]].tolist():
            visits[label] += 1
        assert max(visits.values()) - min(visits.values()) <= 1


@settings(deadline=None)
@given(class_balanced())
def test_a_class_shows_all_its_items_before_it_repeats_one(case: Any) -> None:
    labels, options = case
    sampler = ClassBalancedSampler(labels, **options)
    shown: dict[int, Counter[int]] = {}
    for batch in sampler:
        for item in batch:
            shown.setdefault(int(labels[item]), Counter())[item] += 1
    for label, counts in shown.items():
        of_class = [counts[item] for item in np.flatnonzero(labels == label).tolist()]
        assert max(of_class) - min(of_class) <= 1


@settings(deadline=None)
@given(super_pairs())
def test_every_pair_batch_takes_half_its_classes_from_each_of_two_super_categories(case: Any) -> None:
    paths, options = case
    sampler = SuperCategoryPairSampler(paths, **options)
    m, pairs = options["images_per_class"], Counter()
    for batch in sampler:
        assert len(batch) == options["batch_size"]
        assert_classes_are_whole(batch, paths[:, 2], m)
        halves = Counter(paths[batch, 1].tolist())
        assert set(halves.values()) == {len(batch) // 2}
        pairs[tuple(sorted(halves))] += 1
    every = set(combinations(np.unique(paths[:, 1]).tolist(), 2))
    assert pairs == dict.fromkeys(every, options["batches_per_pair"])
    assert len(sampler) == pairs.total()


@settings(deadline=None)
@given(super_pairs())
def test_a_pair_sampler_visits_all_classes_of_a_super_category_before_one_again(case: Any) -> None:
    paths, options = case
    visits = {super_id: dict.fromkeys(paths[paths[:, 1] == super_id, 2].tolist(), 0) for super_id in set(paths[:, 1])}
    for batch in SuperCategoryPairSampler(paths, **options):
        for item in batch[:: options["images_per_class"]]:
            visits[paths[item, 1]][paths[item, 2]] += 1
        for counts in visits.values():
            assert max(counts.values()) - min(counts.values()) <= 1


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


def test_batches_within_an_epoch_group_classes_differently_in_each_round() -> None:
    sampler = ClassBalancedSampler(LABELS, batch_size=10, images_per_class=1)
    groups = [frozenset(LABELS[batch].tolist()) for batch in sampler]
    assert len(groups) == 18
    assert len(set(groups)) == 18


def test_a_data_loader_takes_the_batches_as_they_are() -> None:
    import torch

    sampler = samplers()[0]
    loader = DataLoader(TensorDataset(torch.arange(len(LABELS))), batch_sampler=sampler)
    assert len(loader) == len(sampler)
    assert [items.tolist() for (items,) in loader] == list(sampler)


def test_small_classes_are_filled_up_or_left_out() -> None:
    labels = [0, 1, 1, 2, 2]
    filled = ClassBalancedSampler(labels, batch_size=6, images_per_class=2)
    assert Counter(next(iter(filled)))[0] == 2
    dropped = ClassBalancedSampler(labels, batch_size=4, images_per_class=2, small_classes="drop")
    assert sorted(next(iter(dropped))) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 10, "images_per_class": 4}, "pass batch_size=8"),
        ({"batch_size": 4, "images_per_class": 0}, "multiple of images_per_class"),
        ({"batch_size": 62, "images_per_class": 2}, "batches of 31 classes from 30.*batch_size ≤ 60"),
        ({"batch_size": 8, "images_per_class": 4, "small_classes": "keep"}, "'replace' or 'drop'"),
        ({"batch_size": 8, "images_per_class": 8, "small_classes": "drop"}, "no class of 8 items"),
        ({"batch_size": 8, "images_per_class": 4, "seed": -1}, "seed=-1"),
    ],
)
def test_impossible_options_say_how_to_mend_them(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ClassBalancedSampler(LABELS, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 6}, "pass batch_size=8"),
        ({"batch_size": 44}, "11 classes from each super-category, but 0 has 10.*batch_size ≤ 40"),
        ({"batch_size": 8, "super_level": 2}, "super_level=2 with paths of 2 levels"),
        ({"batch_size": 8, "super_level": 0}, "super_level=0"),
        ({"batch_size": 8, "batches_per_pair": 0}, "batches_per_pair=0"),
    ],
)
def test_impossible_pairs_say_how_to_mend_them(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SuperCategoryPairSampler(PATHS, images_per_class=2, **options)


def test_a_single_super_category_makes_no_pair() -> None:
    with pytest.raises(OptionError, match="at least two"):
        SuperCategoryPairSampler(PATHS[:60], batch_size=4, images_per_class=2)


def test_a_class_in_two_super_categories_is_refused() -> None:
    with pytest.raises(PathError, match="two nodes of level 1"):
        SuperCategoryPairSampler([[0, 5], [1, 5], [0, 6]], batch_size=2, images_per_class=1)


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
