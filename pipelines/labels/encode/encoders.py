"""Settings of the encoders, and the encoders that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import field_validator, model_validator

from hiertree.errors import OptionError

from ..steps import Count, FileOrName, Settings, option
from .place_noun_encoder import PlaceNounEncoder
from .text_encoders import ClipEncoder, SentenceEncoder, TextEncoder, VectorTable, check_prompts


class ClipSettings(Settings):
    """A CLIP model, and how texts and images go through it."""

    clip_model: str = option(ClipEncoder.model, "An open_clip model.")
    clip_weights: FileOrName = option(ClipEncoder.weights, "Its weights: a name of open_clip, or a local file.")
    prompts: tuple[str, ...] = option((), "Template with {label}; several are averaged. For networks.", name="prompt")
    batch_size: Count = option(ClipEncoder.batch_size, "Texts or images per batch.")
    device: str = option(ClipEncoder.device, "Where the encoder runs: cpu, cuda or cuda:N.")

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
    'place-nouns'
    """

    encoder: Literal["place-nouns", "clip", "sentence-transformers", "vectors"] = option(
        "place-nouns", "Encoder of the labels' texts; place-nouns (a list of them, words, letters) needs no download."
    )
    reader: Literal["clip", "sentence-transformers", "vectors"] | None = option(
        None,
        "Encoder by which place-nouns reads what it does not know, labels in other languages for instance, as the "
        "nearest noun of the list.",
    )
    sentence_model: str = option(SentenceEncoder.model, "A sentence-transformers model, or its folder.")
    vectors: Path | None = option(None, "Parquet table of label and vector, for vectors.")

    @model_validator(mode="after")
    def _fit_the_encoder(self) -> EncoderSettings:
        if self.reader and self.encoder != "place-nouns":
            raise OptionError(f"reader={self.reader}, encoder={self.encoder}", expected="encoder=place-nouns")
        network = self.reader or self.encoder
        if network in ("place-nouns", "vectors") and self.prompts:
            raise OptionError(f"prompts={list(self.prompts)}", expected=f"none with the encoder {network}")
        if (network == "vectors") != (self.vectors is not None):
            raise OptionError(f"encoder={network}, vectors={self.vectors}", expected="a table if encoder=vectors")
        return self

    def build(self) -> TextEncoder:
        """The encoder."""
        return self._built(self.encoder)

    def build_reader(self) -> TextEncoder | None:
        """The encoder that reads what the list of place nouns does not know, if there is one."""
        return None if self.reader is None else self._built(self.reader)

    def _built(self, name: str) -> TextEncoder:
        if name == "place-nouns":
            return PlaceNounEncoder()
        if self.vectors is not None:
            return VectorTable(self.vectors)
        if name == "clip":
            return self.clip()
        prompts = self.prompts or SentenceEncoder.prompts
        return SentenceEncoder(self.sentence_model, prompts, self.batch_size, self.device)
