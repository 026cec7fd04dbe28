"""Compiled kernels: what is kept on disk outlives changes of the code, and compiling is announced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_KERNEL = """
from hiertree.jit import jit
@jit
def first(pair):
    return pair[0] + 1
"""
_TYPE = "import typing\nclass {}(typing.NamedTuple):\n    one: int\n    two: int\n"
_CALL = "import kernels, types_of; print(kernels.first(types_of.{}(1, 2)))"


def call(folder: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "types_of.py").write_text(
        f"import typing\nclass {name}(typing.NamedTuple):\n    one: int\n    two: int\n"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "HIERTREE_PROGRESS")}
    command = [sys.executable, "-B", "-c", _CALL.format(name)]
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True, check=False)


def test_a_kernel_survives_the_new_name_of_a_type_it_takes_and_says_when_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(_KERNEL)
    compiled, loaded = call(tmp_path, "Pair"), call(tmp_path, "Pair")
    assert (compiled.stdout, loaded.stdout) == ("2\n", "2\n")
    assert compiled.stderr.count("\n") == 1
    assert "compiling" in compiled.stderr
    assert loaded.stderr == ""  # found on disk
    renamed = call(tmp_path, "Couple", HIERTREE_PROGRESS="0")
    assert (renamed.stdout, renamed.stderr) == ("2\n", "")
    assert call(tmp_path, "Couple").stderr == ""  # compiled anew, and kept
