"""The papers' rows with the recipes that stand for them, as the site shows them below docs/papers.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hiertree.pipelines.training.recipe.published import PAPERS, PublishedRow, published_rows
from hiertree.pipelines.training.recipe.reading import BuiltInRecipe, all_built_in_recipes, recipe_datasets

PROTOCOLS = {
    "cub": "all-vs-all over the last 100 classes; as the papers measure it",
    "sop": "all-vs-all; as the papers measure it",
    "inat-base": "all-vs-all over Smooth-AP's test species; as the papers measure it",
    "inat-full": "all-vs-all over Smooth-AP's test species, seven levels; as the papers measure it",
    "dyml": "means over levels; queries are masked in their gallery by file name",
    "h-gldv2": "queries against the index; queries without an image there are left out",
    "vehicleid": "every image among all others of its list, as [B] Sec. 5.2 says; the paper's lists have other sizes "
    "than those in circulation (see datasets.md)",
    "sfm120k": "trained on SfM-120k, measured on ROxford5k and RParis6k by `hiertree evaluate-pairs`",
    "vggface2": "every image among all others of the test's 500 people; the network is not the paper's",
    "nus-wide": "binary codes by Hamming distance over tied orders, by shared labels; the network is not the paper's",
    "imagenet100": "binary codes by Hamming distance, AP@1000 over tied orders; the network is not the paper's",
    "cifar10": "binary codes by Hamming distance, AP over tied orders; the network is not the paper's",
}


def papers_page() -> str:
    """The tables, from the recipes and the published values."""
    recipes = [recipe for recipe in all_built_in_recipes() if published_rows(recipe.name)]
    sections = (_paper(letter, recipes) for letter in PAPERS)
    return "\n".join([*(line for section in sections for line in section), *_without_a_row()])


def _paper(letter: str, recipes: Iterable[BuiltInRecipe]) -> Iterator[str]:
    rows = [(recipe, row) for recipe in recipes for row in published_rows(recipe.name) if row.source[0] == letter]
    yield from (f"## [{letter}] {PAPERS[letter]}", "")
    for table in sorted({_table(row) for _, row in rows}, key=_place):
        of_table = [(recipe, row) for recipe, row in rows if _table(row) == table]
        for dataset, title in recipe_datasets().items():
            of_data = [(recipe, row) for recipe, row in of_table if recipe.dataset == dataset]
            if of_data:
                yield from _block(f"{table}: {title}", PROTOCOLS[dataset], of_data)


def _block(title: str, protocol: str, rows: list[tuple[BuiltInRecipe, PublishedRow]]) -> Iterator[str]:
    metrics = list(dict.fromkeys(metric for _, row in rows for metric in row.percent))
    lists = any(row.source.count(",") > 1 for _, row in rows)
    yield from (f"### {title}", "", f"Protocol: {protocol}.", "")
    yield f"| recipe | what |{' list |' * lists} {' | '.join(metrics)} |"
    yield "|" + "---|" * (2 + lists + len(metrics))
    for recipe, row in rows:
        values = " | ".join(_printed(row.percent[metric]) if metric in row.percent else "–" for metric in metrics)
        part = f" {row.source.rpartition(', ')[2]} |" if lists else ""
        yield f"| `{recipe.name}` | {recipe.about} |{part} {values} |"
    yield ""
    notes = [*(f"`{recipe.name}`: {recipe.note}" for recipe, _ in rows if recipe.note)]
    notes += [f"`{recipe.name}`, {remark.partition('], ')[2]}" for recipe, row in rows for remark in row.remarks]
    if notes:
        yield from (*(f"* {note}" for note in dict.fromkeys(notes)), "")


def _without_a_row() -> Iterator[str]:
    yield from ("## Recipes without a published row", "", "| recipe | what | why |", "|---|---|---|")
    for recipe in all_built_in_recipes():
        if not published_rows(recipe.name):
            yield f"| `{recipe.name}` | {recipe.about} | {recipe.note or 'no paper trains on this data set'} |"
    yield ""


def _printed(percent: float) -> str:
    """With one decimal, or the two that some tables print."""
    return f"{percent:.2f}".removesuffix("0")


def _table(row: PublishedRow) -> str:
    return row.source.split(", ")[1]


def _place(table: str) -> tuple[int, str]:
    """Where a table stands in its paper; Roman numbers are read as such."""
    number = table.removeprefix("Tab. ")
    roman = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI")
    return (roman.index(number) + 1 if number in roman else int(number), table)
