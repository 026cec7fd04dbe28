"""The command that trains a model: ``hiertree train``."""

from __future__ import annotations

from pathlib import Path

import click

from .checked_paths import GROWING_FOLDER, NAME_OR_INPUT, command


@command()
@click.argument("recipe", type=NAME_OR_INPUT)
@click.option("--out", type=GROWING_FOLDER, required=True, help="Folder of the run.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, optimizer.lr=1e-4 for instance."
)
@click.option("--on-bad-image", type=click.Choice(["error", "skip"]), help="What becomes of images that do not decode.")
@click.option("--fresh", is_flag=True, help="Remove an earlier run in that folder first.")
def train(recipe: str, out: Path, overrides: tuple[str, ...], on_bad_image: str | None, fresh: bool) -> None:
    """Train RECIPE, a YAML file or the name of a built-in one; an interrupted run goes on where it was."""
    from ..training.recipe.reading import load_recipe
    from ..training.run.experiment import train as run

    policy = [f"images.on_bad_image={on_bad_image}"] if on_bad_image else []
    trained = run(load_recipe(recipe, [*overrides, *policy]), out, fresh=fresh)
    if not trained.is_first:
        return
    if trained.already_finished:
        click.echo(f"{out} holds this run, finished", err=True)
    for name, value in trained.metrics.items():
        click.echo(f"{name:16s} {100 * value:6.2f}")
