"""What the functions that only the pipeline calls make of small inputs: the examples of examples.md come true."""

import doctest
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).with_name("examples.md")
SECTIONS = dict(re.findall(r"^## (\S+)\n\n```pycon\n(.*?)```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))


@pytest.mark.parametrize("module", SECTIONS)
def test_the_examples_of_a_module_come_true(module):
    test = doctest.DocTestParser().get_doctest(SECTIONS[module], {}, module, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert test.examples
    assert runner.run(test).failed == 0
