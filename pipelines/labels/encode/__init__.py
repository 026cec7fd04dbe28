"""The encoders that settings ask for."""

from __future__ import annotations

from hiertree.errors import require_package

from ..settings import ClipSettings, EncoderSettings
from .place_nouns import PlaceNounEncoder
from .text_encoders import ClipEncoder, SentenceEncoder, TextEncoder, VectorTable


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
        return clip_encoder(settings)
    require_package("sentence_transformers", extra="sentences")
    prompts = settings.prompts or SentenceEncoder.prompts
    return SentenceEncoder(settings.sentence_model, prompts, settings.batch_size, settings.device)
