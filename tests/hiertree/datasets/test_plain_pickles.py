"""Pickles that hold data are read as Python reads them, and no other name in them is resolved."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from hiertree.datasets.benchmarks.pickled import read_plain_pickle
from hiertree.errors import TableError


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_gives_what_python_reads(tmp_path, protocol):
    column = np.arange(6.0).reshape(2, 3)
    items = [1, 2.5, "ü", None, True, b"q"]
    values_by_name = {
        "rows": np.arange(6).reshape(2, 3), "columns": np.asfortranarray(column), 7: [items, items, (1, (2, 3))],
        "scalar": np.float32(3), "big-endian": np.arange(5, dtype=">i4"), "empty": np.zeros((0, 3), np.uint8),
    }  # fmt: skip
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(values_by_name, protocol))
    values = read_plain_pickle(tmp_path / "a.pkl")
    assert list(values) == list(values_by_name)
    for name, value in values_by_name.items():
        np.testing.assert_array_equal(values[name], value) if isinstance(value, np.ndarray) else None
        assert isinstance(value, np.ndarray) or values[name] == value


def array(shape, code, values):
    """An array as protocol 0 spells it."""
    plain_type = b"cnumpy\ndtype\n(V" + code + b"\nI00\nI01\ntR"
    reconstructed = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntVb\ntR"
    return reconstructed + b"(I1\n(" + shape + b"t" + plain_type + b"I00\nV" + values + b"\ntb."


def test_an_array_as_protocol_0_spells_it(tmp_path):
    (tmp_path / "a.pkl").write_bytes(array(b"I1\nI2\n", b"u1", b"ab"))
    assert read_plain_pickle(tmp_path / "a.pkl").tolist() == [[97, 98]]


@pytest.mark.parametrize(
    "pickled",
    [
        b"cos\nsystem\n(Vtrue\ntR.",
        b"cbuiltins\neval\n(V1\ntR.",
        b"\x80\x04\x8c\x10numpy.core.numeric\x8c\x0f_frombuffer.run\x93.",
        b"(ios\nsystem\nVtrue\n.",
        array(b"I-1\nI-2\n", b"u1", b"ab"),
        array(b"I4611686018427387904\nI4\n", b"u1", b""),
        array(b"I3\n", b"u1", b"ab"),
        array(b"I1\n", b"O8", b"abcdefgh"),
        b"cnumpy\nndarray\n((I1\ntVO\nVabcdefgh\ntR.",
        array(b"I2\n", b"u1", b"ab")[:-9],
    ],
    ids=["global", "eval", "nested name", "inst", "negative", "overflow", "length", "objects", "ndarray", "cut"],
)
def test_what_is_no_array_of_numbers_is_refused(tmp_path, pickled):
    (tmp_path / "a.pkl").write_bytes(pickled)
    with pytest.raises(TableError, match=r"a\.pkl cannot be read"):
        read_plain_pickle(tmp_path / "a.pkl")
