"""The settings of the encoders, and the encoder that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from hiertree.errors import OptionError

from ..settings import GROWS, Count, FileOrName, Settings
from .cached_encoder import CachedEncoder
from .clip_encoder import ClipEncoder
from .place_noun_encoder import PlaceNounEncoder
from .sentence_encoder import SentenceEncoder
from .text_encoders import TextEncoder, check_prompts


class ClipSettings(Settings):
    """A CLIP model, and how texts and images go through it."""

    clip_model: Annotated[str, Field(description="An open_clip model.")] = ClipEncoder.model
    clip_weights: Annotated[FileOrName, Field(description="Its weights: a name of open_clip, or a local file.")] = (
        ClipEncoder.weights
    )
    prompts: Annotated[
        tuple[str, ...],
        Field(
            description="Template with {label}; several are averaged. Not for tfidf.",
            json_schema_extra={"option": "prompt"},
        ),
    ] = ()
    batch_size: Annotated[Count, Field(description="Texts or images at a time.")] = ClipEncoder.batch_size
    device: Annotated[str, Field(description="Where the encoder runs: cpu, cuda or cuda:N.")] = ClipEncoder.device

    @field_validator("prompts")
    @classmethod
    def _hold_the_label(cls, prompts: tuple[str, ...]) -> tuple[str, ...]:
        if prompts:
            check_prompts(prompts, example=ClipEncoder.prompts[0])
        return prompts

    def clip(self) -> ClipEncoder:
        """The encoder; without prompts it has its own."""
        prompts = self.prompts or ClipEncoder.prompts
        return ClipEncoder(self.clip_model, self.clip_weights, prompts, self.batch_size, self.device)


class EncoderSettings(ClipSettings):
    """How the texts of labels become vectors.

    >>> EncoderSettings().build().name
    'tfidf'
    """

    encoder: Annotated[
        Literal["tfidf", "clip", "sentence-transformers"],
        Field(description="Encoder of the labels' texts; tfidf (place nouns, words, letters) needs no download."),
    ] = "tfidf"
    sentence_model: Annotated[str, Field(description="A sentence-transformers model.")] = SentenceEncoder.model
    cache: Annotated[
        Path | None, GROWS, Field(description="Folder that keeps the vectors of clip and sentence-transformers.")
    ] = None

    @model_validator(mode="after")
    def _takes_prompts(self) -> EncoderSettings:
        if self.encoder == "tfidf" and self.prompts:
            raise OptionError(f"prompts={list(self.prompts)}", expected="none with the encoder tfidf")
        return self

    def build(self) -> TextEncoder:
        """The encoder."""
        if self.encoder == "tfidf":
            return PlaceNounEncoder()
        encoder: TextEncoder = self.clip()
        if self.encoder == "sentence-transformers":
            prompts = self.prompts or SentenceEncoder.prompts
            encoder = SentenceEncoder(self.sentence_model, prompts, self.batch_size, self.device)
        return encoder if self.cache is None else CachedEncoder(encoder, self.cache)
