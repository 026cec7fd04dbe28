"""Options that several commands share: declared once, and handed to a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click

from hiertree.errors import OptionError

from .checked_paths import GROWING_FOLDER, INPUT_PATH, NAME_OR_INPUT, TABLE_COLUMN

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]


def settings_options(
    parameter: str, model: type[BaseModel], *, leave_out: Collection[str] = ()
) -> Callable[[Command], Callable[..., Any]]:
    """A decorator that makes an option of each field of a model; the command receives the checked model.

    An option is called as its field, with hyphens, or as the field's ``json_schema_extra={"option": …}`` says. Type,
    default and help are those of the field: booleans are flags, literals choices, tuples options to repeat.

    Args:
        parameter: the command's parameter that takes the model.
        model: what declares the settings.
        leave_out: fields without an option, which keep their defaults.
    """
    taken = {name: info for name, info in model.model_fields.items() if name not in leave_out}

    def decorate(command: Command) -> Callable[..., Any]:
        @wraps(command)
        def collected(**given: Any) -> Any:
            values = {name: given.pop(name) for name in taken}
            return command(**{parameter: _checked(model, values)}, **given)

        for name, info in reversed(taken.items()):
            collected = _option(name, info)(collected)
        return collected

    return decorate


def _option(name: str, info: FieldInfo) -> Option:
    extra: dict[str, Any] = {"default": info.get_default(call_default_factory=True), "show_default": True}
    kinds = [kind for kind in (get_args(info.annotation) or (info.annotation,)) if kind not in (type(None), Ellipsis)]
    origin = get_origin(info.annotation)
    if info.is_required():
        extra = {"required": True}
    elif extra["default"] in (None, "", ()):
        extra["show_default"] = False
    if info.annotation is bool:
        extra = {"is_flag": True, "default": info.default}
    elif origin is tuple:
        extra |= {"multiple": True}
    elif origin is Literal:
        extra |= {"type": click.Choice(kinds)}
    elif len(kinds) == 1:
        extra |= {"type": INPUT_PATH if kinds[0] is Path else kinds[0]}
    return click.option(f"--{_option_name(name, info)}", name, help=info.description, **extra)


def _option_name(name: str, info: FieldInfo) -> str:
    own = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    return str(own.get("option", name.replace("_", "-")))


def _checked(model: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    """The model.

    Raises:
        OptionError: a value out of range; the message names the option.
    """
    try:
        return model(**values)
    except OptionError as error:
        name, _, rest = error.given.partition("=")
        if name not in model.model_fields:
            raise
        given = f"--{_option_name(name, model.model_fields[name])} {rest}"
        raise OptionError(given, expected=error.expected, remedy=error.remedy) from None


def together(name: str, kind: type[Any], options: Sequence[Option]) -> Callable[[Command], Callable[..., Any]]:
    """A decorator that adds options to a command, which receives them as one value.

    Args:
        name: the command's parameter.
        kind: a dataclass; its fields are named as the options.
        options: click's decorators, in the order of the help.
    """

    def decorate(command: Command) -> Callable[..., Any]:
        @wraps(command)
        def collected(**given: Any) -> Any:
            value = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            return command(**{name: value}, **given)

        for option in reversed(options):
            collected = option(collected)
        return collected

    return decorate


id_column = click.option("--id-column", default="landmark_id", show_default=True, help="Column of the landmark ids.")
category_column = click.option(
    "--category-column", default="category", show_default=True, help="Column of the Commons categories."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def listed(text: str) -> list[str]:
    """The parts of a text that commas separate.

    >>> listed("kind, landmark,")
    ['kind', 'landmark']
    """
    return [part.strip() for part in text.split(",") if part.strip()]
