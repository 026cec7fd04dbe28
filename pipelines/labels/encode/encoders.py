"""The encoders that settings ask for, and a cache of their vectors on disk, one file per model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hiertree.errors import OptionError, require_package
from hiertree.io.array_files import reading_arrays
from hiertree.io.files import AnyPath, replacing

from ..settings import ClipSettings, EncoderSettings
from .place_nouns import PlaceNounEncoder
from .text_encoders import ClipEncoder, SentenceEncoder, TextEncoder, VectorTable


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


def clip_encoder(settings: ClipSettings) -> ClipEncoder:
    """CLIP, with its own prompts where none are given."""
    require_package("open_clip", "torch", extra="clip")
    prompts = settings.prompts or ClipEncoder.prompts
    return ClipEncoder(settings.clip_model, settings.clip_weights, prompts, settings.batch_size, settings.device)


def text_encoder(settings: EncoderSettings, name: str | None = None) -> TextEncoder:
    """The encoder, or with a name the reader or the second one; a package that it lacks is named at once.

    >>> text_encoder(EncoderSettings()).name
    'place-nouns'
    """
    name = name or settings.encoder
    if name == "place-nouns":
        return PlaceNounEncoder()
    if name == "vectors" and settings.vectors is not None:
        return VectorTable(settings.vectors)
    if name == "clip":
        encoder: TextEncoder = clip_encoder(settings)
    else:
        require_package("sentence_transformers", extra="sentences")
        prompts = settings.prompts or SentenceEncoder.prompts
        encoder = SentenceEncoder(settings.sentence_model, prompts, settings.batch_size, settings.device)
    return encoder if settings.cache is None else CachedEncoder(encoder, settings.cache)
