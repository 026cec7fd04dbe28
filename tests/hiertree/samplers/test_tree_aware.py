"""Every item of a tree-aware batch has items at each level, and every class has its turn."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile

import pytest
from hypothesis import given
from sampler_cases import TREE, build, trees

from hiertree.errors import OptionError
from hiertree.samplers import TreeSampler


@given(trees())
def test_every_item_of_a_tree_batch_has_items_at_each_level_the_data_set_has(case):
    paths, options = case
    sampler = build(case)
    rows = [tuple(row) for row in paths.tolist()]
    sizes = Counter(rows)
    rows_with_siblings = [
        i
        for i, row in enumerate(rows)
        if options["small_classes"] == "replace" or sizes[row] >= sampler.images_per_class
    ]

    def levels_of(item, neighbors):
        """The exact levels, in slow words: the length of the common beginning."""
        return {
            len(list(takewhile(lambda pair: pair[0] == pair[1] >= 0, zip(rows[item], rows[neighbor], strict=True))))
            for neighbor in neighbors
            if neighbor != item
        }

    in_data = {row: levels_of(rows.index(row), rows_with_siblings) for row in set(rows)}
    batches = list(sampler)
    assert len(batches) == len(sampler)
    for batch in batches[:6]:
        assert len(batch) == options["batch_size"]
        assert set(batch) <= set(rows_with_siblings)
        for item in set(batch):
            assert levels_of(item, batch) == in_data[rows[item]]


def test_a_tree_sampler_reaches_every_class_in_time_and_draws_differently():
    sampler = TreeSampler(TREE, batch_size=24, images_per_class=2)
    classes = {tuple(row) for row in TREE.tolist()}
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    visits = Counter(tuple(TREE[item]) for batches in epochs for batch in batches for item in batch[::2])
    assert set(visits) == classes
    assert epochs[0] != epochs[1]


def test_a_batch_too_small_for_the_tree_says_what_it_needs():
    paths = [[0, 0], [0, 1], [1, 2], [1, 3]] * 2
    assert len(next(iter(TreeSampler(paths, batch_size=8, images_per_class=2)))) == 8
    with pytest.raises(OptionError, match=r"batches of 2 classes.*at least 4.*batch_size=8"):
        TreeSampler(paths, batch_size=4, images_per_class=2)
    with pytest.raises(OptionError, match="images_per_class=1"):
        TreeSampler(paths, batch_size=4, images_per_class=1)
