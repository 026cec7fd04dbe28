"""The settings of every step, declared once: for ``labels.yaml``, the command line, Python and the manifests.

This module imports nothing heavy, so that the help of a command takes no longer than others'.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, FiniteFloat, ValidationError, field_validator, model_validator

from hiertree.errors import OptionError

from ..settings import Section

FILE_OR_NAME = "a file, or a name"  # marks the annotation of a field
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
FileOrName = Annotated[str, FILE_OR_NAME]
AnySettings = TypeVar("AnySettings", bound="Settings")
Multi: TypeAlias = Literal["drop", "first", "all"]
Unnamed: TypeAlias = Literal["drop", "keep"]
EncoderName: TypeAlias = Literal["place-nouns", "clip", "sentence-transformers", "vectors"]
NetworkName: TypeAlias = Literal["clip", "sentence-transformers", "vectors"]

TEMPERATURE = 100.0  # of the softmax over cosines of CLIP
PROMPT = "A picture of a {label}"
WIKIMEDIA = ("https://commons.wikimedia.org", "https://www.wikidata.org")
FASTEST = {"api": 300, "html": 1200}  # requests a minute that Wikimedia allows: 5 and 20 a second
_MAIL = re.compile(r"[^\s@()<>]+@([^\s@()<>]+\.[A-Za-z0-9-]{2,})")
_PAGE = re.compile(r"https?://([^\s()<>/:]+\.[A-Za-z0-9-]{2,})(?::[0-9]+)?(/[^\s()<>]*)?")
_NOT_REAL = re.compile(r"(.*\.)?(example(\.(com|org|net|edu))?|invalid|test|localhost|local)", re.IGNORECASE)


def option(default: Any, description: str, *, name: str | None = None, **checks: Any) -> Any:
    """A field of settings; ``name`` is that of its option, if it is not the field's with hyphens."""
    return Field(default, description=description, json_schema_extra={"option": name} if name else None, **checks)


class Settings(Section):
    """Base of the settings of a step; a bad value raises OptionError.

    A field's name is its key in ``labels.yaml``; its description is its option's help. A path is read.
    """

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _option_error(error) from None


def _option_error(error: ValidationError) -> OptionError:
    """The first complaint; for a value that fits none of several types, one of each type."""
    errors = error.errors(include_url=False)
    first = errors[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, OptionError):
        problem = cause.given if not name or cause.given.startswith(f"{name}=") else f"{name}: {cause.given}"
        return OptionError(problem, expected=cause.expected, remedy=cause.remedy, choose=cause.choose)
    if not name:
        return OptionError(first["msg"])
    complaints = " or ".join(dict.fromkeys(detail["msg"] for detail in errors if detail["loc"][:1] == first["loc"][:1]))
    value = "" if first["type"] == "missing" else f"={first['input']!r}"
    return OptionError(f"{name}{value}: {complaints}")


def resolve_paths(settings: AnySettings, folder: Path) -> AnySettings:
    """The settings with relative paths resolved from a folder; names without a file there stay."""
    changes: dict[str, Any] = {}
    for name, info in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, Settings):
            changes[name] = resolve_paths(value, folder)
        elif isinstance(value, Path):
            changes[name] = folder / value
        elif isinstance(value, tuple) and value and isinstance(value[0], Path):
            changes[name] = tuple(folder / path for path in value)
        elif FILE_OR_NAME in info.metadata and (folder / value).is_file():
            changes[name] = str(folder / value)
    return settings.model_copy(update=changes)


class ColumnNames(Settings):
    """The names of the tables' columns; the defaults are GLDv2's."""

    landmark_id: str = option("landmark_id", "Column of the landmark ids.", name="id-column")
    category: str = option("category", "Column of the Commons categories.", name="category-column")
    instance_of: str = option("instance_of", "Column of the 'instance of' values.", name="instance-column")
    item_ids: str | None = option(None, "Column of the values' Wikidata ids; default: item_ids.", name="item-column")


class ScrapeSettings(Settings):
    """Which source is read, and how Wikimedia is asked."""

    contact: str | None = option(None, "Your email address or web page, for Wikimedia's operators; needed to ask them.")
    source: Literal["api", "html"] = option("api", "Ask the action API, 50 a request, or read the category pages.")
    requests_per_minute: FiniteFloat = option(200.0, "Spread evenly, one request at a time.", gt=0)
    max_retries: int = option(8, "Retries of a failed request.", ge=0)
    backoff: FiniteFloat = option(5.0, "Seconds before the first retry; doubled for each further one.", gt=0)
    refresh_older_than: float | None = option(None, "Ask again for facts older than so many days.", ge=0, lt=1e6)
    commons_api: str = option("https://commons.wikimedia.org/w/api.php", "Commons' action API, or a loopback address.")
    wikidata_api: str = option("https://www.wikidata.org/w/api.php", "Wikidata's action API, or a loopback address.")
    commons_site: str = option("https://commons.wikimedia.org", "Commons' pages, or those on a loopback address.")

    @field_validator("contact")
    @classmethod
    def _reaches_somebody(cls, contact: str | None) -> str | None:
        address_match = contact and (_MAIL.fullmatch(contact) or _PAGE.fullmatch(contact))
        if contact is not None and (
            not address_match or _NOT_REAL.fullmatch(address_match[1]) or not contact.isascii()
        ):
            raise OptionError(f"contact={contact!r}", expected="your own email address or web page, for the operators")
        return contact

    @model_validator(mode="after")
    def _asks_nobody_else(self) -> ScrapeSettings:
        for name in ("commons_api", "wikidata_api", "commons_site"):
            url = getattr(self, name)
            if not is_loopback(url) and origin_of(url).removesuffix(":443") not in WIKIMEDIA:
                raise OptionError(f"{name}={url!r}", expected=f"{' or '.join(WIKIMEDIA)}, or a loopback address")
        return self

    @model_validator(mode="after")
    def _asks_slowly(self) -> ScrapeSettings:
        fastest = FASTEST[self.source]
        urls = (self.commons_api, self.wikidata_api) if self.source == "api" else (self.commons_site,)
        if self.requests_per_minute >= fastest and not all(map(is_loopback, urls)):
            raise OptionError(f"requests_per_minute={self.requests_per_minute:g}", expected=f"fewer than {fastest}")
        return self

    @property
    def origins(self) -> frozenset[str]:
        """The only origins that are ever asked."""
        return frozenset(origin_of(url) for url in (self.commons_api, self.wikidata_api, self.commons_site))


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    try:
        parsed = urlsplit(url)
        if parsed.scheme not in ("http", "https") or parsed.username is not None:
            return False
        return parsed.hostname == "localhost" or ipaddress.ip_address(parsed.hostname or "").is_loopback
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL; empty where it has none or names a user."""
    try:
        parsed = urlsplit(url)
        port = parsed.port or {"http": 80, "https": 443}.get(parsed.scheme)
    except ValueError:
        return ""
    return "" if parsed.username is not None else f"{parsed.scheme}://{parsed.hostname}:{port}"


class CleanSettings(Settings):
    """How landmarks are read and cleaned."""

    multi: Multi = option("drop", "What to do with landmarks that have several labels.")
    separator: str = option("|", "Separator between several values.", min_length=1)
    unnamed: Unnamed = option("drop", "What to do with landmarks whose classes have only Wikidata ids, no names.")


class ImageFolderSettings(Settings):
    """Where images of landmarks are, if there are any."""

    images: Path | None = option(None, "Images of landmarks: <landmark id>.jpg, or a folder for each landmark.")
    image_table: Path | None = option(None, "Table of image ids and landmark_id, for files named by image id.")


class ExportSettings(Settings):
    """The name of the exported table, and the images that the data card counts."""

    split: str = option("", "Name the table SPLIT_label_to_hierarchical.csv, as GLDv2.", pattern=r"^[A-Za-z0-9_-]*$")
    image_table: Path | None = option(None, "CSV of image ids and landmark_id, whose images the data card counts.")
    keep_unfit: bool = option(False, "Keep labels that are marked as no landmark: people, events, films, animals …")


class TreeSettings(ImageFolderSettings):
    """Settings of the page."""

    title: str = option("Landmark labels", "Title of the page.")


class ImagesSettings(ImageFolderSettings):
    """Where the images are, which landmarks are listed, and which of them are held out."""

    images: Path = option(..., "Images of landmarks: <landmark id>.jpg, or a folder for each landmark.")
    hold_out: float = option(0.5, "Share of landmarks in the test split.", ge=0, le=1)
    min_images: Count = option(2, "Landmarks with fewer images are left out.")
    seed: Seed = option(0, "Seed of the draw.")


class ClipSettings(Settings):
    """A CLIP model, and how texts and images go through it."""

    clip_model: str = option("ViT-L-14", "An open_clip model, hf-hub:OWNER/NAME or local-dir:FOLDER.")
    clip_weights: FileOrName = option("laion2b_s32b_b82k", "Its weights: a name of open_clip, or a local file.")
    prompts: tuple[str, ...] = option((), "Networks' template with {label}; several are averaged.", name="prompt")
    batch_size: Count = option(128, "Texts or images per batch.")
    device: str = option("cpu", "Where the encoder runs: cpu, cuda or cuda:N.")

    @field_validator("prompts")
    @classmethod
    def _hold_the_label(cls, prompts: tuple[str, ...]) -> tuple[str, ...]:
        if any("{label}" not in prompt for prompt in prompts):
            expected = f"templates with {{label}}, such as {PROMPT!r}"
            raise OptionError(f"prompts={list(prompts)}", expected=expected)
        return prompts


class EncoderSettings(ClipSettings):
    """How the texts of labels become vectors."""

    encoder: EncoderName = option("place-nouns", "Encoder of the labels' texts; place-nouns needs no download.")
    reader: NetworkName | None = option(None, "Reads what place-nouns does not know as its nearest noun.")
    second: NetworkName | None = option(None, "Vouches for labels of which no class above is known.")
    sentence_model: str = option("all-MiniLM-L6-v2", "A sentence-transformers model, or its folder.")
    vectors: Path | None = option(None, "Parquet table of label and vector, for vectors.")

    @model_validator(mode="after")
    def _fit_the_encoder(self) -> EncoderSettings:
        if self.reader and self.encoder != "place-nouns":
            raise OptionError(
                f"reader={self.reader}, encoder={self.encoder}", expected="a reader for place-nouns alone"
            )
        names = [name for name in (self.encoder, self.reader, self.second) if name]
        if self.prompts and not {"clip", "sentence-transformers"}.intersection(names):
            raise OptionError(f"prompts={list(self.prompts)}", expected=f"none with the encoder {names[-1]}")
        if ("vectors" in names) != (self.vectors is not None):
            problem = f"encoder={', '.join(names)}, vectors={self.vectors}"
            raise OptionError(problem, expected="a table if one of the encoders is vectors")
        return self


class FillSettings(ImageFolderSettings, ClipSettings):
    """Where images, or their vectors, come from, and how they give labels."""

    embeddings: Path | None = option(None, "An .npz of embeddings and landmark_ids instead of images.")
    threshold: float = option(0.5, "Lowest confidence at which a label is taken.", ge=0, le=1)
    temperature: float = option(TEMPERATURE, "Temperature of the softmax over cosines.", gt=0, allow_inf_nan=False)


class ClusterSettings(EncoderSettings):
    """How labels are embedded and clustered."""

    clusters: Count | Literal["auto"] = option(
        "auto", "Number of supercategories, beside 'unknown'; auto: by silhouette, up to 100."
    )
    seed: Seed = option(0, "Seed of k-means.")
    restarts: Count = option(20, "Runs of k-means that are combined.")
    levels: int = option(0, "Levels of groups above the clusters.", ge=0)
    assignments: Path | None = option(None, "Table of label, cluster (name, kind, group) made elsewhere.")
    hypernyms: Path | None = option(None, "Table of 'subclass of' edges or a store; default: what was scraped.")
    references: tuple[Path, ...] = option((), "TABLE:COLUMN, classes of labels to compare with.", name="reference")

    @field_validator("references")
    @classmethod
    def _name_a_column(cls, references: tuple[Path, ...]) -> tuple[Path, ...]:
        for reference in references:
            split_reference(reference)
        return references


def split_reference(spec: str | Path) -> tuple[Path, str]:
    """The table and the column that ``TABLE:column`` names."""
    path, _, column = str(spec).rpartition(":")
    if not path or not column:
        raise OptionError(f"reference {str(spec)!r}", expected="TABLE:column, of a table with a column 'label'")
    return Path(path), column
