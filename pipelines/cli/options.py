"""Option types, and options shared by several commands, each declared once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import Field, fields
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource
from typing_extensions import override

from hiertree.evaluation_options import RelevanceName
from hiertree.options import choices_of, kinds_of

from .checked_paths import INPUT_PATH, NAME, NAME_OR_INPUT

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


class CommaSeparated(click.types.StringParamType):
    """Comma-separated values, of which the command receives a tuple; or one of some names, which stays a text."""

    def __init__(self, kind: type[str] | type[int] | type[float], plural: str, *, names: Sequence[str] = ()) -> None:
        self.kind, self.plural, self.names = kind, plural, names

    @override
    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "A,B,…"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The values.

        >>> NAMES.convert("kind, landmark", None, None), INTEGERS.convert("0,1", None, None)
        (('kind', 'landmark'), (0, 1))
        """
        if isinstance(value, tuple) or value in self.names:
            return value
        texts = [text.strip() for text in str(value).split(",")]
        try:
            values = tuple(map(self.kind, texts))
        except ValueError:
            values = ()
        if not values or not all(texts):
            self.fail(f"{value!r}: expected {self.plural} separated by commas", param, ctx)
        return values


class WholeNumber(click.types.IntParamType):
    """An integer in a range that the help does not show; an error does."""

    def __init__(self, lowest: int, greatest: int) -> None:
        self.lowest, self.greatest = lowest, greatest

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        integer = int(super().convert(value, param, ctx))
        if not self.lowest <= integer <= self.greatest:
            self.fail(f"{integer}: expected an integer between {self.lowest} and {self.greatest}", param, ctx)
        return integer


NAMES = CommaSeparated(str, "names")
INTEGERS = CommaSeparated(int, "integers")
COUNT = WholeNumber(1, 2**31 - 1)
SEED = WholeNumber(0, 2**32 - 1)
_WEIGHTS = CommaSeparated(float, "weights of levels, or hap, linear or gain; weights", names=get_args(RelevanceName))
_TYPES = {"metrics": NAMES, "relevance": _WEIGHTS, "device": NAME}

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]
Report = TypeVar("Report")


def settings_options(
    parameter: str, model: type[BaseModel], *, leave_out: Collection[str] = ()
) -> Callable[[Command], Callable[..., Any]]:
    """A decorator that makes an option of each field of a model; the command's ``parameter`` is the checked model.

    An option is called as its field, with hyphens, or as the field's ``json_schema_extra={"option": …}`` says. Type,
    default and help are those of the field: booleans are flags, literals choices, tuples options to repeat. Fields to
    ``leave_out`` keep their defaults.
    """
    fields = {name: info for name, info in model.model_fields.items() if name not in leave_out}

    def decorate(command: Command) -> Callable[..., Any]:
        @wraps(command)
        def wrapper(**given: Any) -> Any:
            values = {name: given.pop(name) for name in fields}
            settings = {name: value for name, value in values.items() if value is not None}
            return command(**{parameter: model(**settings)}, **given)

        for name, info in reversed(fields.items()):
            wrapper = _option(name, info)(wrapper)
        return wrapper

    return decorate


def _option(name: str, info: FieldInfo) -> Option:
    extra: dict[str, Any] = {"type": _type_of(info), "default": info.get_default()}
    if info.is_required():
        extra |= {"required": True, "default": None}
    elif extra["default"] in (None, "", ()):
        extra |= {"show_default": False, "default": extra["default"] or None}
    if info.annotation is bool:
        extra = {"is_flag": True, "default": info.default}
    elif get_origin(info.annotation) is tuple:
        extra |= {"multiple": True}
    schema_extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return click.option(f"--{schema_extra.get('option', name.replace('_', '-'))}", name, help=info.description, **extra)


def _type_of(info: FieldInfo) -> Any:
    """The click type of a field; text if pydantic must decide, as for a number or ``auto``."""
    from ..labels.settings import FILE_OR_NAME

    kinds = [kind for kind in (get_args(info.annotation) or (info.annotation,)) if kind not in (type(None), Ellipsis)]
    if get_origin(info.annotation) is Literal:
        return click.Choice(kinds)
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:  # or None
        return click.Choice(get_args(kinds[0]))
    if get_origin(info.annotation) is tuple and kinds == [Path]:
        return NAME_OR_INPUT
    if kinds == [Path]:
        return INPUT_PATH
    if FILE_OR_NAME in info.metadata:
        return NAME_OR_INPUT
    return NAME if kinds == [str] else kinds[0] if len(kinds) == 1 else str


def field_options(options: type[Any], *names: str) -> Option:
    """A decorator that makes an option of each field of a dataclass that has help, or of those of some names."""
    items = [item for item in fields(options) if "help" in item.metadata and (not names or item.name in names)]
    return options_of(*map(_field_option, items))


def _field_option(item: Field[Any]) -> Option:
    choices, numeric_type = choices_of(item), COUNT if int in kinds_of(item) else float
    value_type = _TYPES.get(item.name) or (click.Choice(get_args(choices)) if choices else numeric_type)
    return option(f"--{item.name.replace('_', '-')}", value_type, item.metadata["help"], default=item.default)


def option(name: str, kind: Any, text: str, **more: Any) -> Option:
    """An option with a value of some type."""
    return click.option(name, type=kind, help=text, **more)


def choice(name: str, values: Sequence[str], text: str, **more: Any) -> Option:
    """An option with one of a few values."""
    return option(name, click.Choice(values), text, **more)


def flag(name: str, text: str) -> Option:
    """An option without a value."""
    return click.option(name, is_flag=True, help=text)


def options_of(*options: Option) -> Option:
    """Several options as one decorator, in their order."""
    return lambda function: reduce(lambda decorated, decorate: decorate(decorated), reversed(options), function)


port_option = option(
    "--port", click.IntRange(0, 65535), "Port on 127.0.0.1; default: a free one.", default=0, show_default=False
)
no_browser_option = flag("--no-browser", "Only print the address.")
backbone_option = option(
    "--backbone",
    NAME,
    "Your network, for a run trained with it; nothing that a folder names is imported.",
    metavar="MODULE:ATTRIBUTE",
)
hub_option = option("--push-to-hub", NAME, "Also put the folder on the Hugging Face hub.", metavar="OWNER/NAME")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def set_option(text: str) -> Option:
    """Changes of a recipe's settings."""
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=text)


def print_json(value: Any) -> None:
    """Print a value as indented ASCII JSON, which every terminal encoding can show."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    click.echo(json.dumps(value, indent=2, ensure_ascii=not unicode))


def print_report(report: Report, describe: Callable[[Report], str], *, as_json: bool) -> None:
    """Print a command's report as JSON or as text."""
    print_json(report) if as_json else click.echo(describe(report))


def typed_options() -> list[str]:
    """The parameters of this command given on the command line, not by default."""
    context = click.get_current_context()
    return [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
