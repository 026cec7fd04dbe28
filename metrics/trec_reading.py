"""Runs and judgments as triples, (query, item, score) or (query, item, level), and TREC files of them.

A run holds lines ``query Q0 item rank score tag``, qrels hold ``query 0 item level``. Lines of three columns are MS
MARCO's ``query item rank``, and BEIR's and MTEB's ``query item level``, perhaps below a line of heads. Files may be
packed by gzip, bzip2, xz, zstd or zip, as their names say.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from codecs import BOM_UTF8
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hiertree.arrays import MAX_LEVELS, plain_float, to_numpy
from hiertree.errors import EmbeddingError, HiertreeError, InputError, PathError, ShapeError, TableError
from hiertree.evaluation_options import Choice
from hiertree.io.reading import not_utf8, reading_file
from hiertree.io.tables import LONGEST_LINE, is_missing, open_unpacked
from hiertree.options import check_choice

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


class Form(NamedTuple):
    """A run or its judgments."""

    name: str  # of a file
    columns: list[str]  # of its lines
    value: int  # the column that holds the number
    trailing: bool  # whether text may follow the last column, as trec_eval reads it
    forms: str  # other forms that users may give
    field: str  # that holds the number in a record
    kind: type[InputError]  # for a value that is not a number


RUN = Form(
    "TREC run",
    ["query", "Q0", "item", "rank", "score", "tag"],
    value=4,
    trailing=True,
    forms="a file, a frame, a ranx Run, ScoredDocs of ir_measures, or a mapping from query to items, listed or scored",
    field="score",
    kind=EmbeddingError,
)
QRELS = Form(
    "TREC qrels",
    ["query", "0", "item", "level"],
    value=3,
    trailing=False,
    forms="a file, a frame, a ranx Qrels, Qrels of ir_measures, or a mapping from query to items to levels",
    field="relevance",
    kind=PathError,
)
_SHORT = ("query", "item", "rank or level")  # as MS MARCO writes runs; BEIR and MTEB judgments, below a line of heads
_QUERY_HEADS = ("query", "query-id", "query_id", "qid")
_INTEGER = re.compile("[+-]?[0-9]+")


class Triples(NamedTuple):
    """T rows, with numbers in place of names."""

    queries: Sequence[Hashable]  # the name of each query number; a query may have no row
    items: Sequence[Hashable]
    query: NDArray[np.int64]  # (T,) numbers, as of the items
    item: NDArray[np.int64]
    value: NDArray[np.float64]  # (T,) scores, larger being better, or levels
    source: str  # for the convention card and messages
    line: NDArray[np.int64] | None = None  # (T,) lines of a file
    by: str = "score"  # what the values are: score, distance, rank, place in a list, or level

    def refuse(
        self, bad: NDArray[np.bool_], fault: str, *, expected: str, kind: type[HiertreeError], remedy: str | None = None
    ) -> None:
        """Raise for the first bad row, if any; for a file, a TableError that names the line."""
        rows = np.flatnonzero(bad)
        if not len(rows):
            return
        row = rows[0]
        location = f"item {self.items[self.item[row]]!r} of query {self.queries[self.query[row]]!r}"
        if self.line is not None:
            location, kind = f"{self.source}, line {self.line[row]}: {location}", TableError
        raise kind(f"{fault.format(self.value[row])}: {location}", expected=expected, remedy=remedy)

    def pairs(self) -> pd.Index[int]:
        """(T,) one number for each query and item."""
        import pandas as pd

        pairs: pd.Index[int] = pd.Index(self.query * max(len(self.items), 1) + self.item)
        return pairs


def checked_run(run: Triples, *, repeats: Choice = "error") -> Triples:
    """Refuse missing names and NaN scores; an item listed twice is an error, or its later place an irrelevant item."""
    _check_names(run)
    run.refuse(np.isnan(run.value), "NaN for a score", expected="numbers or ±inf", kind=EmbeddingError)
    order = np.argsort(-run.value, kind="stable")
    is_repeat = np.zeros(len(order), np.bool_)
    is_repeat[order] = run.pairs()[order].duplicated()
    if repeats == "error":
        remedy = "remove one, or pass compat='delf' if its place counts as a wrong item's"
        run.refuse(
            is_repeat, "listed twice", expected="each item once in the list of a query", kind=PathError, remedy=remedy
        )
        return run
    item, strangers = run.item.copy(), [object() for _ in range(is_repeat.sum())]
    item[is_repeat] = len(run.items) + np.arange(len(strangers))
    return run._replace(items=[*run.items, *strangers], item=item)


def checked_qrels(qrels: Triples, *, negative: Choice = "error") -> Triples:
    """Refuse judgments that are not levels, and items judged twice; those below 0 may be irrelevant."""
    check_choice("negative", negative, Choice)
    _check_names(qrels)
    is_integral = qrels.value == np.floor(qrels.value)
    if negative == "irrelevant":
        qrels = qrels._replace(value=np.where(is_integral, qrels.value.clip(min=0), qrels.value))
    else:
        advice = "pass compat=Rules(negative='irrelevant') (--negative-qrels irrelevant) to count it at level 0"
        is_negative = is_integral & (qrels.value < 0)
        qrels.refuse(is_negative, "level {:g}", expected="an integer from 0, irrelevant", kind=PathError, remedy=advice)
    level = qrels.value
    bad = ~((level >= 0) & (level <= MAX_LEVELS) & (level == np.floor(level)))
    qrels.refuse(bad, "level {:g}", expected=f"an integer from 0, irrelevant, to {MAX_LEVELS}", kind=PathError)
    is_repeat = qrels.pairs().duplicated()
    qrels.refuse(is_repeat, "judged twice", expected="one level for a query and item", kind=PathError)
    return qrels


def _check_names(triples: Triples) -> None:
    for role, names in (("query", triples.queries), ("item", triples.items)):
        if any(not isinstance(name, str) and is_missing(name) for name in names):
            raise PathError(f"{triples.source}: {role} without a name", expected="text or a number for each")


def rows_of_names(names: Any, argument: str, num_names: int) -> dict[Hashable, int]:
    """The row of each name; refuses a wrong number of names, missing names and repeated names."""
    name_list = to_numpy(names).tolist() if hasattr(names, "dtype") else list(names) if np.iterable(names) else []
    if len(name_list) != num_names:
        raise ShapeError(f"{len(name_list)} {argument}", expected=f"{num_names}, one per path")
    rows: dict[Hashable, int] = {}
    for row, name in enumerate(name_list):
        if is_missing(name):
            raise PathError(f"{argument} without a name in row {row}", expected="text or a number for each")
        if index_of(name, rows, argument) != row:
            raise PathError(f"{argument}: {name!r} in rows {rows[name]} and {row}", expected="different names")
    return rows


def index_of(name: Any, indices: dict[Hashable, int], role: str) -> int:
    """The number of a name, the next one for a new name."""
    try:
        return indices.setdefault(name, len(indices))
    except TypeError:
        raise PathError(f"the {role} {name!r:.80}", expected="a name: text or a number") from None


def read_trec_run(path: str | os.PathLike[str]) -> dict[str, dict[str, float]]:
    """Read a TREC run: lines ``query Q0 item rank score tag``, separated by white space; packed files are unpacked.

    The score ranks; the rank must be an integer and is not used, as in trec_eval. Items stay in the order of the file.
    As trec_eval does, lines that begin with ``#`` and text after the tag are passed over.

    Returns:
        The score of each query and item.

    Raises:
        TableError: no such file, a damaged one, not UTF-8, a line without six columns or with a name that holds a
            space, a score that is not a number or that float64 rounds, or an item listed twice; the message names file
            and line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "run.txt"
    ...     _ = file.write_text("q1 Q0 d7 1 0.9 mine")
    ...     read_trec_run(file)
    {'q1': {'d7': 0.9}}
    """
    return _nested(checked_run(read_triples(Path(path), RUN)), float)


def read_trec_qrels(path: str | os.PathLike[str], *, negative_qrels: Choice = "error") -> dict[str, dict[str, int]]:
    """Read TREC qrels: lines ``query 0 item level``, separated by white space; graded judgments are levels.

    Lines that begin with ``#`` are passed over, as by trec_eval. Packed files are unpacked.

    Args:
        path: the file.
        negative_qrels: what a judgment below 0 is, by which TREC marks spam: an ``"error"``, or ``"irrelevant"``,
            level 0.

    Returns:
        The level of each query and item.

    Raises:
        TableError: no such file, damaged, not UTF-8, a line without four columns, a judgment other than an integer
            from 0 to 255, or an item judged twice; the message names file and line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "qrels.txt"
    ...     _ = file.write_text("q1 0 d7 2")
    ...     read_trec_qrels(file)
    {'q1': {'d7': 2}}
    """
    return _nested(checked_qrels(read_triples(Path(path), QRELS), negative=negative_qrels), int)


def read_triples(path: Path, form: Form) -> Triples:
    """A TREC file as triples, not yet checked."""
    queries: dict[Hashable, int] = {}
    items: dict[Hashable, int] = {}
    query, item, line, value = array("q"), array("q"), array("q"), array("d")
    is_short = False
    for line_number, fields in _lines(path, form.name):
        if not fields or fields[0].startswith("#"):
            continue
        if not line and fields[0].lower() in _QUERY_HEADS and not _is_number(fields[-1]):
            continue
        is_short = len(fields) == len(_SHORT) and (is_short or not line)  # as the first line is
        if len(fields) == len(_SHORT) and not is_short:
            expected = f"{len(form.columns)} as before: {' '.join(form.columns)}"
            raise TableError(f"{path}, line {line_number}: {len(fields)} columns", expected=expected)
        value.append(_value(f"{path}, line {line_number}", fields, form))
        query.append(queries.setdefault(fields[0], len(queries)))
        item.append(items.setdefault(fields[1 if is_short else 2], len(items)))
        line.append(line_number)
    columns = np.frombuffer(query, np.int64), np.frombuffer(item, np.int64), np.frombuffer(value, np.float64)
    return Triples([*queries], [*items], *columns, path.name, np.frombuffer(line, np.int64))


def _lines(path: Path, name: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each line of a file, plain or compressed; lines, which end in LF, CRLF or CR, count from 1."""
    with reading_file(path, expected=f"a readable {name}"), open_unpacked(path) as file:
        line_numbers = count(1)
        for text in iter(partial(file.readline, LONGEST_LINE + 1), b""):
            if len(text) > LONGEST_LINE:
                problem = f"{path}, line {next(line_numbers)}: above {LONGEST_LINE >> 20} MiB"
                raise TableError(problem, expected=f"a line of a {name}")
            for line in text.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                line_number = next(line_numbers)
                fields = (line.removeprefix(BOM_UTF8) if line_number == 1 else line).split()  # at ASCII's spaces alone
                try:
                    yield line_number, [word.decode() for word in fields]
                except UnicodeDecodeError:
                    raise not_utf8(path, line=line_number) from None


def _value(location: str, fields: list[str], form: Form) -> float:
    width = len(form.columns)
    expected = f"{width}: {' '.join(form.columns)}"
    if len(fields) == len(_SHORT) and form is RUN:
        if not _INTEGER.fullmatch(fields[2]) or int(fields[2]) < 1:
            expected += ", or 3: query item rank"
            raise TableError(f"{location}: 3 columns, {fields[2]!r} the last", expected=expected)
        return -float(fields[2])
    if len(fields) == len(_SHORT):
        fields = [fields[0], "0", *fields[1:]]
    if len(fields) < width or (len(fields) > width and not form.trailing):
        raise TableError(f"{location}: {len(fields)} columns", expected=expected)
    word, column = fields[form.value], form.columns[form.value]
    if form is RUN:
        spaced = not _INTEGER.fullmatch(fields[3]) or (len(fields) > width and _is_number(fields[5]))
        if spaced:  # a name with a space moves the score
            problem = f"{location}: {len(fields)} columns, of which {fields[3]!r} is the rank and {fields[5]!r} the tag"
            raise TableError(problem, expected=expected, remedy="write names without spaces, or a CSV table")
    try:
        value = plain_float(word)
        is_whole = abs(value) >= 2**53 and word.lstrip("+-").isdecimal()
        if not (is_whole and int(word) != value) and (math.isfinite(value) or word.strip("+-").isalpha()):
            return value
    except ValueError:
        raise TableError(f"{location}: {column} {word!r}", expected="a number") from None
    raise TableError(f"{location}: {column} {word!r}", expected="a number that float64 represents exactly")


def _is_number(text: str) -> bool:
    try:
        plain_float(text)
    except ValueError:
        return False
    return True


def _nested(triples: Triples, kind: type) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {str(query): {} for query in triples.queries}
    for query, item, value in zip(triples.query, triples.item, triples.value.tolist(), strict=True):
        nested[str(triples.queries[query])][str(triples.items[item])] = kind(value)
    return nested
