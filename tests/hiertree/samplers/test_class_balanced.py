"""What every batch and every epoch of the class-balanced sampler guarantees."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray
from sampler_cases import LABELS, class_balanced

from hiertree.errors import OptionError
from hiertree.samplers import ClassBalancedSampler, RandomSampler


def assert_classes_are_whole(batch: list[int], labels: NDArray[np.int64], m: int) -> None:
    """Exactly m items of each class, distinct where the class has so many."""
    sizes, items = Counter(labels.tolist()), Counter(batch)
    assert set(Counter(labels[batch].tolist()).values()) == {m}
    for item, times in items.items():
        assert times <= -(-m // sizes[labels[item]])


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


@given(class_balanced())
def test_visits_by_size_show_no_item_twice_and_large_classes_more(case: Any) -> None:
    labels, options = case
    m, sizes = options["images_per_class"], Counter(labels.tolist())
    sampler = ClassBalancedSampler(labels, **options, visits="by_size")
    batches, visits = list(sampler), Counter[int]()
    assert len(batches) == len(sampler)
    for batch in batches:
        assert_classes_are_whole(batch, labels, m)
        visits.update(set(labels[batch].tolist()))
    assert all(visits[label] <= max(1, size // m) for label, size in sizes.items())
    per_batch = options["batch_size"] // m
    wanted = [max(1, size // m) for size in sizes.values() if size >= m or options["small_classes"] == "replace"]
    assert sum(min(times, len(batches) + 1) for times in wanted) < (len(batches) + 1) * per_batch  # no more fit


def test_random_batches_show_every_item_once() -> None:
    sampler = RandomSampler(LABELS, batch_size=45, seed=3)
    batches = list(sampler)
    assert sorted(item for batch in batches for item in batch) == list(range(180))
    assert len({tuple(np.bincount(LABELS[batch], minlength=30)) for batch in batches}) == len(batches) == 4
    assert batches != list(sampler)
    with pytest.raises(OptionError, match="batch_size=181"):
        RandomSampler(LABELS, batch_size=181)


def test_batches_within_an_epoch_group_classes_differently_in_each_round() -> None:
    sampler = ClassBalancedSampler(LABELS, batch_size=10, images_per_class=1)
    groups = [frozenset(LABELS[batch].tolist()) for batch in sampler]
    assert len(groups) == 18
    assert len(set(groups)) == 18


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
        ({"batch_size": 4, "images_per_class": 0}, "images_per_class=0"),
        ({"batch_size": 62, "images_per_class": 2}, "batches of 31 classes from 30.*batch_size ≤ 60"),
        ({"batch_size": 8, "images_per_class": 4, "small_classes": "keep"}, "'replace' or 'drop'"),
        ({"batch_size": 8, "images_per_class": 8, "small_classes": "drop"}, "no class of 8 items"),
        ({"batch_size": 8, "images_per_class": 4, "seed": -1}, "seed=-1"),
    ],
)
def test_impossible_options_say_how_to_fix_them(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ClassBalancedSampler(LABELS, **options)
