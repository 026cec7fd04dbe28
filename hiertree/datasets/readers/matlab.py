"""Variables of MATLAB files, which hold data only, no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import TableError, require_package


def read_matlab(file: Path, variable: str) -> Any:
    """A variable, without axes of length 1 but with one axis at least; a TableError says what is wrong."""
    require_package("scipy", extra="train")
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        return np.atleast_1d(loadmat(file, squeeze_me=True, variable_names=[variable])[variable])
    except (MatReadError, ValueError, KeyError, TypeError, IndexError, OSError, NotImplementedError) as error:
        raise TableError(f"{file} ({error})", expected=f"a MATLAB file with {variable}") from error
