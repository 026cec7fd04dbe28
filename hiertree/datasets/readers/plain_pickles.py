"""Pickles of numbers, text and numeric arrays, read without running any code in them.

Python's own unpickler follows the opcodes, but the only names that it resolves are the stand-ins below, which rebuild
arrays from a checked shape, a plain number type and exactly the right number of bytes. Any other name is refused.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import TableError
from ...io.files import raised_as

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLAIN = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248])")
_STRUCTURE = (None, None, None, -1, -1, 0)  # state of a plain type: no subtype, fields, size or flags


def read_plain_pickle(path: Path) -> Any:
    """Read dictionaries, lists, text, numbers and numeric arrays; bytes of Python 2 become text, decoded as Latin-1.

    A TableError says what else a file is, or names.
    """
    expected = "a pickle of numbers, text and numeric arrays"
    with raised_as(TableError, path, expected=expected, on=Exception), path.open("rb") as file:
        return _arrays(_PlainUnpickler(file, encoding="latin1").load())


class _PlainType:
    """Stand-in for ``numpy.dtype``."""

    def __init__(self, code: Any, _align: Any = False, _copy: Any = False) -> None:
        if not isinstance(code, str) or not _PLAIN.fullmatch(code):
            raise pickle.UnpicklingError(f"an array of type {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "=") or tuple(state[2:8]) != _STRUCTURE:
            raise pickle.UnpicklingError(f"a structured type {state!r}")
        self.dtype = self.dtype.newbyteorder(state[1])


class _PlainArray:
    """Stand-in for an array that numpy would rebuild."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        self.array = _array(shape, kind, content, by_columns=by_columns)


def _array(shape: Any, kind: Any, content: Any, *, by_columns: Any = False) -> NDArray[Any]:
    raw = content.encode("latin1") if isinstance(content, str) else content
    if not (isinstance(kind, _PlainType) and isinstance(raw, bytes) and isinstance(shape, tuple)):
        raise pickle.UnpicklingError("an array of objects")
    if any(not isinstance(side, int) or side < 0 for side in shape):
        raise pickle.UnpicklingError(f"an array of shape {shape!r}")
    if math.prod(shape) * kind.dtype.itemsize != len(raw):
        raise pickle.UnpicklingError(f"{len(raw)} bytes for shape {shape}")
    flat = np.frombuffer(raw, dtype=kind.dtype)
    return flat.reshape(shape, order="F" if by_columns else "C").astype(kind.dtype.newbyteorder("="))


def _bytes(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes by {encoding!r}")
    return text.encode("latin1")


class _Marker:
    """Stand-in for ``numpy.ndarray``, which pickles name but never call."""


_ALLOWED: Mapping[str, Any] = MappingProxyType(
    {
        "numpy.dtype": _PlainType,
        "numpy.ndarray": _Marker,
        "numpy.multiarray._reconstruct": lambda _kind, _shape, _code: _PlainArray(),
        "numpy.multiarray.scalar": lambda kind, content: _array((1,), kind, content)[0].item(),
        "numpy.numeric._frombuffer": lambda content, kind, shape, order: _array(
            shape, kind, bytes(content), by_columns=order == "F"
        ),
        "_codecs.encode": _bytes,
        "__builtin__.bytes": lambda: b"",  # protocol 2 writes empty arrays so
    }
)


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        plain = re.sub(r"^numpy\._?core\.", "numpy.", module)  # the module before and since numpy 2
        if f"{plain}.{name}" not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[f"{plain}.{name}"]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it asks for an outside object {pid!r}")


def _arrays(value: Any) -> Any:
    """Replace the stand-ins in dictionaries, lists and tuples by arrays."""
    if isinstance(value, np.ndarray | _PlainArray):
        return value if isinstance(value, np.ndarray) else value.array
    if isinstance(value, dict):
        return {_arrays(key): _arrays(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_arrays, value))
    if value is None or isinstance(value, (str, bytes, int, float)):
        return value
    raise pickle.UnpicklingError(f"a {type(value).__name__}")
