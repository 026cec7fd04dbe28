"""Vectors kept on disk, one file a model: a text is encoded once, whatever it is clustered with later."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import OptionError
from hiertree.io.files import replacing

from .text_encoders import TextEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class CachedEncoder:
    """An encoder that remembers, by the hash of its settings and of each text.

    An encoder that learns from the texts it is given together (tfidf) is asked every time.

    Args:
        encoder: what encodes.
        folder: where the files are kept; made where there is none.
    """

    encoder: TextEncoder
    folder: str | os.PathLike[str]

    @property
    def name(self) -> str:
        """The encoder's."""
        return self.encoder.name

    @property
    def kind_margin(self) -> float:
        """The encoder's."""
        return self.encoder.kind_margin

    @property
    def independent(self) -> bool:
        """The encoder's."""
        return self.encoder.independent

    def settings(self) -> dict[str, Any]:
        """The encoder's: where vectors are kept changes none."""
        return self.encoder.settings()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the encoder does.

        Raises:
            OptionError: the file of this model is damaged.
        """
        if not self.encoder.independent:
            return self.encoder.encode(texts)
        file = self._file()
        known = _read(file)
        missing = [text for text in dict.fromkeys(texts) if _hash(text) not in known]
        if missing:
            known |= dict(zip(map(_hash, missing), self.encoder.encode(missing), strict=True))
            _write(file, known)
        return np.stack([known[_hash(text)] for text in texts])

    def _file(self) -> Path:
        settings = json.dumps(self.settings(), sort_keys=True)
        return Path(self.folder) / f"{self.name}-{_hash(settings)[:16]}.npz"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(file: Path) -> dict[str, NDArray[np.float32]]:
    if not file.exists():
        return {}
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise OptionError(f"{file}: {error}", expected="vectors kept earlier", remedy="remove the file") from None


def _write(file: Path, known: dict[str, NDArray[np.float32]]) -> None:
    with replacing(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, texts=np.array(list(known)), vectors=np.stack(list(known.values())))
