"""The command line: each command is one call into the pipelines, whose modules load only when it runs.

Errors of :mod:`hiertree.errors` are printed as one line and end with status 2; so do wrong options.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

import hiertree
from hiertree.cli_labels import labels
from hiertree.errors import HiertreeError, OptionError

OUT_FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
ANY_PATH = click.Path(path_type=Path)


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
    from hiertree.pipelines.demo import run_demo

    run_demo(out, data=data, seed=seed, quick=quick, fresh=fresh)


commands.add_command(labels)


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
    from hiertree.pipelines.train import train as run
    from hiertree.pipelines.training.reading import load_recipe

    policy = [f"data.on_bad_image={on_bad_image}"] if on_bad_image else []
    trained = run(load_recipe(recipe, [*overrides, *policy]), out, fresh=fresh)
    if trained.already_finished:
        click.echo(f"{out} holds this run, finished", err=True)
    for name, value in trained.metrics.items():
        click.echo(f"{name:16s} {100 * value:6.2f}")


@commands.command()
@click.argument("recipes", nargs=-1, required=True)
@click.option("--seeds", default="0", show_default=True, help="Seeds, separated by commas.")
@click.option("--out", type=OUT_FOLDER, required=True, help="Folder of the runs and the table.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, for every recipe.")
def compare(recipes: tuple[str, ...], seeds: str, out: Path, overrides: tuple[str, ...]) -> None:
    """Train RECIPES with each seed and tabulate mean ± standard deviation; finished runs are not run again."""
    from hiertree.pipelines.compare import compare as run
    from hiertree.pipelines.compare import comparison_table

    try:
        numbers = [int(seed) for seed in _listed(seeds)]
    except ValueError:
        raise OptionError(f"--seeds {seeds}", expected="integers separated by commas") from None
    click.echo(comparison_table(run(recipes, seeds=numbers, out=out, overrides=overrides)))


@commands.command()
@click.argument("embeddings", type=FILE)
@click.option("--labels", type=FILE, help="CSV or Parquet table with one row an embedding, where these have no labels.")
@click.option("--levels", default="", metavar="A,B,…", help="Columns of labels, coarse → fine; default: all of them.")
@click.option("--gallery", type=FILE, help="Embeddings of a separate gallery.")
@click.option("--gallery-labels", type=FILE, help="Their table of labels.")
@click.option(
    "--metrics", "names", default="", metavar="A,B,…", help="H-AP, NDCG@100, R@1, AP[1], … instead of the default."
)
@click.option("--alpha", type=float, default=1.0, show_default=True, help="Of H-AP's relevance.")
@click.option(
    "--counts",
    type=click.Choice(["strict", "official"]),
    help="Whether |Ω^(L)| holds the query; default: as --compat says, or else strict.",
)
@click.option(
    "--ties",
    type=click.Choice(["average", "worst", "best", "paper", "index"]),
    default="average",
    show_default=True,
    help="What equal scores mean.",
)
@click.option(
    "--protocol",
    type=click.Choice(["sop", "inat", "dyml", "gldv2", "revisitop", "cub", "vehicleid", "inshop"]),
    help="A benchmark: its metrics and its rules.",
)
@click.option(
    "--compat", type=click.Choice(["official", "delf", "revisitop"]), help="Compute as the authors' code does."
)
@click.option("--block-size", type=int, help="Queries at once; changes no number.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--per-query", type=FILE, help="Parquet or CSV file for the values of every query.")
@click.option("--out", type=FILE, help="JSON file for means, conventions and provenance.")
def evaluate(
    embeddings: Path,
    labels: Path | None,
    levels: str,
    gallery: Path | None,
    gallery_labels: Path | None,
    names: str,
    alpha: float,
    counts: Any,
    ties: Any,
    protocol: Any,
    compat: Any,
    block_size: int | None,
    as_json: bool,
    per_query: Path | None,
    out: Path | None,
) -> None:
    """Measure EMBEDDINGS with label paths inside (.npz, .pt), columns of labels (.parquet), or a table beside.

    An .npz of paths is what train writes; the table, --labels, stands beside an .npy or a .pt of one tensor.
    """
    from hiertree.pipelines.evaluate import evaluate_file

    evaluate_file(
        embeddings,
        labels=labels,
        levels=_listed(levels),
        gallery=gallery,
        gallery_labels=gallery_labels,
        metrics=_listed(names) or None,
        alpha=alpha,
        counts=counts,
        ties=ties,
        protocol=protocol,
        compat=compat,
        block_size=block_size,
        as_json=as_json,
        per_query=per_query,
        out=out,
    )


@commands.command()
@click.argument("embeddings", type=FILE)
@click.option("--labels", type=FILE, help="CSV or Parquet table with one row an embedding, where these have no labels.")
@click.option("--levels", default="", metavar="A,B,…", help="Columns of labels, coarse → fine; default: all of them.")
@click.option("--queries", type=int, default=200, show_default=True, help="How many queries are drawn, at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--out", type=FILE, help="JSON file for the table and its provenance.")
def audit(
    embeddings: Path, labels: Path | None, levels: str, queries: int, seed: int, as_json: bool, out: Path | None
) -> None:
    """Compare our metrics of EMBEDDINGS with other libraries', and say why each differs.

    Those installed of torchmetrics, scikit-learn, ir_measures, ranx and pytorch-metric-learning. EMBEDDINGS as for
    evaluate.
    """
    import json

    from hiertree.pipelines.audit import audit as run
    from hiertree.pipelines.audit import print_audit

    table = run(embeddings, labels=labels, levels=_listed(levels), queries=queries, seed=seed, out=out)
    if as_json:
        click.echo(json.dumps(table.to_dict(orient="records"), indent=2, ensure_ascii=False))
    else:
        print_audit(table)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
