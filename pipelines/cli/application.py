"""The command line: ``hiertree`` and its commands, whose modules load only when they run.

Errors of :mod:`hiertree.errors` are printed as one line and end with status 2; so do wrong options.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

import click
from click.exceptions import NoArgsIsHelpError
from typing_extensions import override

import hiertree
from hiertree.errors import HiertreeError

from .checked_paths import CheckedGroup
from .datasets import datasets, split
from .evaluation import browse, embed, evaluate, evaluate_pairs, evaluate_run, qrels, report
from .training import compare, demo, export, recipes, train
from .tree import tree


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    atexit.register(gc.freeze)  # what numba built need not be searched for cycles as the process ends: 0.3 s
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal cannot show is not an error
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook, threading.excepthook = _report_unraisable, _report_in_thread
    try:
        sys.exit(commands.main(arguments, prog_name="hiertree", standalone_mode=False) or 0)
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        hint = f"; see {error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        _refuse(error.format_message() + hint)
    except (HiertreeError, OSError, ImportError) as error:
        _refuse(str(error) if _has_folder() else "the folder in which hiertree was started no longer exists")
    except UnicodeEncodeError as error:
        text = error.object[max(0, error.start - 40) : error.end + 40]
        _refuse(f"the name {text!r}: expected UTF-8; rename it, as convmv does")
    except MemoryError as error:
        _refuse(f"out of memory ({error})" if str(error) else "out of memory")
    except RecursionError:
        _refuse("a file is nested too deeply to be read")
    except (click.Abort, KeyboardInterrupt) as error:
        if isinstance(error.__cause__, EOFError):  # click's word for it is Abort
            _refuse("a file is truncated")
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # a second Ctrl-C waits for nothing
        click.echo("interrupted", err=True)
        sys.exit(130)


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Report what a destructor or a callback raises, but no Ctrl-C, no exit, and no loader that was only half built."""
    is_of_loader = "DataLoaderIter.__del__" in getattr(unraisable.object, "__qualname__", "")
    is_half_built = is_of_loader and issubclass(unraisable.exc_type, AttributeError)
    if not (is_half_built or issubclass(unraisable.exc_type, (KeyboardInterrupt, SystemExit))):
        sys.__unraisablehook__(unraisable)


def _report_in_thread(failure: threading.ExceptHookArgs) -> None:
    """Report in one line what the system refuses to a library's thread, a full disk for instance."""
    if isinstance(failure.exc_value, OSError):
        click.echo(f"warning: {failure.exc_value}", err=True)
    else:
        threading.__excepthook__(failure)


def _has_folder() -> bool:
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def _refuse(message: str) -> NoReturn:
    """Print one line and exit with status 2."""
    click.echo(f"error: {' '.join(line.strip() for line in message.splitlines())}", err=True)
    sys.exit(2)


@click.group(cls=CheckedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(hiertree.__version__, prog_name="hiertree")
def commands() -> None:
    """Hierarchical image retrieval: build label hierarchies, measure H-AP, train HAPPIER models."""


class _LabelsGroup(CheckedGroup):
    """``hiertree labels``, whose commands are imported when one of them, or their list, is asked for."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(import_module(".labels", __package__).labels.commands)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command: click.Command | None = import_module(".labels", __package__).labels.commands.get(cmd_name)
        return command


labels = _LabelsGroup("labels", help="Hierarchical labels from raw landmark ids.")
for command in (
    *(demo, labels, tree, split, datasets, recipes, train, embed, export, compare),
    *(evaluate, evaluate_run, evaluate_pairs, qrels, report, browse),
):
    commands.add_command(command)
