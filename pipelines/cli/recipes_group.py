"""The commands of ``hiertree recipes``: which recipes come with the package, and what one of them sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..training.recipe.built_in import PAPERS, published_rows
from .checked_paths import NAME_OR_INPUT, CheckedGroup
from .options import json_option, print_json

if TYPE_CHECKING:
    from ..training.recipe.built_in import BuiltInRecipe


@click.group(cls=CheckedGroup, invoke_without_command=True)
@json_option
@click.pass_context
def recipes(context: click.Context, as_json: bool) -> None:
    """List the built-in recipes by data set, with what each trains and the tables that report it."""
    if context.invoked_subcommand is not None:
        return
    from ..training.recipe.built_in import all_built_in_recipes, recipe_datasets

    found = list(all_built_in_recipes())
    if as_json:
        print_json([_described(recipe) for recipe in found])
        return
    wide = max(len(recipe.name) for recipe in found)
    for dataset, about in recipe_datasets().items():
        click.echo(f"{dataset}: {about}")
        for recipe in found:
            if recipe.dataset == dataset:
                click.echo(f"  {recipe.name:<{wide}}  {recipe.about}{_sources(recipe)}")
        click.echo()
    click.echo("One of them whole, every setting with its source: hiertree recipes show NAME")


@recipes.command(example="hiertree recipes show sop-happier --set loss.alpha=3")
@click.argument("recipe", metavar="NAME", type=NAME_OR_INPUT)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override of the recipe.")
@json_option
@click.pass_context
def show(context: click.Context, recipe: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print recipe NAME, built-in or a YAML file, as it will run: every setting, its source behind it.

    What is printed can be saved, changed and trained.
    """
    from ..training.recipe.built_in import built_in_recipe
    from ..training.recipe.reading import load_recipe, read_layers, recipe_yaml

    loaded, built_in = load_recipe(recipe, overrides), built_in_recipe(recipe)
    if as_json or (context.parent is not None and context.parent.params["as_json"]):
        print_json({**(_described(built_in) if built_in else {"name": loaded.name}), "settings": loaded.as_dict()})
        return
    text = recipe_yaml(loaded, read_layers(recipe, overrides))
    head = "".join(f"# {line}\n" for line in _head(built_in, text)) if built_in else ""
    click.echo(head + text, nl=False)


def _described(recipe: BuiltInRecipe) -> dict[str, Any]:
    rows = [
        {"source": row.source, "percent": dict(row.percent), "notes": dict(row.notes)}
        for row in published_rows(recipe.name)
    ]
    own = {"name": recipe.name, "dataset": recipe.dataset, "about": recipe.about, "note": recipe.note}
    return {**own, "published": rows}


def _sources(recipe: BuiltInRecipe) -> str:
    """The tables with a row for the recipe, in brackets."""
    return "".join(f" [{source}]" for source in dict.fromkeys(row.source for row in published_rows(recipe.name)))


def _head(recipe: BuiltInRecipe, text: str) -> Iterator[str]:
    """What stands above the settings: what the recipe is, what was published, and the papers named."""
    from ..training.recipe.built_in import recipe_datasets

    yield f"{recipe.name}: {recipe.about}. {recipe_datasets()[recipe.dataset]}."
    if recipe.note:
        yield recipe.note
    rows = published_rows(recipe.name)
    for row in rows:
        values = ", ".join(f"{metric} {value}" for metric, value in row.percent.items())
        yield f"Published, percent: {values} [{row.source}]"
        yield from row.remarks
    named = {letter for letter in PAPERS if f"[{letter}" in text} | {row.source[0] for row in rows}
    for letter, paper in PAPERS.items():
        if letter in named:
            yield f"[{letter}] {paper}"
