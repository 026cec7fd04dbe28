"""The commands around training: ``hiertree demo``, ``recipes``, ``train``, ``compare`` and ``export``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hiertree.errors import require_package

from ..hub import upload
from ..training.recipe.published import PAPERS, published_rows, sweeps
from .checked_paths import (
    GROWING_FOLDER,
    INPUT_FILE,
    INPUT_FOLDER,
    INPUT_PATH,
    NAME_OR_INPUT,
    CheckedGroup,
    command,
)
from .evaluation import column_options, labels_option, query_labels_option
from .options import (
    INTEGERS,
    SEED,
    backbone_option,
    choice,
    flag,
    hub_option,
    json_option,
    option,
    print_json,
    set_option,
)

if TYPE_CHECKING:
    from ..training.recipe.reading import BuiltInRecipe


@click.group(cls=CheckedGroup, invoke_without_command=True)
@json_option
@click.pass_context
def recipes(context: click.Context, as_json: bool) -> None:
    """List the built-in recipes by data set, with what each trains and the tables that report it."""
    if context.invoked_subcommand is not None:
        return
    from ..training.recipe.reading import all_built_in_recipes, recipe_datasets

    all_recipes = list(all_built_in_recipes())
    if as_json:
        print_json([_described(recipe) for recipe in all_recipes])
        return
    width = max(len(recipe.name) for recipe in all_recipes)
    for dataset, description in recipe_datasets().items():
        click.echo(f"{dataset}: {description}")
        for recipe in all_recipes:
            if recipe.dataset == dataset:
                click.echo(f"  {recipe.name:<{width}}  {recipe.about}{_sources(recipe)}")
        click.echo()
    click.echo("Figures of the papers:")
    for sweep in sweeps():
        click.echo(f"  [{sweep.figure}] {sweep.about} ({sweep.published})\n    {sweep.command}")
    click.echo("\nOne of them whole, every setting with its source: hiertree recipes show NAME")


@recipes.command(example="hiertree recipes show sop-happier --set loss.alpha=3")
@click.argument("recipe", metavar="NAME", type=NAME_OR_INPUT)
@set_option("Override of the recipe.")
@json_option
@click.pass_context
def show(context: click.Context, recipe: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Print recipe NAME, built-in or a YAML file, as it will run: every setting, its source behind it.

    What is printed can be saved, changed and trained.
    """
    from ..training.recipe.reading import built_in_recipe, load_recipe, read_layers, recipe_yaml

    if find_spec("torch") is None:
        click.echo("torch is not installed: losses, optimizers and transforms are shown without defaults", err=True)
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
    fields = {"name": recipe.name, "dataset": recipe.dataset, "about": recipe.about, "note": recipe.note}
    return {**fields, "published": rows}


def _sources(recipe: BuiltInRecipe) -> str:
    """The tables with a row for the recipe, in brackets."""
    return "".join(f" [{source}]" for source in dict.fromkeys(row.source for row in published_rows(recipe.name)))


def _head(recipe: BuiltInRecipe, text: str) -> Iterator[str]:
    """The header above the settings: a description, the published values and the papers."""
    from ..training.recipe.reading import recipe_datasets

    yield f"{recipe.name}: {recipe.about}. {recipe_datasets()[recipe.dataset]}."
    if recipe.note:
        yield recipe.note
    rows = published_rows(recipe.name)
    for row in rows:
        values = ", ".join(f"{metric} {value}" for metric, value in row.percent.items())
        yield f"Published, percent: {values} [{row.source}]"
        yield from row.remarks
    letters = {letter for letter in PAPERS if f"[{letter}" in text} | {row.source[0] for row in rows}
    for letter, paper in PAPERS.items():
        if letter in letters:
            yield f"[{letter}] {paper}"


@command(
    example="hiertree train synthetic-happier --out runs/first",
    then="hiertree report {out} --out report.html",
    shares_work=True,
)
@click.argument("recipe", type=NAME_OR_INPUT)
@option("--out", GROWING_FOLDER, "Folder of the run.", required=True)
@set_option("Override, optimizer.lr=1e-4 for instance.")
@choice("--on-bad-image", ["error", "skip"], "What to do with images that do not decode.")
@flag("--fresh", "Remove an earlier run in that folder first.")
def train(recipe: str, out: Path, overrides: tuple[str, ...], on_bad_image: str | None, fresh: bool) -> None:
    """Train RECIPE, a YAML file or the name of a built-in one; an interrupted run continues where it stopped."""
    from ..training.recipe.reading import load_recipe
    from ..training.run.experiment import train as run

    policy = [f"images.on_bad_image={on_bad_image}"] if on_bad_image else []
    loaded = load_recipe(recipe, [*overrides, *policy])
    result = run(loaded, out, fresh=fresh)
    if not result.is_first:
        return
    if result.already_finished:
        click.echo(f"{out} already holds this run, finished", err=True)
    picked = result.best
    if result.best_metrics is not None:  # of the network that the validation picked, beside the last one's
        origin = f", which the validation picked after epoch {picked['epoch']:g}" if picked else ""
        click.echo(f"{'test split':16s} {'last':>6s} {'best':>6s}{origin}")
    for name, value in result.metrics.items():
        best = "" if result.best_metrics is None else f" {100 * result.best_metrics[name]:6.2f}"
        click.echo(f"{name:16s} {100 * value:6.2f}{best}")
    if result.best_metrics is None:
        note = "no validation: these are the test values of the last epoch"
        if picked is not None:
            note += f"; the best {loaded.evaluation.select} on the test split, {100 * picked['value']:.2f} after epoch "
            note += f"{picked['epoch']:g}, picks no network"
        click.echo(note, err=True)


@command(
    example="hiertree compare omniglot-happier omniglot-smooth-ap --seeds 0,1,2 --out runs/omniglot",
    then="hiertree report {out} --out report.html",
)
@click.argument("rows", nargs=-1, required=True, type=NAME_OR_INPUT)
@option("--seeds", INTEGERS, "Seeds, separated by commas.", default="0")
@option("--out", GROWING_FOLDER, "Folder of the runs and the table; ranked lists alone need none.")
@set_option("Override, for every recipe.")
@click.option(
    "--grid", multiple=True, metavar="KEY=V1,V2,…", help="Values to try; several grids: every combination, a row each."
)
@click.option(
    "--against", metavar="ROW", help="Recipe or row that the others are tested against; default: the first row."
)
@click.option(
    "--published/--no-published", default=True, help="What papers report for a built-in recipe, below its rows."
)
@labels_option
@option("--tree", INPUT_FILE, "Table of the names and labels of all items, by which ranked lists are judged.")
@option("--qrels", INPUT_FILE, "Instead, judgments of ranked lists; grades are levels.")
@query_labels_option
@column_options
@json_option
def compare(
    rows: tuple[str, ...],
    out: Path | None,
    grid: tuple[str, ...],
    labels: Path | None,
    tree: Path | None,
    qrels: Path | None,
    query_labels: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train recipes with each seed, measure what is there, and tabulate mean ± standard deviation.

    ROWS are recipes, or what is only measured: finished runs, folders that embed wrote, files of embeddings, and, with
    --tree or --qrels, files of ranked lists, also an .npy of rows of the table. Finished runs are not run again. The
    table is written as text, Markdown, LaTeX, HTML and JSON, with the runs as CSV; rows that differ from a reference by
    a paired test on the values of the queries are marked.
    """
    require_package("torch", "torchvision", "timm", "safetensors", extra="train")
    from ..comparison.planned_runs import read_grid
    from ..comparison.recipe_comparison import compare as run
    from ..comparison.recipe_comparison import compare_lists

    columns = {name: options.pop(name) for name in ("levels", "uneven", "separator", "ids")}
    lists: Any = {"tree": tree, "qrels": qrels, "query_labels": query_labels, **columns}
    is_judged = tree is not None or qrels is not None
    if out is None:
        if not is_judged:
            raise click.UsageError("Missing option '--out'.", click.get_current_context())
        click.echo(compare_lists(rows, against=options["against"], as_json=as_json, **lists))
        return
    labeled: Any = {"labels": labels, **columns} if labels is not None else {}
    run(rows, out=out, grid=read_grid(grid), labels=labeled, lists=lists if is_judged else None, **options)
    click.echo((out / f"comparison.{'json' if as_json else 'txt'}").read_text(encoding="utf-8").rstrip())


@command(example="hiertree demo")
@option("--out", GROWING_FOLDER, "Folder for everything it makes.", default=Path("hiertree-demo"))
@option("--data", INPUT_PATH, "Omniglot (zip, npz or folder) instead of the drawn images.")
@option("--seed", SEED, "Seed of the clusters, the images and both trainings.", default=0)
@flag("--quick", "A few steps only: to see that everything runs.")
@flag("--fresh", "Train again even if a finished run exists.")
def demo(out: Path, data: Path | None, seed: int, quick: bool, fresh: bool) -> None:
    """Landmark ids to labels, images to a trained HAPPIER model, and a page that shows both. Offline, in minutes."""
    require_package("faiss", "lightning_fabric", "matplotlib", "sklearn", "timm", "torch", "torchvision", extra="all")
    from ..demo import run_demo

    run_demo(out, data=data, seed=seed, quick=quick, fresh=fresh)


@command(example="hiertree export runs/mine --out exported")
@click.argument("model", metavar="RUN", type=INPUT_FOLDER)
@option("--out", GROWING_FOLDER, "New or empty folder.", required=True)
@option("--images", INPUT_PATH, "Photos to compare the network on; default: the run's test split.")
@backbone_option
@hub_option
def export(model: Path, out: Path, push_to_hub: str | None, **options: Any) -> None:
    """Write the network of RUN, the folder of a run or of a model, as ONNX: pixels → embeddings, batches of any size.

    It is compared with the network on real images, to 1e-5, and nothing is written if it differs.
    """
    from ..inference.exporting import export as run

    file, difference = run(model, out, **options)
    click.echo(f"{file}  (differs by at most {difference:.1g})")
    if push_to_hub:
        click.echo(upload(out, push_to_hub, kind="model", message="Add a network by hiertree"))
