"""Settings of the encoders, the encoders themselves, and a cache of their vectors on disk, one file per model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator, model_validator

from hiertree.errors import OptionError
from hiertree.io.array_files import reading_arrays
from hiertree.io.files import AnyPath, replacing

from ..steps import GROWS, Count, FileOrName, Settings, option
from .place_noun_encoder import PlaceNounEncoder
from .text_encoders import ClipEncoder, SentenceEncoder, TextEncoder, VectorTable, check_prompts


class CachedEncoder:
    """An encoder that remembers, in a file of the folder, by the hash of its settings and of each text.

    One that learns from the texts it is given together (place nouns) is asked every time.
    """

    def __init__(self, encoder: TextEncoder, folder: AnyPath) -> None:
        self.encoder, self.folder, self.settings = encoder, folder, encoder.settings
        self.name, self.kind_margin, self.independent = encoder.name, encoder.kind_margin, encoder.independent

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts, reading known ones from the cache."""
        if not self.encoder.independent:
            return self.encoder.encode(texts)
        file = Path(self.folder) / f"{self.name}-{_hash(json.dumps(self.settings(), sort_keys=True))[:16]}.npz"
        vector_of_hash = _read(file)
        missing = [text for text in dict.fromkeys(texts) if _hash(text) not in vector_of_hash]
        if missing:
            vector_of_hash |= dict(zip(map(_hash, missing), self.encoder.encode(missing), strict=True))
            with replacing(file) as temporary, temporary.open("wb") as stream:
                np.savez(stream, texts=np.array(list(vector_of_hash)), vectors=np.stack(list(vector_of_hash.values())))
        return np.stack([vector_of_hash[_hash(text)] for text in texts])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(file: Path) -> dict[str, NDArray[np.float32]]:
    if not file.exists():
        return {}
    expected, remedy = "vectors kept earlier", "remove the file"
    with reading_arrays(file, expected=expected, remedy=remedy, kind=OptionError) as archive:
        return dict(zip(archive["texts"].tolist(), archive["vectors"], strict=True))


class ClipSettings(Settings):
    """A CLIP model, and how texts and images go through it."""

    clip_model: str = option(ClipEncoder.model, "An open_clip model, hf-hub:OWNER/NAME or local-dir:FOLDER.")
    clip_weights: FileOrName = option(ClipEncoder.weights, "Its weights: a name of open_clip, or a local file.")
    prompts: tuple[str, ...] = option(
        (), "Template with {label}; several are averaged. Only for networks.", name="prompt"
    )
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
    cache: Annotated[Path | None, GROWS] = option(
        None, "Folder that keeps the vectors of clip and sentence-transformers."
    )

    @model_validator(mode="after")
    def _fit_the_encoder(self) -> EncoderSettings:
        if self.reader and self.encoder != "place-nouns":
            raise OptionError(
                f"reader={self.reader}, encoder={self.encoder}", expected="a reader for place-nouns alone"
            )
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
        encoder: TextEncoder = self.clip()
        if name == "sentence-transformers":
            prompts = self.prompts or SentenceEncoder.prompts
            encoder = SentenceEncoder(self.sentence_model, prompts, self.batch_size, self.device)
        return encoder if self.cache is None else CachedEncoder(encoder, self.cache)
