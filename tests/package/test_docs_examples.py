"""The examples of the documentation are what the code prints."""

from __future__ import annotations

import doctest

import pytest
from project import ROOT


@pytest.mark.parametrize("page", ["metrics.md"])
def test_examples_print_what_the_page_shows(page):
    failed, tried = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert tried > 5
    assert failed == 0
