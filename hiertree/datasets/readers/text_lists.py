"""Published lists: text files with a fixed number of words per line. Errors name the line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TextList:
    """A list by columns: n words under each name, and their n line numbers in the file, from 1."""

    path: Path
    columns: Mapping[str, list[str]]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, column: str) -> list[str]:
        return self.columns[column]

    def where(self, row: int) -> str:
        """The name of a row in error messages."""
        return f"{self.path.name}, line {self.lines[row]}"

    def select(self, rows: NDArray[np.int64]) -> TextList:
        """Some of the rows."""
        chosen = rows.tolist()
        columns = {name: [words[row] for row in chosen] for name, words in self.columns.items()}
        return TextList(self.path, columns, [self.lines[row] for row in chosen])

    def integers(self, column: str) -> NDArray[np.int64]:
        """A column as int64; a TableError names the line of a word that is none."""
        words = self.columns[column]
        try:
            return np.fromiter(map(int, words), dtype=np.int64, count=len(words))
        except (ValueError, OverflowError):
            row = next(row for row, word in enumerate(words) if not _is_integer(word))
            raise TableError(f"{self.where(row)}: {column} {words[row]!r}", expected="an integer") from None


def text_list(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]], first_line: int) -> TextList:
    """Rows of words as columns; a TableError names the line with too many or too few words."""
    if not rows:
        raise TableError(f"{path} has no rows", expected=f"lines of {', '.join(columns)}")
    for line, row in enumerate(rows, start=first_line):
        if len(row) != len(columns):
            given = f"{path.name}, line {line}: {len(row)} words, {' '.join(row)[:80]!r}"
            raise TableError(given, expected=f"{len(columns)}: {', '.join(columns)}")
    words = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    return TextList(path, words, range(first_line, first_line + len(rows)))


def read_words(path: Path, columns: Sequence[str], *, header: bool = False, count: bool = False) -> TextList:
    """Read a list with one word per column in each line, separated by white space. Empty lines at the end are skipped.

    ``header`` says that a line of the columns' names precedes the rows, ``count`` that the first line is their number.
    """
    lines = text_lines(path)
    above = count + header
    if header and lines[count:above] and lines[count].split() != list(columns):
        raise TableError(f"{path.name}, line {above}: header {lines[count]!r}", expected=repr(" ".join(columns)))
    listed = text_list(path, columns, [line.split() for line in lines[above:]], above + 1)
    if count and lines[0].strip() != str(len(listed)):
        raise TableError(f"{path.name}, line 1: {lines[0][:80]!r} before {len(listed)} rows", expected="their number")
    return listed


def text_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file without trailing empty ones."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise TableError(f"{path}, line {line}: bytes that are not UTF-8", remedy="save the file as UTF-8") from None
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _is_integer(word: str) -> bool:
    try:
        return -(2**63) <= int(word) < 2**63
    except ValueError:
        return False
