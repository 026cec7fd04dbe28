"""Arrays that cannot be used are refused, and the message names the row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.sparse import coo_array, csr_matrix

from hiertree import LabelTree, levels
from hiertree.arrays import as_embeddings, as_paths, to_numpy
from hiertree.datasets import load_synthetic
from hiertree.errors import EmbeddingError, InputError, PathError, ShapeError
from hiertree.losses import SupHAP


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


class ModelOutput(dict):
    """As transformers returns it."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (csr_matrix(np.eye(3)), r"toarray\(\)"),
        (coo_array(np.eye(3)), r"toarray\(\)"),
        (ModelOutput(last_hidden_state=torch.ones(3, 5, 2)), r"pooler_output.*last_hidden_state\[:, 0\]"),
        ({"kind": [0, 1], "type": [0, 1]}, "'kind', 'type'"),
        (LabelTree.from_paths([("a", 1), ("a", 2)]), r"paths\(leaves\)"),
        (load_synthetic("train", families=2, kinds=2, instances=3, images=4), "pass its paths"),
    ],
)
def test_what_holds_an_array_is_refused_with_what_to_pass(values, message):
    for function in (as_embeddings, as_paths, to_numpy):
        with pytest.raises(InputError, match=message):
            function(values)
    with pytest.raises(InputError, match=message):
        SupHAP()(values, torch.zeros(3, 1, dtype=torch.int64))


@pytest.mark.parametrize("path", ["embeddings.npz", Path("labels.csv")])
def test_the_path_of_a_file_is_refused(path):
    with pytest.raises(EmbeddingError, match=rf"{path}.*load the file"):
        as_embeddings(path)
    with pytest.raises(PathError, match=rf"{path}.*load the file"):
        as_paths(path)


def test_a_data_set_of_hugging_face_is_refused_as_labels():
    rows = pytest.importorskip("datasets").Dataset.from_dict({"kind": [0, 1], "type": [0, 1]})
    with pytest.raises(InputError, match=r"to_pandas\(\)"):
        as_paths(rows)
    assert as_paths(rows.select_columns(["kind", "type"]).to_pandas()).tolist() == [[0, 0], [1, 1]]


ROWS = [("natural", 1), ("natural", 2), ("human-made", 3)]


@pytest.mark.parametrize(
    "values",
    [
        ROWS,
        pd.Series(ROWS),
        pd.DataFrame({"path": ROWS}),
        pd.MultiIndex.from_tuples(ROWS),
        np.array([*ROWS, None], dtype=object)[:-1],
        pd.Series([[0, 1], [0, 2], [1, 3]]),
        pl.Series([[0, 1], [0, 2], [1, 3]]),
        pl.Series([[0, 1], [0, 2], [1, 3]], dtype=pl.Array(pl.Int64, 2)),
        pa.chunked_array([[[0, 1], [0, 2], [1, 3]]]),
    ],
)
def test_rows_of_labels_in_one_column_are_levels(values):
    assert levels(as_paths(values), as_paths(values)).tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 2]]


def test_rows_of_labels_of_different_lengths_are_refused():
    with pytest.raises(ShapeError, match="different lengths"):
        as_paths(pd.Series([("a", "b"), ("a",)]))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, np.bool_])
@pytest.mark.parametrize("form", [np.asarray, torch.tensor, pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
def test_one_hot_labels_are_refused_instead_of_being_levels(kind, form):
    one_hot = np.eye(5, dtype=kind)[[0, 1, 2, 2, 4, 1]]
    for labels in (one_hot, np.maximum(one_hot, one_hot[::-1])):
        with pytest.raises(PathError, match=r"5 columns that are 0 or 1.*argmax\(axis=1\)"):
            as_paths(form(labels))
    with pytest.raises(ShapeError, match=r"argmax\(axis=1\)"):
        as_paths(np.eye(300, dtype=int))


def test_paths_of_two_classes_are_no_one_hot_labels():
    for paths in ([[0, 0, 0], [0, 1, 1]], [[0, 0, 1], [1, 1, 0]], [[0, 1], [1, 2], [0, 0]], [[0, 1], [1, 0]]):
        assert as_paths(paths).tolist() == paths


@pytest.mark.parametrize("shape", [(3,), (2, 0), (1, 2, 3)])
def test_embeddings_must_be_a_matrix(shape):
    with pytest.raises(ShapeError, match="expected shape"):
        as_embeddings(np.ones(shape))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_becomes_float32(dtype):
    array = as_embeddings(torch.ones((2, 3), dtype=dtype, requires_grad=True))
    assert array.dtype == np.float32


@pytest.mark.parametrize("dtype", ["<f8", ">f8", np.longdouble])
def test_float64_stays_and_strided_arrays_become_contiguous(dtype):
    array = as_embeddings(np.full((4, 6), 1 / 3, dtype)[::2, ::2])
    assert array.dtype == np.float64
    assert (array == np.float64(np.full(1, 1 / 3, dtype)[0])).all()
    assert array.flags.c_contiguous


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([[1.5, 2.0], [0.5, 4.0]]),
        pd.Series(list(np.array([[1.5, 2.0], [0.5, 4.0]], np.float32))),
        pd.DataFrame([[1.5, 2.0], [0.5, 4.0]]).convert_dtypes(),
        pd.DataFrame([[1.5, 2.0], [0.5, 4.0]]).convert_dtypes(dtype_backend="pyarrow"),
        pl.Series([[1.5, 2.0], [0.5, 4.0]]),
        pa.array([[1.5, 2.0], [0.5, 4.0]]),
        torch.tensor([[1.5, 2.0], [0.5, 4.0]]).to(torch.float8_e5m2),
        torch.tensor([[1.5j, 2j], [0.5j, 4j]]).conj().imag.neg(),
    ],
)
def test_columns_of_lists_nullable_frames_and_tensors_of_every_type_are_embeddings(values):
    assert as_embeddings(values).tolist() == [[1.5, 2.0], [0.5, 4.0]]


def test_a_missing_number_in_a_frame_is_refused():
    with pytest.raises(EmbeddingError, match="expected real numbers"):
        as_embeddings(pd.DataFrame([[1.5, None]]).convert_dtypes())
    with pytest.raises(ShapeError, match="different lengths"):
        as_embeddings(pd.Series([[1.5], [0.5, 4.0]]))


def test_whole_number_floats_are_ids():
    ids = np.array([[3.0, 7.0], [3.0, 7.0], [3.0, 8.0]])
    assert as_paths(ids).tolist() == [[0, 0], [0, 0], [0, 1]]
    assert as_paths(ids[:, 1]).tolist() == [[0], [0], [1]]
    assert as_paths(ids.astype(np.float16)).tolist() == [[0, 0], [0, 0], [0, 1]]
    with pytest.raises(PathError, match=r"without a label in level 2 \(1 rows: 1\)"):
        as_paths(np.array([[3.0, 7.0], [3.0, np.nan]]))
    for dtype, number in ((np.float16, 2050), (np.float32, 2**24), (np.float64, 2**53)):
        with pytest.raises(PathError, match="turn numbers that are ids into integers"):
            as_paths(np.array([number, 1], dtype))


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([[0.5, 1.0]], PathError),
        ([[-1, 0]], PathError),
        ([[0, -2]], PathError),
        ([[0, -1, 3]], PathError),
        ([-1, 0], PathError),
        (np.zeros((2, 256), int), ShapeError),
        ([[[1]]], ShapeError),
    ],
)
def test_paths_that_are_none_are_refused(values, error):
    with pytest.raises(error):
        as_paths(values)


def test_paths_must_match_their_items():
    with pytest.raises(ShapeError, match="expected 3 rows"):
        as_paths([1, 2], num_items=3)


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[1, [2]]], [[1.0], [[2.0]]]])
def test_ragged_lists_are_refused(values):
    for function in (as_embeddings, as_paths, to_numpy):
        with pytest.raises(ShapeError, match="rows of different lengths"):
            function(values)


def test_masked_arrays_are_refused_since_their_mask_would_be_lost():
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    for function in (as_embeddings, as_paths):
        with pytest.raises(InputError, match="masked"):
            function(masked)
    assert as_paths(np.ma.masked_array([[1, 2]])).tolist() == [[1, 2]]


@pytest.mark.parametrize("values", [None, {}, "paths", [[None]], [[1 + 2j]], object()])
def test_what_is_no_array_of_numbers_is_refused(values):
    for function in (as_embeddings, as_paths):
        with pytest.raises(InputError):
            function(values)


@pytest.mark.parametrize("values", [torch.eye(3).to_sparse(), torch.ones((3, 3), device="meta")])
def test_tensors_without_numbers_are_refused(values):
    with pytest.raises(InputError, match="dense"):
        as_embeddings(values)


def test_ids_beyond_int64_are_refused():
    with pytest.raises(PathError, match="2\\^63"):
        as_paths(np.array([[2**63]], dtype=np.uint64))
