"""Variables of MATLAB files, which hold data only, no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import TableError, require_package
from ...io.files import CONTENT_ERRORS, raised_as


def read_matlab(file: Path, variable: str) -> Any:
    """A variable, without axes of length 1 but with one axis at least; a TableError says what is wrong."""
    require_package("scipy", extra="train")
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    with raised_as(TableError, file, expected=f"a MATLAB file with {variable}", on=(*CONTENT_ERRORS, MatReadError)):
        return np.atleast_1d(loadmat(file, squeeze_me=True, variable_names=[variable])[variable])
