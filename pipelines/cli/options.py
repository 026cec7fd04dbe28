"""Options that several commands share: declared once, and handed to a command as one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hiertree.errors import OptionError

if TYPE_CHECKING:
    from ..labels import Columns, TextEncoder

OUT_FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
ANY_PATH = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]


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

    def columns(self) -> Columns:
        """As the pipeline takes them."""
        from ..labels import Columns

        return Columns(self.id_column, self.category_column, self.instance_column, self.item_column)


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
        click.option("--cache", type=OUT_FOLDER, help="Folder that keeps vectors, but tfidf's, for the next time."),
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
