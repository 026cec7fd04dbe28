"""The command line: ``hiertree`` and its commands, whose modules load only when they run.

Errors of :mod:`hiertree.errors` are printed as one line and end with status 2; so do wrong options.
"""

from __future__ import annotations

import sys

import click

import hiertree
from hiertree.errors import HiertreeError

from .benchmarks import datasets
from .checked_paths import group
from .comparison import compare
from .evaluation import audit, embed, evaluate
from .labels_group import labels
from .recipes_group import recipes
from .reports import demo, report
from .training import train


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


@group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(hiertree.__version__, prog_name="hiertree")
def commands() -> None:
    """Hierarchical image retrieval: build label hierarchies, measure H-AP, train HAPPIER models."""


for command in (demo, labels, datasets, recipes, train, embed, compare, evaluate, audit, report):
    commands.add_command(command)
