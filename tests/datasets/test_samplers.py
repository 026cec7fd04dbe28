"""What every batch and every epoch of the samplers guarantees."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.utils.data import DataLoader, TensorDataset

from hiertree._tree_batches import ClassTree
from hiertree.errors import OptionError, PathError
from hiertree.samplers import ClassBalancedSampler, DistributedBatches, SuperCategoryPairSampler, TreeSampler

Sampler = ClassBalancedSampler | SuperCategoryPairSampler | TreeSampler


@st.composite
def class_balanced(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Labels in random order, and options that they allow."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    m, policy = draw(st.integers(1, 5)), draw(st.sampled_from(["replace", "drop"]))
    kept = sum(size >= m for size in sizes) if policy == "drop" else len(sizes)
    if kept == 0:
        sizes, kept = [*sizes, m], 1
    labels = np.random.default_rng(draw(st.integers(0, 99))).permutation(np.repeat(np.arange(len(sizes)) * 3, sizes))
    batch_size = m * draw(st.integers(1, kept))
    seed = draw(st.integers(0, 5))
    return labels, {"batch_size": batch_size, "images_per_class": m, "small_classes": policy, "seed": seed}


@st.composite
def super_pairs(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Paths of three levels with super-categories at level 2, and options that they allow."""
    supers = draw(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=6), min_size=2, max_size=5))
    rows, leaf = [], 0
    for number, sizes in enumerate(supers):
        for size in sizes:
            rows += [[number % 2, number, leaf]] * size
            leaf += 1
    paths = np.random.default_rng(draw(st.integers(0, 99))).permutation(np.array(rows))
    m, half = draw(st.integers(1, 4)), draw(st.integers(1, min(map(len, supers))))
    options = {"batch_size": 2 * m * half, "images_per_class": m, "batches_per_pair": draw(st.integers(1, 4))}
    return paths, {**options, "super_level": 2, "seed": draw(st.integers(0, 5))}


@st.composite
def trees(draw: st.DrawFn) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Paths of one to four levels, of very uneven nodes and classes, and options that they allow."""
    branching = st.sampled_from([1, 1, 2, 2, 3, 5])
    rows: list[list[int]] = [[]]
    for _ in range(draw(st.integers(1, 4))):
        rows = [[*row, child] for row in rows for child in range(draw(branching))][:40]
    paths = np.repeat(np.array(rows), [draw(st.integers(1, 4)) for _ in rows], axis=0)
    paths = np.random.default_rng(draw(st.integers(0, 99))).permutation(paths)
    m, policy = draw(st.integers(2, 4)), draw(st.sampled_from(["replace", "drop"]))
    kept, counts = np.unique(paths, axis=0, return_counts=True)
    if policy == "drop" and not (counts >= m).any():
        policy = "replace"
    kept = kept if policy == "replace" else kept[counts >= m]
    classes = ClassTree(kept.astype(np.int64)).largest_cost() + draw(st.integers(0, 6))
    options = {"images_per_class": m, "small_classes": policy, "seed": draw(st.integers(0, 5))}
    return paths, {"batch_size": m * classes, "tree": True, **options}


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


def build(case: Any) -> Sampler:
    paths, options = case
    if "tree" in options:
        return TreeSampler(paths, **{name: value for name, value in options.items() if name != "tree"})
    return (SuperCategoryPairSampler if "super_level" in options else ClassBalancedSampler)(paths, **options)


LABELS = np.repeat(np.arange(30), 6)
PATHS = np.stack([LABELS // 10, LABELS], axis=1)
TREE = np.stack([LABELS // 15, LABELS // 5, LABELS], axis=1)


def samplers(seed: int = 0) -> list[Sampler]:
    return [
        ClassBalancedSampler(PATHS, batch_size=20, images_per_class=2, seed=seed),
        SuperCategoryPairSampler(PATHS, batch_size=20, images_per_class=2, seed=seed),
        TreeSampler(TREE, batch_size=20, images_per_class=2, seed=seed),
    ]


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
