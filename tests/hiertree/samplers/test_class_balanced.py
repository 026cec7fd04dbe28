"""What every batch and every epoch of the class-balanced sampler guarantees."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from sampler_cases import LABELS, assert_classes_are_whole, class_balanced

from hiertree.errors import OptionError
from hiertree.samplers import ClassBalancedSampler, RandomSampler, SuperCategoryPairSampler


@given(class_balanced())
def test_every_balanced_batch_has_exactly_m_items_of_each_of_its_classes(case):
    labels, options = case
    sampler = ClassBalancedSampler(labels, **options)
    batches = list(sampler)
    m = options["images_per_class"]
    sizes = [size for size in Counter(labels.tolist()).values() if size >= m or options["small_classes"] == "replace"]
    assert len(batches) == len(sampler) == max(1, sum(sizes) // options["batch_size"])
    for batch in batches:
        assert len(batch) == options["batch_size"]
        assert all(type(item) is int for item in batch)
        assert_classes_are_whole(batch, labels, m)


@given(class_balanced())
def test_every_class_is_visited_before_one_is_visited_again(case):
    labels, options = case
    m = options["images_per_class"]
    sizes = Counter(labels.tolist())
    visits = {label: 0 for label, size in sizes.items() if size >= m or options["small_classes"] == "replace"}
    for batch in ClassBalancedSampler(labels, **options):
        for label in labels[batch[::m]].tolist():
            visits[label] += 1
        assert max(visits.values()) - min(visits.values()) <= 1


@given(class_balanced())
def test_a_class_shows_all_its_items_before_it_repeats_one(case):
    labels, options = case
    sampler = ClassBalancedSampler(labels, **options)
    visits = {}
    for batch in sampler:
        for item in batch:
            visits.setdefault(int(labels[item]), Counter())[item] += 1
    for label, counts in visits.items():
        of_class = [counts[item] for item in np.flatnonzero(labels == label).tolist()]
        assert max(of_class) - min(of_class) <= 1


def epoch_of_the_authors(visits, per_batch, order):
    """The classes of each batch, by the loop of Smooth_AP's datasets.py: the first ones that have images left."""
    left, batches = dict(visits), list[frozenset[int]]()
    while len(batch := [label for label in order if left[label]][:per_batch]) == per_batch:
        batches.append(frozenset(batch))
        for label in batch:
            left[label] -= 1
    return batches


@given(class_balanced())
def test_visits_by_size_are_those_of_the_authors_loop_and_show_no_item_twice(case):
    labels, options = case
    m, sizes = options["images_per_class"], Counter(labels.tolist())
    sampler = ClassBalancedSampler(labels, **options, visits="by_size")
    batches = list(sampler)
    for batch in batches:
        assert_classes_are_whole(batch, labels, m)
    large = [label for label in sorted(sizes) if sizes[label] >= m or options["small_classes"] == "replace"]
    visits = {label: max(1, sizes[label] // m) for label in large}
    generator, expected = np.random.default_rng([options.get("seed", 0), 0]), list[frozenset[int]]()
    while len(expected) < len(sampler):
        order = [large[index] for index in generator.permutation(len(large))]
        expected = epoch_of_the_authors(visits, options["batch_size"] // m, order)
    visit_counts = Counter(frozenset(labels[batch].tolist()) for batch in batches)
    assert visit_counts <= Counter(expected)
    assert visit_counts.total() == len(sampler)


@pytest.mark.parametrize(("batch_size", "batches"), [(128, 45), (224, 15), (256, 15), (384, 15)])
def test_an_epoch_by_size_of_a_hundred_equal_classes_is_as_short_as_the_authors(batch_size, batches):
    """As on CUB: beside 64 classes, the other 36 fill no batch."""
    options = {"batch_size": batch_size, "images_per_class": 4, "visits": "by_size"}
    sampler = ClassBalancedSampler(np.repeat(np.arange(100), 60), **options)
    assert len(sampler) == len(list(sampler)) == batches


def test_random_batches_show_every_item_once():
    sampler = RandomSampler(LABELS, batch_size=45, seed=3)
    batches = list(sampler)
    assert sorted(item for batch in batches for item in batch) == list(range(180))
    assert len({tuple(np.bincount(LABELS[batch], minlength=30)) for batch in batches}) == len(batches) == 4
    assert batches != list(sampler)
    with pytest.raises(OptionError, match="batch_size=181"):
        RandomSampler(LABELS, batch_size=181)


def test_batches_within_an_epoch_group_classes_differently_in_each_round():
    sampler = ClassBalancedSampler(LABELS, batch_size=10, images_per_class=1)
    groups = [frozenset(LABELS[batch].tolist()) for batch in sampler]
    assert len(groups) == 18
    assert len(set(groups)) == 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 10, "images_per_class": 4}, "pass batch_size=8"),
        ({"batch_size": 4, "images_per_class": 0}, "images_per_class=0"),
        ({"batch_size": 62, "images_per_class": 2}, "batches of 31 classes from 30.*batch_size=60"),
        ({"batch_size": 8, "images_per_class": 4, "small_classes": "keep"}, "'replace' or 'drop'"),
        ({"batch_size": 8, "images_per_class": 8, "small_classes": "drop"}, "no class of 8 items"),
        ({"batch_size": 8, "images_per_class": 4, "seed": -1}, "seed=-1"),
    ],
)
def test_impossible_options_say_how_to_fix_them(options, message):
    with pytest.raises(OptionError, match=message):
        ClassBalancedSampler(LABELS, **options)


def test_items_of_unknown_class_are_drawn_together_with_those_of_their_node():
    paths = np.array([[0, 0]] * 4 + [[0, -1]] * 4 + [[1, 1]] * 4 + [[1, -1]] * 4)
    sampler = ClassBalancedSampler(paths, batch_size=8, images_per_class=2)
    for batch in sampler:
        assert len({tuple(paths[item]) for item in batch}) == 4
    pairs = SuperCategoryPairSampler(paths, batch_size=8, images_per_class=2)
    assert all(len({tuple(paths[item]) for item in batch}) == 4 for batch in pairs)
