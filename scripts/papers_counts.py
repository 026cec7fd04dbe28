"""Count the papers' values, those of our recipes' rows, those that lack here, and those that contradict each other.

``python scripts/papers_counts.py TABLES.csv`` writes them into docs/papers.md. TABLES.csv holds every value of the
papers' tables, with its paper, table, dataset, split_or_level, method, backbone, embedding_size, batch_size, metric and
unit.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

from hiertree.pipelines.training.recipe.published import PAPERS, published_rows
from hiertree.pipelines.training.recipe.reading import all_built_in_recipes

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
START, END = "<!-- counts: scripts/papers_counts.py -->\n", "<!-- end of counts -->\n"
LETTERS = {"R": "S", "O": "R", "S": "B", "T": "T"}  # those of the file, and ours
METRICS = {"sum wAP": "ΣwAP", "mAP": "AP"}
DATA = {"cub": {"cub"}, "inat-base": {"inaturalist", "inat-base"}, "inat-full": {"inat-full"}}
ROW = ("table", "dataset", "list", "method", "backbone", "embedding_size", "batch_size")
LISTS = ("vehicleid", "cifar10")  # data sets whose split sets rows apart; of others, it is the metric's level

Value = tuple[str, float]  # metric and percent
Rows = dict[tuple[str, ...], set[Value]]  # of the tables, by paper and what sets a row apart


def printed_rows(tables: Path) -> Rows:
    """Every row of the papers' tables with its values in percent; times are none."""
    found: Rows = defaultdict(set)
    with tables.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            factor = {"percent": 1, "fraction": 100}.get(line["unit"])
            if factor and line["table"].startswith("Tab."):
                line["list"] = line["split_or_level"] if line["dataset"].startswith(LISTS) else ""
                metric = METRICS.get(line["metric"], line["metric"])
                if "SfM-120k" in line["other_setting"]:
                    metric, line["dataset"] = f"{metric}[{line['dataset']}, {line['split_or_level']}]", "sfm120k"
                elif line["dataset"] == "vggface2":
                    line["list"] = line["other_setting"]
                key = (LETTERS[line["paper"]], *(line[name] for name in ROW))
                found[key].add((metric, round(float(line["value"]) * factor, 2)))
    return found


def rows_here(printed: Rows) -> tuple[Rows, set[Value]]:
    """What we hold of each row: that of the table which has most of a recipe's values; and values of no row."""
    held: Rows = defaultdict(set)
    strange: set[Value] = set()
    for recipe in all_built_in_recipes():
        datasets = DATA.get(recipe.dataset, {recipe.dataset, "-".join(recipe.name.split("-")[:2])})
        for published in published_rows(recipe.name):
            letter, table, *part = published.source.split(", ")
            values = {(_metric(name, recipe.dataset), value) for name, value in published.percent.items()}
            fitting = [
                key
                for key in printed
                if key[:2] == (letter, table)
                and key[2].partition(" ")[0] in datasets
                and key[3].startswith(tuple(part) or "")
            ]
            row = max(fitting, key=lambda key: (len(printed[key] & values), -len(printed[key])))
            held[row] |= printed[row] & values
            strange |= values - printed[row]
    return held, strange


def _metric(name: str, dataset: str) -> str:
    """A metric without the list or the grade that it is of, as the papers' tables have it."""
    return name.partition("[")[0] if dataset in ("vehicleid", "nus-wide") else name


def contradictions(letter: str) -> int:
    """Metrics of a recipe for which a paper prints two values or more."""
    count = 0
    for recipe in all_built_in_recipes():
        values: dict[tuple[str, ...], set[float]] = defaultdict(set)
        for row in published_rows(recipe.name):
            for metric, value in row.percent.items():
                values[(metric, *row.source.split(", ")[2:])] |= {value} if row.source[0] == letter else set()
        count += sum(len(found) > 1 for found in values.values())
    return count


def counts_table(tables: Path) -> str:
    """The table as it stands in docs/papers.md."""
    printed = printed_rows(tables)
    held, strange = rows_here(printed)
    assert not strange, strange
    lines = ["| paper | values in its tables | of rows with a recipe | here | missing | printed with two values |"]
    lines.append("|---|---|---|---|---|---|")
    for letter in PAPERS:
        every, with_recipe = (sum(len(printed[row]) for row in rows if row[0] == letter) for rows in (printed, held))
        here = sum(len(values) for row, values in held.items() if row[0] == letter)
        lines.append(
            f"| [{letter}] | {every} | {with_recipe} | {here} | {with_recipe - here} | {contradictions(letter)} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    counts = counts_table(Path(sys.argv[1]))
    PAGE.write_text(f"{before}{START}{counts}{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(counts)
