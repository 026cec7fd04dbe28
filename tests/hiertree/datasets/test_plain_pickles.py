"""Pickles that hold data are read as Python reads them; those of few bytes that ask for much are refused at once."""

from __future__ import annotations

import pickle
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hiertree.datasets.readers.plain_pickles import read_plain_pickle
from hiertree.errors import TableError


def nested(kind: type) -> Any:
    """Sixty containers, each of which holds the one before twice."""
    value = kind()
    for _ in range(60):
        value = kind((value, value))
    return value


def body(value: Any) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


HUGE = (4 << 30).to_bytes(8, "little")
BOMBS = {
    "memo": b"\x80\x02]r\xff\xff\xff\xff]a.",
    "bytearray": b"\x80\x05\x96" + HUGE + b".",
    "bytes": b"\x80\x04\x8e" + HUGE + b".",
    "frame": b"\x80\x04\x95" + HUGE + b".",
    "lists": pickle.dumps(nested(list)),
    "tuples": pickle.dumps(nested(tuple)),
    "key": b"\x80\x02}" + body(nested(tuple)) + b"Ns.",
    "keys": b"\x80\x02}(" + body(nested(tuple)) + b"Nu.",
    "dictionary": b"\x80\x02(" + body(nested(tuple)) + b"Nd.",
    "set": b"\x80\x04\x8f(" + body(nested(tuple)) + b"\x90.",
    "type": b"\x80\x02cnumpy\ndtype\n" + body(nested(tuple)) + b"\x85R.",
    "length": b"\x80\x02cnumpy.core.numeric\n_frombuffer\n(J\xff\xff\xff\x7fcnumpy\ndtype\nU\x02u1\x85R)U\x01CtR.",
    "copies": b"\x80\x02]q\0(" + (b"c_codecs\nencode\nX\x00\x20\x00\x00" + b"a" * 8192 + b"q\1U\6latin1q\2\x86R")
    + b"c_codecs\nencode\nh\1h\2\x86R" * 2000 + b"e.",
}  # fmt: skip


@pytest.mark.parametrize("content", [value for name, value in BOMBS.items() if name != "memo"], ids=lambda _: "")
def test_few_bytes_that_ask_for_much_are_refused_at_once(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pkl").write_bytes(content)
    peak, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(TableError, match=r"a\.pkl"):
        read_plain_pickle(tmp_path / "a.pkl")
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100_000  # kB


def test_a_far_place_in_the_memo_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(BOMBS["memo"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read_plain_pickle(tmp_path / "a.pkl") == [[]]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100_000


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_gives_what_python_reads(tmp_path: Path, protocol: int) -> None:
    column = np.arange(6.0).reshape(2, 3)
    items = [1, 2.5, "ü", None, True, b"q"]
    content = {
        "rows": np.arange(6).reshape(2, 3), "columns": np.asfortranarray(column), 7: [items, items, (1, (2, 3))],
        "scalar": np.float32(3), "big-endian": np.arange(5, dtype=">i4"), "empty": np.zeros((0, 3), np.uint8),
    }  # fmt: skip
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(content, protocol))
    values = read_plain_pickle(tmp_path / "a.pkl")
    assert list(values) == list(content)
    for name, value in content.items():
        np.testing.assert_array_equal(values[name], value) if isinstance(value, np.ndarray) else None
        assert isinstance(value, np.ndarray) or values[name] == value
