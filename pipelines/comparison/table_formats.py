"""The table as Markdown, as LaTeX, and as an HTML page that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ..pages import fill_page
from .result_table import ResultTable, TableCell, TableRow

_LATEX: Mapping[str, str] = MappingProxyType(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "†": r"$^{\dagger}$",
        "−": "$-$",
        "<": r"$<$",
        ">": r"$>$",
        **{sign: rf"\{sign}" for sign in "&%$#_{}"},
        **{bracket: f"{{{bracket}}}" for bracket in "[]"},  # after \\ they would be an option
    }
)


def markdown(table: ResultTable) -> str:
    """A pipe table, and the notes below it."""
    head = ["recipe", "runs", *table.metrics]
    lines = [_pipes(head), "|" + "---|" * len(head)]
    for row in table.rows:
        name = row.name if row.runs else f"*{row.name}*"
        cells = [_markdown_cell(row.cells.get(metric)) for metric in table.metrics]
        lines.append(_pipes([name.replace("|", r"\|"), str(row.runs or ""), *cells]))
    return "\n\n".join(["\n".join(lines), *table.notes])


def latex(table: ResultTable) -> str:
    r"""A ``tabular`` of booktabs, the notes as comments: ``\usepackage{booktabs}`` is all that it needs."""
    groups, end = table.groups, r" \\"
    rules, first = [], 3
    for group in groups:
        rules.append(rf"\cmidrule(lr){{{first}-{first + len(group.metrics) - 1}}}")
        first += len(group.metrics)
    heads = [rf"\multicolumn{{{len(group.metrics)}}}{{c}}{{{escaped(group.title)}}}" for group in groups]
    lines = [
        rf"\begin{{tabular}}{{lr{'c' * len(table.metrics)}}}",
        r"\toprule",
        " & ".join(["", "", *heads]) + end,
        "".join(rules),
        " & ".join(["recipe", "runs", *map(escaped, table.metrics)]) + end,
        r"\midrule",
        *(_latex_row(row, table) + end for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([r"% \usepackage{booktabs}", *lines, *(f"% {note}" for note in table.notes)])


def html(table: ResultTable, *, title: str, lead: str, figures: Iterable[tuple[str, str]]) -> str:
    """The page, in the look of the report; figures are SVG elements, each with what it shows."""
    page = {"table": table, "title": title, "lead": lead, "pictures": list(figures)}
    return fill_page("hiertree.pipelines.comparison", page)


def escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(escaped("loss.lambda_=0.1, 100 %"))
    loss.lambda\_=0.1, 100 \%
    """
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: TableCell | None) -> str:
    if cell is None:
        return "–"
    return (f"**{cell.text}**" if cell.best else cell.text) + ("†" if cell.differs else "")


def _latex_row(row: TableRow, table: ResultTable) -> str:
    name = escaped(row.name) if row.runs else rf"\quad\textit{{{escaped(row.name)}}}"
    return " & ".join([name, str(row.runs or ""), *(_latex_cell(row.cells.get(metric)) for metric in table.metrics)])


def _latex_cell(cell: TableCell | None) -> str:
    if cell is None:
        return "--"
    text = escaped(cell.text)
    return (rf"\textbf{{{text}}}" if cell.best else text) + (escaped("†") if cell.differs else "")
