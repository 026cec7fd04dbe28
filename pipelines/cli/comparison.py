"""The command that trains several recipes and tabulates them: ``hiertree compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hiertree.errors import OptionError

from .checked_paths import GROWING_FOLDER, NAME_OR_INPUT, command
from .option_values import INTEGERS
from .options import json_option

if TYPE_CHECKING:
    from ..comparison.cluster_jobs import ClusterJobs


@command(
    example="hiertree compare omniglot-happier omniglot-smooth-ap --seeds 0,1,2 --out runs/omniglot",
    then="hiertree report {out} --out report.html",
)
@click.argument("recipes", nargs=-1, required=True, type=NAME_OR_INPUT)
@click.option("--seeds", type=INTEGERS, default="0", show_default=True, help="Seeds, separated by commas.")
@click.option("--out", type=GROWING_FOLDER, required=True, help="Folder of the runs and the table.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override, for every recipe.")
@click.option(
    "--grid", multiple=True, metavar="KEY=V1,V2,…", help="Values to try; several grids: every combination, a row each."
)
@click.option(
    "--against", metavar="ROW", help="Recipe or row that the others are tested against; default: the first row."
)
@click.option(
    "--published/--no-published",
    default=True,
    show_default=True,
    help="What papers report for a built-in recipe, below its rows.",
)
@click.option(
    "--launcher",
    type=click.Choice(["local", "slurm"]),
    default="local",
    show_default=True,
    help="Where runs are trained: here in turn, or each as a job of a cluster.",
)
@click.option(
    "--slurm",
    multiple=True,
    metavar="KEY=VALUE",
    help="Settings of the jobs: partition, time (minutes), gpus_per_node, cpus_per_task, mem …, by submitit's names.",
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Whether to wait for the jobs.")
@json_option
def compare(
    recipes: tuple[str, ...],
    seeds: tuple[int, ...],
    out: Path,
    overrides: tuple[str, ...],
    grid: tuple[str, ...],
    against: str | None,
    published: bool,
    launcher: str,
    slurm: tuple[str, ...],
    wait: bool,
    as_json: bool,
) -> None:
    """Train RECIPES with each seed and tabulate mean ± standard deviation; finished runs are not run again.

    The table is written as Markdown, LaTeX, HTML and JSON, with the runs as CSV; rows that differ from a reference by a
    paired test on the values of the queries are marked.
    """
    from ..comparison.grid import read_grid
    from ..comparison.planned_runs import plan_runs
    from ..comparison.recipe_comparison import compare as run

    values = read_grid(grid)
    jobs = _jobs(launcher, out, slurm, wait=wait)
    if jobs and not wait:
        left = jobs.submit(plan_runs(recipes, seeds=seeds, out=out, overrides=overrides, grid=values))
        if left:
            click.echo(f"{len(left)} jobs under way; the same command makes the table when they have ended", err=True)
            return
    run(
        recipes,
        seeds=seeds,
        out=out,
        overrides=overrides,
        grid=values,
        against=against,
        published=published,
        launch=jobs.finish if jobs else None,
    )
    click.echo((out / f"comparison.{'json' if as_json else 'md'}").read_text(encoding="utf-8").rstrip())


def _jobs(launcher: str, out: Path, parameters: tuple[str, ...], *, wait: bool) -> ClusterJobs | None:
    """What submits the runs; None where they are trained here."""
    if launcher == "local":
        if parameters or not wait:
            raise OptionError("--slurm or --no-wait with --launcher local", expected="--launcher slurm")
        return None
    from ..comparison.cluster_jobs import ClusterJobs, read_parameters, slurm_executor

    return ClusterJobs(slurm_executor(out / "jobs", read_parameters(parameters)))
