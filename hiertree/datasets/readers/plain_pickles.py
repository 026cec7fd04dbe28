"""Pickles of numbers, text and numeric arrays, read without running any code in them.

Python's own unpickler follows the opcodes, but the only names that it resolves are the stand-ins below, which rebuild
arrays from a checked shape, a plain number type and exactly the right number of bytes. Any other name is refused, as is
a file of few bytes that asks for much memory or time; so the unpickler is the one in Python, for the one in C makes a
memo as long as any number in the file.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...io.reading import reading_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLAIN = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248])")
_STRUCTURE = (None, None, None, -1, -1, 0)  # state of a plain type: no subtype, fields, size or flags


def read_plain_pickle(path: Path) -> Any:
    """Read dictionaries, lists, text, numbers and numeric arrays; bytes of Python 2 become text, decoded as Latin-1.

    A TableError says what else a file is, or names.
    """
    expected = "a pickle of numbers, text and numeric arrays"
    with reading_file(path, expected=expected):
        unpickler = _PlainUnpickler(path.read_bytes())
        return _plain(unpickler.load(), unpickler.most)


def as_texts(values: Any) -> list[str]:
    """A list or array of texts; a ValueError says what else it is."""
    texts: Any = values.ravel().tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError("a value that is not a list of texts")
    return list(texts)


def as_integers(values: Any) -> NDArray[np.int64]:
    """A list or array of whole numbers, flat; a ValueError says what else it is."""
    numbers = np.asarray(values).ravel()
    integral = numbers.dtype.kind in "iu" or (numbers.dtype.kind == "f" and bool((numbers == np.floor(numbers)).all()))
    if not integral:
        raise ValueError(f"{numbers[:3].tolist()!r:.80} instead of integers")
    return numbers.astype(np.int64)


class _PlainType:
    """Stand-in for ``numpy.dtype``."""

    def __init__(self, code: Any, _align: Any = False, _copy: Any = False) -> None:
        if not isinstance(code, str) or not _PLAIN.fullmatch(code):
            raise pickle.UnpicklingError(f"an array of type {code!r:.40}" if isinstance(code, str) else "an odd type")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "=") or tuple(state[2:8]) != _STRUCTURE:
            raise pickle.UnpicklingError("a structured type")
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
        raise pickle.UnpicklingError("an array whose shape is not numbers from 0")
    if math.prod(shape) * kind.dtype.itemsize != len(raw):
        raise pickle.UnpicklingError(f"{len(raw)} bytes for shape {shape}")
    flat = np.frombuffer(raw, dtype=kind.dtype)
    return flat.reshape(shape, order="F" if by_columns else "C").astype(kind.dtype.newbyteorder("="), copy=False)


def _bytes(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        raise pickle.UnpicklingError("bytes in an encoding other than latin1")
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
            shape, kind, bytes(content) if isinstance(content, bytearray) else content, by_columns=order == "F"
        ),
        "_codecs.encode": _bytes,
        "__builtin__.bytes": lambda: b"",  # protocol 2 writes empty arrays so
    }
)


_Base: Any = pickle._Unpickler
_SETS_AND_OBJECTS = (
    pickle.EMPTY_SET + pickle.FROZENSET + pickle.ADDITEMS + pickle.OBJ + pickle.INST + pickle.NEWOBJ + pickle.NEWOBJ_EX
)


class _PlainUnpickler(_Base):  # type: ignore[misc]
    """As in Python; of arrays and bytes it makes at most ten times as many bytes as the file has."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        self.most = 10 * len(content) + 1000
        self._bytes = 0

    def find_class(self, module: str, name: str) -> Any:
        module_name = re.sub(r"^numpy\._?core\.", "numpy.", module)  # the module before and since numpy 2
        if f"{module_name}.{name}" not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[f"{module_name}.{name}"]

    def persistent_load(self, _pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for an outside object")

    def load_setitem(self) -> None:
        _check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        _check_keys(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        _check_keys(self.stack[::2])
        super().load_dict()

    def load_reduce(self) -> None:
        super().load_reduce()
        self._count()

    def load_build(self) -> None:
        if not isinstance(self.stack[-2], _PlainType | _PlainArray):
            raise pickle.UnpicklingError(f"a {type(self.stack[-2]).__name__} with a state")
        super().load_build()
        self._count()

    def load_bytearray8(self) -> None:
        self.append(bytearray(self.read(*struct.unpack("<Q", self.read(8)))))  # no more than the file holds

    def load_refused(self) -> None:
        raise pickle.UnpicklingError("a set or an object")

    def _count(self) -> None:
        value = getattr(self.stack[-1], "array", self.stack[-1])
        self._bytes += value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, bytes) else 0
        if self._bytes > self.most:
            raise pickle.UnpicklingError(f"more than {self.most} bytes of arrays")

    dispatch = {  # noqa: RUF012 - as Python's
        **_Base.dispatch,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
        pickle.REDUCE[0]: load_reduce,
        pickle.BUILD[0]: load_build,
        pickle.BYTEARRAY8[0]: load_bytearray8,
        **dict.fromkeys(_SETS_AND_OBJECTS, load_refused),
    }


def _check_keys(keys: Iterable[Any]) -> None:
    """Refuse keys of other types, whose hash may take for ever, as that of tuples inside tuples."""
    if not all(isinstance(key, str | bytes | int | float) for key in keys):
        raise pickle.UnpicklingError("a key that is neither text nor a number")


def _plain(value: Any, max_values: int) -> Any:
    """Dictionaries, lists and tuples with arrays for the stand-ins, of at most so many values.

    A list that holds one other list twice, and so on, stands for more values than the file has bytes.
    """
    copies: dict[int, tuple[Any, int]] = {}

    def copied(value: Any) -> tuple[Any, int]:
        """The copy, and the number of values in it."""
        if isinstance(value, np.ndarray | _PlainArray):
            return value if isinstance(value, np.ndarray) else value.array, 1
        if value is None or isinstance(value, str | bytes | int | float):
            return value, 1
        if not isinstance(value, dict | list | tuple):
            raise pickle.UnpicklingError(f"a {type(value).__name__}")
        if id(value) not in copies:
            copies[id(value)] = (None, max_values)  # while it is copied, as a list may hold itself
            pairs = [copied(part) for part in (chain(*value.items()) if isinstance(value, dict) else value)]
            number = 1 + sum(count for _, count in pairs)
            if number > max_values:
                raise pickle.UnpicklingError(f"more than {max_values} values")
            parts = [part for part, _ in pairs]
            copy = dict(zip(parts[::2], parts[1::2], strict=True)) if isinstance(value, dict) else type(value)(parts)
            copies[id(value)] = copy, number
        return copies[id(value)]

    return copied(value)[0]
