"""Names of people's own in drawings and Markdown: shown as they are, whatever signs they hold."""

import re
from html import unescape

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure

from hiertree.pipelines.comparison.result_table import ResultTable, TableCell, TableRow, markdown
from hiertree.pipelines.pages import INK, STYLE, inline_svg, markdown_code, run_color

LABELS = ["#010203", "#000010", "url(#x)", 'id="x"', 'href="#x"', "<svg", "a > b", "R&D"]


@pytest.mark.parametrize("label", LABELS)
def test_a_drawing_shows_labels_as_they_are_and_its_lines_in_the_pages_colors(label):
    with rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        axes.plot([0, 1], color=run_color(1))
        axes.set_xlabel(label)
        svg = inline_svg(figure, name="A drawing")
    assert label in [unescape(text).strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    assert "var(--run-2)" in svg
    assert "currentColor" in svg
    assert not re.search(rf"<[^>]*({INK}|#0000[0-9a-f]{{2}})", svg)
    ids, uses = (
        re.findall(r' id="([^"]*)"', svg),
        re.findall(r'(?:href="#|url\(#)([^")]*)[")]', re.sub(r">[^<]*<", "><", svg)),
    )
    assert all(name.startswith("a-drawing-") for name in ids)
    assert set(uses) <= set(ids)


def test_a_comparison_holds_no_html_of_names():
    name = '<img src=x onerror="alert(1)"> | a_b *c* [d](e) `f` _g_'
    table = ResultTable({"<b>": ["H-AP<i>"]}, [TableRow(name, 1, {"H-AP<i>": TableCell(50.0)})], ["<script>"])
    text = markdown(table)
    assert "<" not in text
    row = text.splitlines()[2]
    assert row.replace(r"\|", "").count("|") == 4
    assert unescape(re.sub(r"\\(.)", r"\1", row)).startswith(f"| {name} |")


@pytest.mark.parametrize("name", ["a.csv", "a`b.csv", "``a", "<img>"])
def test_code_in_markdown_is_fenced_beyond_its_own_backticks(name):
    code = markdown_code(name)
    fence = re.match("`+", code)[0]
    assert code.endswith(fence)
    assert fence not in name
    assert name in code
