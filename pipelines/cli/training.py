"""The command that trains a model: ``hiertree train``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from .checked_paths import GROWING_FOLDER, NAME_OR_INPUT, command


@command(
    example="hiertree train synthetic-happier --out runs/first",
    then="hiertree report {out} --out report.html",
    shared=True,
)
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
    loaded = load_recipe(recipe, [*overrides, *policy])
    trained = run(loaded, out, fresh=fresh)
    if not trained.is_first:
        return
    if trained.already_finished:
        click.echo(f"{out} holds this run, finished", err=True)
    if trained.best_metrics is None:
        _print_without_validation(trained.metrics, trained.best, select=loaded.evaluation.select)
    else:
        _print_both(trained.metrics, trained.best_metrics, trained.best)


def _print_without_validation(metrics: Mapping[str, float], best: Mapping[str, float] | None, *, select: str) -> None:
    """The values of the last epoch, and in words that nothing has been chosen."""
    for name, value in metrics.items():
        click.echo(f"{name:16s} {100 * value:6.2f}")
    said = "no validation: these are the test values of the last epoch"
    if best is not None:
        said += f"; the best {select} on the test split, {100 * best['value']:.2f} after epoch {best['epoch']:g}, "
        said += "picks no network"
    click.echo(said, err=True)


def _print_both(last: Mapping[str, float], best: Mapping[str, float], picked: Mapping[str, float] | None) -> None:
    """The test values of both networks, side by side."""
    after = f", which the validation picked after epoch {picked['epoch']:g}" if picked else ""
    click.echo(f"{'test split':16s} {'last':>6s} {'best':>6s}{after}")
    for name, value in last.items():
        click.echo(f"{name:16s} {100 * value:6.2f} {100 * best[name]:6.2f}")
