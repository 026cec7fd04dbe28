"""Options that several commands share: declared once, and handed to a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click

from hiertree.errors import OptionError

from .checked_paths import GROWING_FOLDER, INPUT_PATH

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from ..labels import ColumnNames, TextEncoder

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
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0]) if error.errors()[0]["loc"] else ""
        complaints = [one["msg"].removeprefix("Value error, ") for one in error.errors() if one["loc"][:1] == (name,)]
        if not name:
            raise OptionError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        option = _option_name(name, model.model_fields[name])
        raise OptionError(f"--{option} {values[name]}: {' or '.join(complaints)}") from None


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


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of the tables are called."""

    id_column: str
    category_column: str
    instance_column: str
    item_column: str | None

    def columns(self) -> ColumnNames:
        """As the pipeline takes them."""
        from ..labels import ColumnNames

        return ColumnNames(
            landmark_id=self.id_column,
            category=self.category_column,
            instance_of=self.instance_column,
            item_ids=self.item_column,
        )


id_column = click.option("--id-column", default="landmark_id", show_default=True, help="Column of the landmark ids.")
category_column = click.option(
    "--category-column", default="category", show_default=True, help="Column of the Commons categories."
)
column_options = together(
    "columns",
    ColumnOptions,
    (
        id_column,
        category_column,
        click.option(
            "--instance-column", default="instance_of", show_default=True, help="Column of the 'instance of' values."
        ),
        click.option("--item-column", help="Column of the values' Wikidata ids, if there is one."),
    ),
)


@dataclass(frozen=True)
class EncoderOptions:
    """How label texts become vectors."""

    encoder: str
    clip_model: str
    clip_weights: str
    sentence_model: str
    prompts: tuple[str, ...]
    batch_size: int
    device: str
    cache: Path | None

    def build(self) -> TextEncoder:
        """The encoder."""
        from ..labels import make_encoder

        return make_encoder(
            self.encoder,
            clip_model=self.clip_model,
            clip_weights=self.clip_weights,
            sentence_model=self.sentence_model,
            prompts=self.prompts,
            batch_size=self.batch_size,
            device=self.device,
            cache=self.cache,
        )


clip_model_option = click.option("--clip-model", default="ViT-L-14", show_default=True, help="An open_clip model.")
clip_weights_option = click.option(
    "--clip-weights", default="laion2b_s32b_b82k", show_default=True, help="Their name, or a local file."
)
device_option = click.option("--device", default="cpu", show_default=True, help="Where the encoder runs.")
encoder_options = together(
    "embedding",
    EncoderOptions,
    (
        click.option(
            "--encoder",
            type=click.Choice(["tfidf", "clip", "sentence-transformers"]),
            default="tfidf",
            show_default=True,
            help="Of the labels' texts; tfidf needs no download.",
        ),
        clip_model_option,
        clip_weights_option,
        click.option(
            "--sentence-model", default="all-MiniLM-L6-v2", show_default=True, help="A sentence-transformers model."
        ),
        click.option(
            "--prompt",
            "prompts",
            multiple=True,
            help="Template with {label}, but for tfidf; several are averaged.",
        ),
        click.option("--batch-size", type=int, default=128, show_default=True, help="Texts at a time."),
        device_option,
        click.option("--cache", type=GROWING_FOLDER, help="Folder that keeps vectors, but tfidf's, for the next time."),
    ),
)
clusters_option = click.option(
    "--clusters", default="auto", show_default=True, help="Number of supercategories, or auto: by silhouette."
)
seed_option = click.option("--seed", type=int, default=0, show_default=True, help="Seed of k-means.")

multi_option = click.option(
    "--multi",
    type=click.Choice(["drop", "first", "all"]),
    default="drop",
    show_default=True,
    help="What becomes of landmarks with several labels.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
separator_option = click.option(
    "--separator", default="|", show_default=True, help="What stands between several values."
)


def number_or_auto(option: str, text: str) -> Any:
    """An integer, or ``auto``.

    Raises:
        OptionError: neither; the message names the option.

    >>> number_or_auto("--clusters", "78"), number_or_auto("--clusters", "auto")
    (78, 'auto')
    """
    if text != "auto" and not text.isdigit():
        raise OptionError(f"{option} {text}", expected="a number or auto")
    return text if text == "auto" else int(text)


def listed(text: str) -> list[str]:
    """The parts of a text that commas separate.

    >>> listed("kind, landmark,")
    ['kind', 'landmark']
    """
    return [part.strip() for part in text.split(",") if part.strip()]
