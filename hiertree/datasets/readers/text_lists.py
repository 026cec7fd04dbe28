"""Published lists: text files with a fixed number of words per line, as tables whose index holds the lines' numbers.

And variables of MATLAB files, which hold data only, no code.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import TableError, require_package
from ...io.reading import read_text, reading_file
from ...tree.label_rows import Where, plain_label

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


_SCRIPT = """
import sys
file, count = sys.argv[1], int(sys.argv[2])
names, sys.path[:] = sys.argv[3 : 3 + count], sys.argv[3 + count :]
import pickle
from scipy.io import loadmat
variables = loadmat(file, squeeze_me=True, variable_names=names)
pickle.dump([variables[name] for name in names], sys.stdout.buffer)
"""


def read_words(path: Path, columns: Sequence[str], *, header: bool = False, count: bool = False) -> pd.DataFrame:
    """Read a list with one word per column in each line, separated by white space. Empty lines at the end are skipped.

    ``header`` says that a line of the columns' names precedes the rows, ``count`` that the first line is their number.
    """
    lines = text_lines(path)
    start = count + header
    if header and lines[count:start] and lines[count].split() != list(columns):
        raise TableError(f"{path.name}, line {start}: header {lines[count]!r}", expected=repr(" ".join(columns)))
    table = table_of_words(path, columns, [line.split() for line in lines[start:]], start + 1)
    if count and lines[0].strip() != str(len(table)):
        raise TableError(f"{path.name}, line 1: {lines[0][:80]!r} before {len(table)} rows", expected=str(len(table)))
    return table


def table_of_words(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]], first_line: int) -> pd.DataFrame:
    """Rows of words as a table; a TableError names the line with too many or too few words."""
    import pandas as pd

    if not rows:
        raise TableError(f"{path} has no rows", expected=f"lines of {', '.join(columns)}")
    for line, row in enumerate(rows, start=first_line):
        if len(row) != len(columns):
            problem = f"{path.name}, line {line}: {len(row)} words, {' '.join(row)[:80]!r}"
            raise TableError(problem, expected=f"{len(columns)}: {', '.join(columns)}")
    lines = pd.RangeIndex(first_line, first_line + len(rows))
    table: pd.DataFrame = pd.DataFrame(rows, columns=list(columns), index=lines, dtype=object)
    return table


class SplitRows(NamedTuple):
    """The rows of a split, after those of the splits whose classes are numbered first."""

    table: pd.DataFrame
    where: Where  # the name of each row in messages
    earlier_rows: int = 0  # rows before those of the split

    @property
    def own(self) -> pd.DataFrame:
        """The rows of the split itself."""
        rows: pd.DataFrame = self.table.iloc[self.earlier_rows :]
        return rows


def join_lists(files: Sequence[Path], read_list: Callable[[Path], pd.DataFrame]) -> SplitRows:
    """Read the list of a split, the last file, and before it those of earlier splits that are there."""
    import pandas as pd

    *earlier_files, last_file = files
    files = [*filter(Path.is_file, earlier_files), last_file]
    tables = [read_list(file) for file in files]
    lines, starts = [table.index for table in tables], np.cumsum([0, *map(len, tables)])

    def where(row: int) -> str:
        index = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{files[index].name}, line {lines[index][row - starts[index]]}"

    return SplitRows(pd.concat(tables, ignore_index=True), where, int(starts[-2]))


def divide_rows(table: pd.DataFrame, where: Where, is_test: NDArray[np.bool_], split: str) -> SplitRows:
    """The rows of the training or test split, before the latter those of the former."""
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    order = (train if split == "train" else np.concatenate([train, test])).tolist()
    return SplitRows(table.iloc[order], lambda row: where(order[row]), 0 if split == "train" else len(train))


def refuse_contradictions(keys: Any, values: Any, row_name: Callable[[int], str], name: str) -> None:
    """Refuse a key with a second value; the message names both rows."""
    import pandas as pd

    table = pd.DataFrame({"key": keys, "value": values}).reset_index(drop=True)
    if not table["key"].duplicated().any():
        return
    first = table.groupby("key", sort=False)["value"].transform("first")
    bad = np.flatnonzero(first != table["value"])
    if len(bad):
        row = int(bad[0])
        first_row = int(np.flatnonzero(table["key"] == table["key"][row])[0])
        (_, first_value), (key, value) = (map(plain_label, table.iloc[index]) for index in (first_row, row))
        problem = (
            f"{row_name(row)}: {name} {key!r} stands with {value!r}, in {row_name(first_row)} with {first_value!r}"
        )
        raise TableError(problem, expected="one of them", remedy="correct one of the lines")


def flag_matrix(path: Path, lines: Sequence[str]) -> NDArray[np.bool_]:
    """(n, C) booleans from lines of zeros and ones; a TableError names the first line of another kind or number."""
    packed = ["".join(line.split()) for line in lines]
    width = len(packed[0]) if packed else 0
    for line, flags in enumerate(packed, start=1):
        if len(flags) != width or flags.strip("01") or not flags:
            expected = f"{width} zeros and ones, as in line 1"
            raise TableError(f"{path.name}, line {line}: {lines[line - 1][:80]!r}", expected=expected)
    characters = np.frombuffer("".join(packed).encode(), np.uint8).reshape(-1, max(width, 1))
    return (characters - ord("0")).view(np.bool_)


def refuse_first(bad: Any, row_name: Callable[[int], str], cells: pd.Series[str], expected: str) -> None:
    """Refuse the first cell marked as bad; the message names its line."""
    rows = np.flatnonzero(bad)
    if len(rows):
        raise TableError(f"{row_name(int(rows[0]))}: {cells.iloc[rows[0]]!r}", expected=expected)


def text_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file without trailing empty ones."""
    text = read_text(path).rstrip()
    return text.split("\n") if text else []


def read_matlab(file: Path, *variables: str) -> list[Any]:
    """Variables, without axes of length 1 but with one axis at least; a TableError says what is wrong.

    scipy reads them in a process of its own, because it crashes on some damaged files.
    """
    require_package("scipy", extra="train")
    command = [sys.executable, "-c", _SCRIPT, str(file), str(len(variables)), *variables, *sys.path]
    with reading_file(file, expected=f"a MATLAB file with {', '.join(variables)}"):
        answer = subprocess.run(command, capture_output=True, check=False)
        if answer.returncode:
            lines = answer.stderr.decode(errors="replace").strip().splitlines()
            raise ValueError(lines[-1] if lines else f"scipy crashes on it, status {answer.returncode}")
        return [np.atleast_1d(value) for value in pickle.loads(answer.stdout)]  # noqa: S301 - of the process above
