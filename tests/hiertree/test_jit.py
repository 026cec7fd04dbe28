"""Compiled kernels are kept on disk, and compiling is announced."""

from __future__ import annotations

import os
import subprocess
import sys

_KERNEL = """
from hiertree.jit import jit
@jit
def first(pair):
    return pair[0] + 1
"""
_TYPE = "import typing\nclass {}(typing.NamedTuple):\n    one: int\n    two: int\n"
_CALL = "import kernels, types_of; print(kernels.first(types_of.{}(1, 2)))"


def run(folder, code, **environment):
    settings = ("NUMBA_CACHE_DIR", "HIERTREE_PROGRESS", "HIERTREE_COMPILATION_ANNOUNCED", "LOCAL_RANK")
    inherited = {name: value for name, value in os.environ.items() if name not in settings}
    command = [sys.executable, "-B", "-c", code]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False)


def call(folder, name, **environment):
    (folder / "types_of.py").write_text(_TYPE.format(name))
    return run(folder, _CALL.format(name), **environment)


def test_a_kernel_says_when_it_compiles(tmp_path):
    (tmp_path / "kernels.py").write_text(_KERNEL)
    compiled, loaded = call(tmp_path, "Pair"), call(tmp_path, "Pair")
    assert (compiled.stdout, loaded.stdout) == ("2\n", "2\n")
    assert compiled.stderr.count("\n") == 1
    assert "compiling" in compiled.stderr
    assert loaded.stderr == ""  # found on disk


def test_kernels_are_compiled_for_the_run_alone_where_no_folder_can_be_written(tmp_path):
    (tmp_path / "kernels.py").write_text(_KERNEL)
    (tmp_path / "__pycache__").write_text("no folder")
    homeless = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "LOCALAPPDATA": os.devnull}
    answer = call(tmp_path, "Pair", **homeless)
    assert answer.stdout == "2\n"
    assert answer.stderr.count("\n") == 1
    assert "set NUMBA_CACHE_DIR" in answer.stderr
    assert call(tmp_path, "Pair", **homeless, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stdout == "2\n"
    assert any((tmp_path / "cache").rglob("*.nbi"))


def test_one_process_of_a_command_says_that_kernels_are_compiled(tmp_path):
    (tmp_path / "kernels.py").write_text(_ALLOCATING)
    start = "import subprocess, sys, kernels; kernels.squares(2); "
    start += "subprocess.run([sys.executable, '-c', 'import kernels; kernels.total(2)'], check=True)"
    assert run(tmp_path, start).stderr.count("compiling") == 1
    assert run(tmp_path, "import kernels; kernels.total(3)", LOCAL_RANK="1").stderr.count("compiling") == 0


def test_kernels_run_as_python_where_numba_is_told_not_to_compile(tmp_path):
    (tmp_path / "kernels.py").write_text(_KERNEL)
    ran = call(tmp_path, "Pair", NUMBA_DISABLE_JIT="1")
    assert (ran.stdout, ran.stderr) == ("2\n", "")


_ALLOCATING = """
import numpy as np
from hiertree.jit import jit
@jit
def squares(count):
    numbers = np.empty(count, np.float64)
    for index in range(count):
        numbers[index] = index * index
    return numbers
@jit
def total(count):
    return squares(count).sum()
"""
