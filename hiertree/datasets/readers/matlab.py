"""Variables of MATLAB files, which hold data only, no code."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import require_package
from ...io.reading import reading_file

_SCRIPT = """
import sys
file, count = sys.argv[1], int(sys.argv[2])
names, sys.path[:] = sys.argv[3 : 3 + count], sys.argv[3 + count :]
import pickle
from scipy.io import loadmat
content = loadmat(file, squeeze_me=True, variable_names=names)
pickle.dump([content[name] for name in names], sys.stdout.buffer)
"""


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
