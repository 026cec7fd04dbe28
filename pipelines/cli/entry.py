"""The command line: each command is one call into the pipelines, whose modules load only when it runs.

Errors of :mod:`hiertree.errors` are printed as one line and end with status 2; so do wrong options.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

import hiertree
from hiertree.errors import HiertreeError

from .comparing import compare
from .data import datasets
from .labels_group import labels
from .measuring import audit, evaluate
from .options import ANY_PATH, OUT_FOLDER
from .recipes_group import recipes
from .reporting import report


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    try:
        sys.exit(commands.main(arguments, prog_name="hiertree", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (HiertreeError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(hiertree.__version__, prog_name="hiertree")
def commands() -> None:
    """Hierarchical image retrieval: build label hierarchies, measure H-AP, train HAPPIER models."""


@commands.command()
@click.option(
    "--out", type=OUT_FOLDER, default=Path("hiertree-demo"), show_default=True, help="Folder for everything it makes."
)
@click.option("--data", type=ANY_PATH, help="Omniglot (zip, npz or folder) instead of the drawn images.")
@click.option("--seed", type=int, default=0, show_default=True, help="The one seed.")
@click.option("--quick", is_flag=True, help="A few steps only: to see that everything runs.")
@click.option("--fresh", is_flag=True, help="Train again even where a finished run is there.")
def demo(out: Path, data: Path | None, seed: int, quick: bool, fresh: bool) -> None:
    """Landmark ids to labels, images to a trained HAPPIER model, and a page that shows both. Offline, in minutes."""
    from ..demo import run_demo

    run_demo(out, data=data, seed=seed, quick=quick, fresh=fresh)


commands.add_command(labels)
commands.add_command(datasets)


@commands.command()
@click.argument("recipe")
@click.option("--out", type=OUT_FOLDER, required=True, help="Folder of the run.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, optimizer.lr=1e-4 for instance."
)
@click.option("--on-bad-image", type=click.Choice(["error", "skip"]), help="What becomes of images that do not decode.")
@click.option("--fresh", is_flag=True, help="Remove an earlier run in that folder first.")
def train(recipe: str, out: Path, overrides: tuple[str, ...], on_bad_image: str | None, fresh: bool) -> None:
    """Train RECIPE, a YAML file or the name of a built-in one; an interrupted run goes on where it was."""
    from ..training.recipe.reading import load_recipe
    from ..training.run.training import train as run

    policy = [f"images.on_bad_image={on_bad_image}"] if on_bad_image else []
    trained = run(load_recipe(recipe, [*overrides, *policy]), out, fresh=fresh)
    if not trained.is_first:
        return
    if trained.already_finished:
        click.echo(f"{out} holds this run, finished", err=True)
    for name, value in trained.metrics.items():
        click.echo(f"{name:16s} {100 * value:6.2f}")


@commands.command()
@click.argument("model", metavar="RUN_OR_RECIPE")
@click.argument("data", type=ANY_PATH)
@click.option("--out", type=OUT_FOLDER, required=True, help="Folder of the embeddings.")
@click.option("--split", default="test", show_default=True, help="Which of the data set's splits.")
@click.option("--shard-size", default=16_384, show_default=True, help="Images between two points to go on from.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override of the recipe.")
def embed(model: str, data: Path, out: Path, split: str, shard_size: int, overrides: tuple[str, ...]) -> None:
    """Embed the images in DATA, a data set's root, for evaluate; an interrupted call goes on where it was.

    RUN_OR_RECIPE is the folder of a finished run, or a recipe with pretrained weights.
    """
    from ..evaluation.embedding import embed as run

    made = run(model, data, out, split=split, shard_size=shard_size, overrides=overrides)
    for array, table in zip(made.embeddings, made.labels, strict=True):
        click.echo(f"{array} with {table.name}")


commands.add_command(recipes)
commands.add_command(compare)
commands.add_command(evaluate)
commands.add_command(audit)
commands.add_command(report)
