"""Encoders by their names, as the command line and ``labels.yaml`` give them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hiertree.errors import OptionError

from .cached_encoder import CachedEncoder
from .clip_encoder import ClipEncoder
from .sentence_encoder import SentenceEncoder
from .text_encoders import TextEncoder
from .tfidf_encoder import TfidfEncoder


def make_encoder(
    name: str = "tfidf",
    *,
    clip_model: str = ClipEncoder.model,
    clip_weights: str = ClipEncoder.weights,
    sentence_model: str = SentenceEncoder.model,
    prompts: Sequence[str] = (),
    batch_size: int = 128,
    device: str = "cpu",
    cache: str | os.PathLike[str] | None = None,
) -> TextEncoder:
    """The encoder of a name.

    Args:
        name: ``tfidf``, ``clip`` or ``sentence-transformers``.
        clip_model: of ``clip``.
        clip_weights: of ``clip``.
        sentence_model: of ``sentence-transformers``.
        prompts: templates that hold ``{label}``; default: the encoder's own. ``tfidf`` has none.
        batch_size: texts at a time.
        device: where it runs.
        cache: a folder that keeps the vectors of ``clip`` and ``sentence-transformers``.

    Raises:
        OptionError: another name, or an option outside its range.

    >>> make_encoder().name
    'tfidf'
    """
    given = tuple(prompts)
    if name == "tfidf":
        return TfidfEncoder()
    encoder: TextEncoder
    if name == "clip":
        encoder = ClipEncoder(clip_model, clip_weights, given or ClipEncoder.prompts, batch_size, device)
    elif name == "sentence-transformers":
        encoder = SentenceEncoder(sentence_model, given or SentenceEncoder.prompts, batch_size, device)
    else:
        raise OptionError(f"encoder {name!r}", expected="'tfidf', 'clip' or 'sentence-transformers'")
    return encoder if cache is None else CachedEncoder(encoder, cache)
