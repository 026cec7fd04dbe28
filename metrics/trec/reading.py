"""TREC files: runs, ``query Q0 item rank score tag``, and qrels, ``query 0 item level``, one row a line.

A file whose name ends in ``.gz`` is compressed by gzip.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from array import array
from codecs import BOM_UTF8
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.errors import TableError

from .triples import NegativeQrels, Triples, checked_qrels, checked_run

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Format(NamedTuple):
    name: str
    columns: str
    width: int
    value: int
    trailing: bool  # whether text may follow the last column, as trec_eval reads it


_RUN = _Format("TREC run", "query Q0 item rank score tag", 6, 4, trailing=True)
_QRELS = _Format("TREC qrels", "query 0 item level", 4, 3, trailing=False)
_PACKED = (".bz2", ".lz4", ".xz", ".zip", ".zst")


def read_trec_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read a TREC run: lines ``query Q0 item rank score tag``, separated by white space; ``.gz`` is decompressed.

    The score ranks; the rank column is not read, as in trec_eval. Items stay in the order of the file. As trec_eval
    does, lines that begin with ``#`` and text after the tag are passed over.

    Returns:
        The score of each query and item.

    Raises:
        TableError: no such file, a damaged one, not UTF-8, a line without six columns, a score that is no number or
            that float64 rounds, or an item listed twice; the message names file and line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "run.txt"
    ...     _ = file.write_text("q1 Q0 d7 1 0.9 mine")
    ...     read_trec_run(file)
    {'q1': {'d7': 0.9}}
    """
    return _nested(checked_run(trec_run(Path(path))), float)


def read_trec_qrels(
    path: str | os.PathLike[str], *, negative_qrels: NegativeQrels = "error"
) -> dict[str, dict[str, int]]:
    """Read TREC qrels: lines ``query 0 item level``, separated by white space; graded judgments are levels.

    Lines that begin with ``#`` are passed over, as by trec_eval. A name that ends in ``.gz`` is decompressed.

    Args:
        path: the file.
        negative_qrels: what a judgment below 0 is, by which TREC marks spam: an ``"error"``, or ``"irrelevant"``,
            level 0.

    Returns:
        The level of each query and item.

    Raises:
        TableError: no such file, a damaged one, not UTF-8, a line without four columns, a judgment that is no integer
            from 0 to 255, or an item judged twice; the message names file and line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "qrels.txt"
    ...     _ = file.write_text("q1 0 d7 2")
    ...     read_trec_qrels(file)
    {'q1': {'d7': 2}}
    """
    return _nested(checked_qrels(trec_qrels(Path(path)), negative=negative_qrels), int)


def trec_run(path: Path) -> Triples:
    """A TREC run as triples, not yet checked."""
    return _read(path, _RUN)


def trec_qrels(path: Path) -> Triples:
    """TREC qrels as triples, not yet checked."""
    return _read(path, _QRELS)


def _read(path: Path, form: _Format) -> Triples:
    queries: dict[Hashable, int] = {}
    items: dict[Hashable, int] = {}
    query, item, line, value = array("q"), array("q"), array("q"), array("d")
    for number, text in _lines(path, form):
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        value.append(_value(path, number, words, form))
        query.append(queries.setdefault(words[0], len(queries)))
        item.append(items.setdefault(words[2], len(items)))
        line.append(number)
    columns = (_numbers(query), _numbers(item), np.frombuffer(value, np.float64))
    return Triples([*queries], [*items], *columns, path.name, _numbers(line))


def _lines(path: Path, form: _Format) -> Iterator[tuple[int, str]]:
    """The lines of a file, plain or compressed, numbered from 1."""
    if path.suffix in _PACKED:
        raise TableError(f"{path}: compressed", expected=f"a {form.name} in plain text or .gz", remedy="decompress it")
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, (line.removeprefix(BOM_UTF8) if number == 1 else line).decode()
    except UnicodeDecodeError:
        raise TableError(f"{path}, line {number}: bytes that are not UTF-8", remedy="save the file as UTF-8") from None
    except (OSError, ValueError, EOFError, zlib.error) as error:  # a ValueError where the name holds NUL
        reason = getattr(error, "strerror", None) or error
        raise TableError(f"{path}: {reason}", expected=f"a readable {form.name}") from None


def _numbers(column: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(column, np.int64)


def _value(path: Path, number: int, words: list[str], form: _Format) -> float:
    if len(words) < form.width or (len(words) > form.width and not form.trailing):
        raise TableError(f"{path}, line {number}: {len(words)} columns", expected=f"{form.width}: {form.columns}")
    word = words[form.value]
    place = f"{path}, line {number}: {form.columns.split()[form.value]} {word!r}"
    try:
        value = float(word)
    except ValueError:
        raise TableError(place, expected="a number") from None
    if abs(value) >= 2**53 and _is_rounded(word, value):
        raise TableError(place, expected="a number that float64 holds: it would equal others")
    return value


def _is_rounded(word: str, value: float) -> bool:
    if math.isinf(value):
        return "inf" not in word.lower()
    return word.lstrip("+-").isdecimal() and int(word) != value


def _nested(triples: Triples, kind: type) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {str(query): {} for query in triples.queries}
    for query, item, value in zip(triples.query, triples.item, triples.value.tolist(), strict=True):
        nested[str(triples.queries[query])][str(triples.items[item])] = kind(value)
    return nested
