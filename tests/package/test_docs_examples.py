"""The examples of the documentation are what the code prints, and its commands print what they show."""

from __future__ import annotations

import doctest
import io
import re
import shlex
import warnings
from contextlib import redirect_stdout

import pytest
from project import ROOT

from hiertree.pipelines.cli.application import main

_BLOCK = re.compile(r"^```(pycon|console)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PAGES = {
    "hierarchy.md": (),
    "metrics.md": ("torchmetrics", "pytorch_metric_learning"),
    "statistics.md": (),
    "peers.md": ("ir_measures", "ranx", "pytorch_metric_learning"),
}


def printed_by(command: str) -> str:
    """What a command that ends well prints."""
    name, *arguments = shlex.split(command)
    assert name == "hiertree"
    with redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    return "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_the_page_shows(page, tmp_path, monkeypatch):
    for library in PAGES[page]:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text, names, shown = (ROOT / "docs" / page).read_text(encoding="utf-8"), {}, []
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other libraries
        for number, (kind, block) in enumerate(_BLOCK.findall(text)):
            if kind == "pycon":
                test = parser.get_doctest(block, names, f"{page}, block {number}", page, 0)
                runner.run(test, clear_globs=False)
                names = test.globs
            else:
                command, _, expected = block.removeprefix("$ ").partition("\n")
                shown.append((printed_by(command), expected.rstrip("\n")))
    assert runner.tries > 5
    assert runner.failures == 0
    for found, expected in shown:
        assert found == expected
