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


def run(folder: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = ("NUMBA_CACHE_DIR", "HIERTREE_PROGRESS", "HIERTREE_COMPILATION_ANNOUNCED", "LOCAL_RANK")
    inherited = {name: value for name, value in os.environ.items() if name not in settings}
    command = [sys.executable, "-B", "-c", code]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False)


def call(folder: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "types_of.py").write_text(_TYPE.format(name))
    return run(folder, _CALL.format(name), **environment)


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


def test_kernels_are_compiled_for_the_run_alone_where_no_folder_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(_KERNEL)
    (tmp_path / "__pycache__").write_text("no folder")
    homeless = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "LOCALAPPDATA": os.devnull}
    answer = call(tmp_path, "Pair", **homeless)
    assert answer.stdout == "2\n"
    assert answer.stderr.count("\n") == 1
    assert "set NUMBA_CACHE_DIR" in answer.stderr
    assert call(tmp_path, "Pair", **homeless, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stdout == "2\n"
    assert any((tmp_path / "cache").rglob("*.nbi"))


def test_one_process_of_a_command_says_that_kernels_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(_ALLOCATING)
    start = "import subprocess, sys, kernels; kernels.squares(2); "
    start += "subprocess.run([sys.executable, '-c', 'import kernels; kernels.total(2)'], check=True)"
    assert run(tmp_path, start).stderr.count("compiling") == 1
    assert run(tmp_path, "import kernels; kernels.item([1.0], 0)", LOCAL_RANK="1").stderr.count("compiling") == 0


def test_kernels_run_as_python_where_numba_is_told_not_to_compile(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(_KERNEL)
    ran = call(tmp_path, "Pair", NUMBA_DISABLE_JIT="1")
    assert (ran.stdout, ran.stderr) == ("2\n", "")


_ALLOCATING = """
import numpy as np
from hiertree.jit import jit
@jit
def squares(number):
    kept = np.empty(number, np.float64)
    for item in range(number):
        kept[item] = item * item
    return kept
@jit
def total(number):
    return squares(number).sum()
@jit
def item(values, place):
    if place >= len(values):
        raise IndexError("no such place")
    return values[place]
"""
_FROM_DISK = """
import sys, numpy as np, kernels
print(kernels.squares(4).tolist(), kernels.item(np.arange(3.0), 2))
print([name in sys.modules for name in ("numba.misc.cffiimpl", "numba.np.arrayobj")])  # parts of the compiler
try:
    kernels.item(np.arange(3.0), 3)
except IndexError as error:
    print(error)
"""


def test_kernels_found_on_disk_run_without_the_compiler_and_others_are_compiled_beside_them(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(_ALLOCATING)
    (tmp_path / "extension.py").write_text("def init():\n    print('numba knows of an extension')\n")
    (tmp_path / "extension-1.dist-info").mkdir()
    (tmp_path / "extension-1.dist-info" / "entry_points.txt").write_text("[numba_extensions]\ninit = extension:init\n")
    first, second = run(tmp_path, _FROM_DISK), run(tmp_path, _FROM_DISK)
    message, values = "numba knows of an extension\n", "[0.0, 1.0, 4.0, 9.0] 2.0\n"
    assert first.stdout == f"{message}{values}[True, True]\nno such place\n"
    assert second.stdout == f"{values}[False, False]\nno such place\n"
    assert second.stderr == ""
    mixed = run(tmp_path, "import kernels; print(kernels.squares(3).tolist(), kernels.total(4))")
    assert mixed.stdout == f"{message}[0.0, 1.0, 4.0] 14.0\n"
    assert "compiling" in mixed.stderr
