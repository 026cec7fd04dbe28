"""Every example in a docstring runs and prints what it says, module by module under its installed name."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
from project import source_packages


def _modules() -> list[str]:
    packages = source_packages()
    found = list(packages)
    for package in packages:
        paths = importlib.import_module(package).__path__
        found += [f"{package}.{module.name}" for module in pkgutil.iter_modules(paths) if not module.ispkg]
    return sorted(set(found) - {"hiertree.__main__"})


@pytest.mark.parametrize("name", _modules())
def test_examples_print_what_they_say(name):
    if "._triton_" in name:
        pytest.importorskip("triton", reason="triton exists for Linux")
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert failed == 0
