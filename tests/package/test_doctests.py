"""Every example in a docstring runs and prints what it says, module by module under its installed name."""

from __future__ import annotations

import doctest
import importlib

import pytest
from import_graph import Source


@pytest.mark.parametrize("name", sorted(Source().paths.keys() - {"hiertree.__main__"}))
def test_examples_print_what_they_say(name):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert failed == 0
