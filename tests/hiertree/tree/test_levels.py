"""Levels are numbers of leading equal columns, in numpy and in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hiertree as ht
from hiertree.errors import PathError, ShapeError


def test_a_column_that_agrees_below_one_that_does_not_counts_for_nothing():
    levels = ht.levels(np.array([[0, 1, 2]]), np.array([[0, 7, 2], [3, 1, 2], [0, 1, 2]]))
    np.testing.assert_array_equal(levels, [[1, 0, 3]])
    assert levels.dtype == np.uint8


def test_levels_of_torch_tensors_are_torch_tensors():
    levels = ht.levels(torch.tensor([1, 2]), torch.tensor([2, 2, 1]))
    assert levels.dtype == torch.uint8
    assert levels.tolist() == [[0, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize("shapes", [((2, 3), (2, 2)), ((2, 3, 1), (2, 3)), ((2, 0), (2, 0)), ((1, 256), (1, 256))])
def test_levels_refuse_shapes_that_do_not_fit(shapes):
    with pytest.raises(ShapeError):
        ht.levels(*(np.zeros(shape, dtype=int) for shape in shapes))


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_level_counts_add_up_to_the_gallery(seed, num_levels):
    rng = np.random.default_rng(seed)
    paths = rng.integers(0, 2, (6, num_levels))
    counts = ht.level_counts(ht.levels(paths, paths), num_levels, valid=~np.eye(6, dtype=bool))
    assert counts.shape == (6, num_levels + 1)
    assert (counts.sum(axis=1) == 5).all()


@pytest.mark.parametrize("array", [np.array, torch.tensor])
@pytest.mark.parametrize("levels", [[[0, 3, 1]], [[0, -1, 1]]])
def test_levels_outside_the_tree_are_refused_rather_than_left_out_of_the_counts(array, levels):
    with pytest.raises(PathError, match="num_levels=2"):
        ht.level_counts(array(levels), 2)
    assert ht.level_counts(torch.tensor([[0, 3, 1]], dtype=torch.int8), 200).sum() == 3


def test_a_mask_is_booleans_in_an_array_or_a_list():
    levels = np.array([[2, 0, 1, 0]])
    assert ht.level_counts(levels, 2, valid=[[True, True, False, True]]).tolist() == [[2, 0, 1]]
    with pytest.raises(ShapeError, match="booleans"):
        ht.level_counts(levels, 2, valid=np.array([[2, 1, 1, 1]]))


def test_negative_ids_agree_with_nothing():
    for make in (np.array, torch.tensor):
        assert ht.levels(make([[3, -1], [3, 0]]), make([[3, -1], [3, 0]])).tolist() == [[1, 1], [1, 2]]
        with pytest.raises(PathError, match="negative"):
            ht.levels(make([[-2, 0]]), make([[-2, 0]]))
