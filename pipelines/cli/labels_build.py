"""``hiertree labels build``: every step in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from hiertree.errors import OptionError

from .checked_paths import INPUT_FILE, OUTPUT_FOLDER, command
from .options import (
    ColumnOptions,
    EncoderOptions,
    clusters_option,
    column_options,
    encoder_options,
    multi_option,
    number_or_auto,
    seed_option,
    separator_option,
)


@command()
@click.argument("source", metavar="LANDMARKS|PLAN", type=INPUT_FILE)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    help="Folder to make; an earlier build there is replaced. For labels.yaml the default is labels, beside it.",
)
@click.option("--instances", type=INPUT_FILE, help="Table of scraped 'instance of' values; default: LANDMARKS itself.")
@encoder_options
@clusters_option
@seed_option
@multi_option
@separator_option
@column_options
def build(
    source: Path,
    out: Path | None,
    instances: Path | None,
    embedding: EncoderOptions,
    clusters: str,
    seed: int,
    multi: Any,
    separator: str,
    columns: ColumnOptions,
) -> None:
    """Clean, embed, cluster and name the types of LANDMARKS; write them as a tree in H-GLDv2's columns.

    LANDMARKS is a CSV or Parquet file of landmark ids and Commons categories, as GLDv2 publishes it.

    PLAN is a YAML file (labels.yaml) that names landmarks, settings and the log of a review: all steps run into the
    folder, and those whose inputs have not changed are not run again. All settings but --out stand in it.
    """
    from .. import labels as pipeline
    from ..labels import steps

    if source.suffix in (".yaml", ".yml"):
        _refuse_settings()
        steps.run_plan(source, out=out or source.with_suffix(""), say=click.echo)
        return
    if out is None:
        raise click.UsageError("Missing option '--out'.")
    result = pipeline.build(
        source,
        out=out,
        instances=instances,
        encoder=embedding.build(),
        clusters=number_or_auto("--clusters", clusters),
        seed=seed,
        multi=multi,
        separator=separator,
        columns=columns.columns(),
    )
    click.echo(pipeline.describe(result))


def _refuse_settings() -> None:
    """A plan says everything itself: an option beside it would be lost."""
    context = click.get_current_context()
    typed = (name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    lost = [name for name in typed if name not in ("source", "out")]
    if lost:
        raise OptionError(f"the option {lost[0]} beside a plan", expected="settings in the plan itself")
