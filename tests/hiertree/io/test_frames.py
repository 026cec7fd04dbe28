"""Frames of several libraries give the same columns of plain values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hiertree.errors import InputError, TableError
from hiertree.io.tables import frame_columns, is_frame

COLUMNS = {"kind": ["lake", None, "peak"], "id": [17, 4, 5]}


def libraries():
    return [pd.DataFrame, pa.table, pytest.importorskip("polars").DataFrame]


def test_frames_of_several_libraries_give_the_same_plain_values():
    for library in libraries():
        frame = library(COLUMNS)
        assert is_frame(frame)
        assert frame_columns(frame) == COLUMNS
        assert frame_columns(frame, ["id"]) == {"id": [17, 4, 5]}


def test_missing_values_of_every_kind_are_none():
    cells = pd.DataFrame({"kind": pd.Series(["lake", None, float("nan"), pd.NA, pd.NaT], dtype=object)})
    assert frame_columns(cells)["kind"] == ["lake", None, None, None, None]
    assert frame_columns(pd.DataFrame({"kind": pd.Categorical(["lake", None])}))["kind"] == ["lake", None]


def test_integers_stay_integers_where_some_are_missing():
    for library in libraries():
        columns = frame_columns(library({"id": [17, None, 4], "score": [0.5, None, 1.0]}))
        assert list(map(repr, columns["id"])) == ["17", "None", "4"]
        assert columns["score"] == [0.5, None, 1.0]


def test_columns_without_text_names_are_read_by_their_number():
    assert frame_columns(pd.DataFrame([[1, 2], [3, 4]]), ["1"]) == {"1": [2, 4]}


def test_what_is_no_frame_in_memory_is_refused():
    lazy = pytest.importorskip("polars").LazyFrame(COLUMNS)
    for bad, message in [(lazy, "collect"), (np.zeros((2, 2)), "numpy ndarray"), (COLUMNS, "dict")]:
        with pytest.raises(InputError, match=message):
            frame_columns(bad)


def test_columns_that_are_absent_or_twice_there_are_named():
    with pytest.raises(TableError, match="did you mean 'kind'"):
        frame_columns(pd.DataFrame(COLUMNS), ["kinds"])
    with pytest.raises(TableError, match="several columns named 'a'"):
        frame_columns(pd.DataFrame([[1, 2]], columns=["a", "a"]))
