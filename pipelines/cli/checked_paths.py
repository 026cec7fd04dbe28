"""The paths that commands read and write: each option declares its own by its type, and none may destroy another.

Every command is made by :func:`command`. Before it runs, :func:`hiertree.io.provenance.check_outputs` sees all its
paths; when it ends, it says what it has written, and what usually comes next.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, Literal, get_args

import click
from typing_extensions import override

from hiertree.errors import HiertreeError, alternatives, nearest_name
from hiertree.io.files import is_stream
from hiertree.io.progress import is_progress_shown, silent_progress
from hiertree.io.provenance import check_outputs, manifest_beside, recording

from ..launchers import launched, leave_launch

Role = Literal["input", "output", "grows"]
PathKind = Literal["file", "folder", "either"]


class DeclaredPath(click.Path):
    """The path of a file or folder that a command reads (``"input"``), replaces or adds to (``"grows"``).

    One that need not exist is looked for by the command itself; ``siblings`` are suffixes of further outputs.
    """

    def __init__(self, role: Role, kind: PathKind, *, exists: bool = False, siblings: tuple[str, ...] = ()) -> None:
        super().__init__(exists=exists, file_okay=kind != "folder", dir_okay=kind != "file", path_type=Path)
        self.role, self.kind, self.siblings = role, kind, siblings
        self.is_output_file = role == "output" and kind == "file"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value).strip():  # it would be the current folder
            self.fail("expected a path, not an empty text", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self.role == "input" and self.kind != "either" and not path.exists():
            from ..stored_embeddings.locations import no_such

            raise no_such(path, self.kind)
        return path

    def paths(self, value: Path) -> Iterator[Path]:
        """The files or folders that a value names."""
        yield value
        yield from (value.with_suffix(suffix) for suffix in self.siblings)


class Name(click.types.StringParamType):
    """A text that is not empty."""

    what = "a name"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).strip():
            self.fail(f"expected {self.what}, not an empty text", param, ctx)
        return str(value)


class NameOrInput(Name):
    """A name that the command knows, or the path of an existing file or folder that it reads."""

    role: Role = "input"
    is_output_file = False
    what = "a name or a path"

    def paths(self, value: str) -> Iterator[Path]:
        """The path, if there is one of that name, or that of the table in ``TABLE:COLUMN``."""
        names = (value, value.rpartition(":")[0])
        yield from (Path(name) for name in names if name and Path(name).exists())


class LogPath(click.File):
    """A text file to append whole lines to, opened when the first is written; ``-`` is the terminal."""

    role: Role = "grows"
    is_output_file = False

    def __init__(self) -> None:
        super().__init__("a", encoding="utf-8", lazy=True)

    def paths(self, value: Any) -> Iterator[Path]:
        """The file."""
        if value.name != "-":
            yield Path(value.name)


INPUT_FILE = DeclaredPath("input", "file")
INPUT_FOLDER = DeclaredPath("input", "folder")
INPUT_PATH = DeclaredPath("input", "either")
OUTPUT_FILE = DeclaredPath("output", "file")
OUTPUT_FOLDER = DeclaredPath("output", "folder")
GROWING_FILE = DeclaredPath("grows", "file")
GROWING_FOLDER = DeclaredPath("grows", "folder")
NAME = Name()
NAME_OR_INPUT = NameOrInput()
LOG_FILE = LogPath()
DECLARED = (DeclaredPath, NameOrInput, LogPath)
NO_NEXT = f"{__name__}.no_next"  # in a context's meta: whether what usually comes next makes no sense
LONGEST = 200  # letters of the sentence that a list of commands shows of each


class CheckedCommand(click.Command):
    """A command whose outputs are checked before it runs, and have a manifest beside them afterwards.

    Its help ends with the example; ``then`` is the command that usually comes next, with parameters in braces. Several
    processes that a launcher started run one that ``shares_work`` together; any other runs in the first of them.
    ``check_packages`` names an extra that the command, but not its help, needs.
    """

    def __init__(
        self,
        *arguments: Any,
        example: str,
        then: str = "",
        shares_work: bool = False,
        check_packages: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.example, self.then, self.shares_work, self.check_packages = example, then, shares_work, check_packages
        for param in self.params:
            if isinstance(param, click.Option) and param.show_default is None:
                param.show_default = True
        if any(isinstance(param.type, DECLARED) and param.type.is_output_file for param in self.params):
            text = "Replace existing files that hiertree did not write."
            self.params.append(click.Option(["--force"], is_flag=True, help=text))
        self.params.append(click.Option(["-q", "--quiet"], is_flag=True, help="Print results and errors only."))
        self.params.append(click.Option(["-v", "--verbose"], is_flag=True, help="Print the traceback of an error."))

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example on one line of any length."""
        formatter.write(f"\nExample:\n  {self.example}\n")

    @override
    def invoke(self, ctx: click.Context) -> Any:
        """Check the paths, run the command, write manifests, and report the files written."""
        if self.check_packages is not None:
            self.check_packages()
        if not self.shares_work:
            continue_in_first(ctx)
        quiet, verbose = ctx.params.pop("quiet"), ctx.params.pop("verbose")
        try:
            with _only_results() if quiet else nullcontext(), _collected_notes() as notes:
                result = self._invoke_checked(ctx)
        except (HiertreeError, OSError) as error:
            if verbose:
                traceback.print_exc()
            if isinstance(error, HiertreeError):
                error.args = (error.spelled(partial(spell_option, ctx.command)),)
            raise
        for note in [] if quiet else notes:
            click.echo(note, err=True)
        if not quiet and is_progress_shown() and not (launched() or (0,))[0]:
            self._say_what_was_written(ctx)
        return result

    def _say_what_was_written(self, ctx: click.Context) -> None:
        outputs = self._paths(ctx, lambda kind: kind.role != "input" and isinstance(kind, DeclaredPath))
        if names := [str(path) for path in outputs if path.exists()]:
            click.echo(f"written to {', '.join(names)}", err=True)
            if self.then and not ctx.meta.get(NO_NEXT):
                values = {name: shlex.quote(str(value)) for name, value in ctx.params.items()}
                click.echo(f"next: {self.then.format(**values)}", err=True)

    def _invoke_checked(self, ctx: click.Context) -> Any:
        force = ctx.params.pop("force", False)
        inputs, outputs, grow = (self._paths(ctx, lambda kind, role=role: kind.role == role) for role in get_args(Role))
        files = self._paths(ctx, lambda kind: kind.is_output_file)
        if (launched() or (0,))[0]:  # the first of several processes writes
            outputs, files = [], []
        manifests = [manifest_beside(path) for path in files if not is_stream(path)]
        # Whether a folder is its own, each pipeline knows best: unfinished work has no manifest.
        check_outputs([*outputs, *manifests], inputs=inputs, folders=grow, force=True)
        check_outputs([*files, *manifests], force=force)
        for log in self._paths(ctx, lambda kind: isinstance(kind, LogPath)):
            _end_last_line(log)
        parameters = json.loads(json.dumps(ctx.params, default=str))
        input_files = [path for path in inputs if path.is_file()]
        with recording(files, command=ctx.command_path, parameters=parameters, inputs=input_files):
            return super().invoke(ctx)

    def _paths(self, ctx: click.Context, is_selected: Callable[..., bool]) -> list[Path]:
        """The given paths of the given kinds."""
        paths: list[Path] = []
        for param in self.params:
            if isinstance(param.type, DECLARED) and is_selected(param.type):
                argument = ctx.params.get(param.name or "")
                for value in argument if isinstance(argument, tuple) else () if argument is None else (argument,):
                    paths += param.type.paths(value)
        return paths


@contextmanager
def _only_results() -> Iterator[None]:
    """Suppress standard error; if the command exits early, print it after all, since it says why."""
    with TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) as messages:
        try:
            with silent_progress(), redirect_stderr(messages):
                yield
        except (SystemExit, click.exceptions.Exit):
            messages.seek(0)
            click.echo(messages.read(), err=True, nl=False)
            raise


@contextmanager
def _collected_notes() -> Iterator[list[str]]:
    """What hiertree logs as information, to be printed where the command succeeds: an error is a single line."""
    notes: list[str] = []
    messages: set[str] = set()
    logger, handler = logging.getLogger("hiertree"), logging.Handler(logging.INFO)
    level = logger.level

    def collect(record: logging.LogRecord) -> bool:
        is_repeated = record.getMessage() in messages
        messages.add(record.getMessage())
        if is_repeated:
            return False
        if record.levelno == logging.INFO:
            notes.append(record.getMessage())
        elif logging.lastResort is not None and not logging.getLogger().handlers:  # as without this handler
            logging.lastResort.handle(record)
        return False

    handler.addFilter(collect)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield notes
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class CheckedGroup(click.Group):
    """A group of such commands, listed in the order of addition with the whole first sentence of each."""

    command_class = CheckedCommand

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of work."""
        return list(self.commands)

    @override
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command of that name; an error names the one that was probably meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            suggestion = nearest_name(name, self.list_commands(ctx))
            ctx.fail(f"No such command {name!r}" + ("" if suggestion is None else f"; did you mean {suggestion!r}?"))
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command's name and summary, wrapped if it is long."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(LONGEST)) for name, command in commands if command])


def command(*, example: str, **options: Any) -> Callable[[Callable[..., Any]], CheckedCommand]:
    """A decorator that makes a :class:`CheckedCommand` of a function."""
    return click.command(cls=CheckedCommand, example=example, **options)


def continue_in_first(ctx: click.Context) -> None:
    """Continue only in the first of the processes that a launcher started; it then counts as a single one."""
    group = launched()
    if group is None:
        return
    rank, size = group
    if rank:
        ctx.exit(0)
    message = f"{ctx.command_path} runs in one process: rank 0 of {size} runs it; other ranks exit"
    click.echo(f"{message} (hiertree train, embed and evaluate share theirs)", err=True)
    leave_launch()


def as_flag(name: str) -> str:
    """``--multiple-parents`` of ``multiple_parents``."""
    return f"--{name.replace('_', '-')}"


# The sections of a recipe whose settings errors name as options, but for policies of trees, which data sets have too.
SECTIONS = {
    "data": ("holdout", "on_bad_image", "verify"),
    "sampler": ("batch_size", "small_classes", "small_supers"),
    "loss": ("decomposability",),
    "training": ("device",),
}
SECTION_OF = {name: section for section, names in SECTIONS.items() for name in names}


def spell_option(command: click.Command, name: str, values: Sequence[object]) -> str | None:
    """An option of Python as the command has it, else as its recipe or ``hiertree tree`` does; None if it has not.

    >>> spell_option(click.Command("train"), "gaps", ["above", "below"])
    '--gaps above or below to hiertree tree'
    >>> spell_option(click.Command("train", params=[click.Option(["--set", "overrides"])]), "batch_size", [40])
    '--set sampler.batch_size=40'
    >>> spell_option(click.Command("check", params=[click.Option(["--structure"])]), "verify", ["structure"])
    '--structure'
    """
    params = {param.name: param for param in command.params}
    texts = list(map(str, values))
    if flags := [as_flag(text) for text in texts if text in params]:
        return alternatives(flags)
    offered = getattr(params[name].type, "choices", texts) if name in params else texts
    if not (allowed := [shlex.quote(text) for text in texts if text in offered]):
        return None
    if name not in params and "overrides" in params:
        return f"--set {SECTION_OF.get(name, 'data')}.{name}={alternatives(allowed)}"
    if name in params or name not in SECTION_OF:
        return f"{as_flag(name)} {alternatives(allowed)}{'' if name in params else ' to hiertree tree'}"
    return None


def _end_last_line(log: Path) -> None:
    """End a line of a log that a killed process left without its end."""
    if log.is_file() and log.stat().st_size:
        with log.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")
