"""Importing hiertree is light, and every public name exists."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hiertree


def test_importing_the_package_loads_no_heavy_library():
    heavy = "('torch', 'open_clip', 'pandas', 'networkx', 'numba')"
    code = f"import sys, hiertree; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_every_public_name_exists():
    for name in hiertree.__all__:
        assert getattr(hiertree, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = hiertree.nonsense
    assert set(hiertree.__all__) <= set(dir(hiertree))


@pytest.mark.parametrize("package", ["metrics", "losses", "pipelines"])
def test_source_folders_refuse_to_be_imported_by_their_bare_name(package, request):
    code = f"import sys; sys.path.insert(0, {str(request.config.rootpath)!r}); import {package}"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert f"hiertree.{package}" in answer.stderr
