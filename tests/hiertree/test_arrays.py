"""Arrays that cannot be used are refused, and the message names the row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hiertree.arrays import as_embeddings, as_paths, to_numpy
from hiertree.errors import EmbeddingError, PathError, ShapeError


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, 2], [float("nan"), 1]], r"queries holds NaN or infinite values \(1 rows: 1\)"),
        ([[1, 2], [float("inf"), 1]], "1 rows: 1"),
        ([[0, 0], [1, 1]], r"zero norm \(1 rows: 0\)"),
        ([["a", "b"]], "real numbers"),
    ],
)
def test_embeddings_that_cannot_be_compared_are_refused_by_row(values, message):
    with pytest.raises(EmbeddingError, match=message):
        as_embeddings(values, name="queries")


@pytest.mark.parametrize("shape", [(3,), (2, 0), (1, 2, 3)])
def test_embeddings_must_be_a_matrix(shape):
    with pytest.raises(ShapeError, match="expected shape"):
        as_embeddings(np.ones(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_becomes_float32(dtype):
    array = as_embeddings(torch.ones((2, 3), dtype=dtype, requires_grad=True))
    assert array.dtype == np.float32


def test_float64_stays_and_strided_arrays_become_contiguous():
    array = as_embeddings(np.ones((4, 6))[::2, ::2])
    assert array.dtype == np.float64
    assert array.flags.c_contiguous


@pytest.mark.parametrize(
    ("values", "error"),
    [([[0.5, 1.0]], PathError), ([[0, -1]], PathError), (np.zeros((2, 256), int), ShapeError), ([[[1]]], ShapeError)],
)
def test_paths_that_are_none_are_refused(values, error):
    with pytest.raises(error):
        as_paths(values)


def test_paths_must_match_their_items():
    with pytest.raises(ShapeError, match="expected 3 rows"):
        as_paths([1, 2], num_items=3)


def test_bfloat16_scores_become_numpy():
    assert to_numpy(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32
