"""Names of people's own in drawings and Markdown: shown as they are, whatever signs they hold."""

import base64
import re
from html import unescape

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from project import ROOT

from hiertree.pipelines.comparison.result_table import ResultTable, TableCell, TableRow, markdown
from hiertree.pipelines.pages import RUN_COLORS, STYLE, figure_uri, markdown_code

LABELS = ["url(#x)", 'id="x"', "<svg", "a > b", "R&D", "风景", "محمية"]


@pytest.mark.parametrize("label", LABELS)
def test_a_drawing_shows_labels_as_they_are_without_a_warning(label, recwarn):
    with rc_context(STYLE):
        figure = Figure()
        figure.subplots().set_xlabel(label)
        svg = base64.b64decode(figure_uri(figure).removeprefix("data:image/svg+xml;base64,")).decode()
    assert label in [unescape(text).strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    assert not recwarn


def test_drawings_have_the_colors_of_the_pages():
    css = (ROOT / "pipelines" / "page.css").read_text(encoding="utf-8")
    assert tuple(re.findall(r"--run-\d: (#\w+)", css))[: len(RUN_COLORS)] == RUN_COLORS


def test_a_comparison_holds_no_html_of_names():
    name = '<img src=x onerror="alert(1)"> | a_b *c* [d](e) `f` _g_'
    table = ResultTable({"<b>": ["H-AP<i>"]}, [TableRow(name, 1, {"H-AP<i>": TableCell(50.0)})], ["<script>"])
    text = markdown(table)
    assert "<" not in text
    row = text.splitlines()[2]
    assert row.replace(r"\|", "").count("|") == 3
    assert unescape(re.sub(r"\\(.)", r"\1", row)).startswith(f"| {name} |")


@pytest.mark.parametrize("name", ["a.csv", "a`b.csv", "``a", "<img>"])
def test_code_in_markdown_is_fenced_beyond_its_own_backticks(name):
    code = markdown_code(name)
    fence = re.match("`+", code)[0]
    assert code.endswith(fence)
    assert fence not in name
    assert name in code
