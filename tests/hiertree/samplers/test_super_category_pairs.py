"""What every batch and every epoch of the pair sampler guarantees."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from sampler_cases import PATHS, assert_classes_are_whole, super_pairs
from scipy.stats import chisquare

from hiertree.errors import OptionError, PathError
from hiertree.samplers import SuperCategoryPairSampler


@given(super_pairs())
def test_every_pair_batch_takes_half_its_classes_from_each_of_two_super_categories(case):
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


@given(super_pairs())
def test_a_pair_sampler_visits_all_classes_of_a_super_category_before_one_again(case):
    paths, options = case
    visits = {super_id: dict.fromkeys(paths[paths[:, 1] == super_id, 2].tolist(), 0) for super_id in set(paths[:, 1])}
    for batch in SuperCategoryPairSampler(paths, **options):
        for item in batch[:: options["images_per_class"]]:
            visits[paths[item, 1]][paths[item, 2]] += 1
        for counts in visits.values():
            assert max(counts.values()) - min(counts.values()) <= 1


def test_pairs_classes_and_items_are_drawn_uniformly():
    """Four super-categories of five classes of three items; two classes of each and one item make a batch."""
    classes = np.repeat(np.arange(20), 3)
    paths = np.stack([classes // 5, classes], axis=1)
    sampler = SuperCategoryPairSampler(paths, batch_size=4, images_per_class=1, batches_per_pair=2, seed=1)
    pairs, later_classes, neighbors, items = Counter(), Counter(), Counter(), Counter()
    for _ in range(2000):
        batches = [next(iter(sampler)), *sampler]
        first, *_, last = batches
        pairs[tuple(sorted({paths[item, 0] for item in first}))] += 1
        later_classes[int(classes[last[3]])] += 1
        neighbors[tuple(sorted(classes[last[:2]] % 5))] += 1
        items[last[0] % 3] += 1
    for counts, kinds in ((pairs, 6), (neighbors, 10), (items, 3)):
        assert len(counts) == kinds
        assert chisquare(list(counts.values())).pvalue > 1e-3
    of_super = [[count for label, count in later_classes.items() if label // 5 == kind] for kind in (1, 2, 3)]
    assert all(len(counts) == 5 and chisquare(counts).pvalue > 1e-3 for counts in of_super)


def test_a_thousand_super_categories_begin_at_once_and_resume_anywhere():
    classes = np.repeat(np.arange(8000), 2)
    sampler = SuperCategoryPairSampler(np.stack([classes // 8, classes], axis=1), batch_size=32, images_per_class=2)
    assert len(sampler) == 5 * 1000 * 999 // 2
    tracemalloc.start()
    start, batches = time.monotonic(), iter(sampler)
    first_batches = [next(batches) for _ in range(3)]
    assert time.monotonic() - start < 5  # the whole plan took minutes
    assert tracemalloc.get_traced_memory()[1] < 150 << 20  # 16 bytes a batch, and the pairs; the plan took gigabytes
    tracemalloc.stop()
    sampler.load_state_dict({"epoch": 0, "batch": 2})
    assert next(iter(sampler)) == first_batches[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 6}, "pass batch_size=8"),
        ({"batch_size": 44}, "11 classes from each super-category, but 0 has 10.*batch_size=40"),
        ({"batch_size": 8, "super_level": 2}, "super_level=2 with paths of 2 levels"),
        ({"batch_size": 8, "super_level": 0}, "super_level=0"),
        ({"batch_size": 8, "batches_per_pair": 0}, "batches_per_pair=0"),
    ],
)
def test_impossible_pairs_say_how_to_fix_them(options, message):
    with pytest.raises(OptionError, match=message):
        SuperCategoryPairSampler(PATHS, images_per_class=2, **options)


def test_a_single_super_category_makes_no_pair():
    with pytest.raises(OptionError, match="at least two"):
        SuperCategoryPairSampler(PATHS[:60], batch_size=4, images_per_class=2)


def test_a_class_in_two_super_categories_is_refused():
    with pytest.raises(PathError, match="two nodes of level 1"):
        SuperCategoryPairSampler([[0, 5], [1, 5], [0, 6]], batch_size=2, images_per_class=1)


def test_a_super_category_that_is_too_small_is_left_out_where_that_is_asked_for():
    paths = [[kind, 10 * kind + fine] for kind, classes in enumerate((4, 4, 1, 5)) for fine in range(classes)] * 2
    with pytest.raises(OptionError, match="small_supers='drop'"):
        SuperCategoryPairSampler(paths, batch_size=8, images_per_class=2)
    with pytest.warns(UserWarning, match=r"1 of 4 super-categories left out \(2; 2 items\): fewer than 2 classes"):
        sampler = SuperCategoryPairSampler(paths, batch_size=8, images_per_class=2, small_supers="drop")
    assert sampler.supers_left_out == [2]
    assert len(sampler) == 3 * 5
    assert {paths[item][0] for batch in sampler for item in batch} == {0, 1, 3}
    large_only = SuperCategoryPairSampler([path for path in paths if path[0] != 2], batch_size=8, images_per_class=2)
    assert len(large_only) == len(sampler)
    with pytest.raises(OptionError, match="classes from each super-category"):
        SuperCategoryPairSampler(paths, batch_size=20, images_per_class=2, small_supers="drop")
