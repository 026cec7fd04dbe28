"""UTF-8 text read whole, with the line named where bytes are not UTF-8."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import TableError

_SURROGATE = re.compile("[\udc80-\udcff]")


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file, without a byte-order mark.

    Raises:
        TableError: the file cannot be read, or is not UTF-8; the message names the line.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TableError(f"{path}: {error.strerror or error}", expected="a readable file") from error
    except UnicodeDecodeError:
        raise not_utf8(path) from None


def not_utf8(path: str | os.PathLike[str]) -> TableError:
    """The error that names the first line with bytes that are not UTF-8."""
    with Path(path).open(encoding="utf-8", errors="surrogateescape") as file:  # such bytes become lone surrogates
        bad = next(number for number, line in enumerate(file, start=1) if _SURROGATE.search(line))
    return TableError(f"{path}, line {bad}: bytes that are not UTF-8", remedy="save the file as UTF-8")
