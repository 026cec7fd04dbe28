"""Label texts through a model of the package sentence-transformers, where that is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import DeviceError, MissingResourceError, require_package
from hiertree.io.provenance import sha256

from .text_encoders import check_prompts, mean_direction

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SentenceEncoder:
    """A sentence-transformers model; the vectors of several prompts are averaged.

    Args:
        model: a name on the Hugging Face hub, or a folder.
        prompts: templates that hold ``{label}``.
        batch_size: texts at a time.
        device: ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        OptionError: no prompt, or one without ``{label}``.
        DeviceError: a GPU is asked for and there is none.
        MissingResourceError: the package is not installed, or the model is out of reach.
    """

    model: str = "all-MiniLM-L6-v2"
    prompts: tuple[str, ...] = ("{label}",)
    batch_size: int = 128
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_prompts(self.prompts, example="a place called {label}")

    @property
    def name(self) -> str:
        """``sentence-transformers``."""
        return "sentence-transformers"

    @property
    def kind_margin(self) -> float:
        """A twentieth; not tuned."""
        return 0.05

    @property
    def independent(self) -> bool:
        """Each text is encoded for itself."""
        return True

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest; a folder is named with the SHA-256 of its weights."""
        own = {"encoder": self.name, "model": self.model, "prompts": list(self.prompts)}
        folder = Path(self.model)
        if not folder.is_dir():
            return own
        weights = sorted([*folder.rglob("*.safetensors"), *folder.rglob("*.bin")])
        hashes = {path.relative_to(folder).as_posix(): sha256(path) for path in weights}
        return {**own, "model": folder.name, "weights": hashes}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm, one per text: the mean direction over the prompts."""
        model = self._load()

        def encoded(sentences: list[str]) -> NDArray[np.float64]:
            vectors = model.encode(
                sentences, batch_size=self.batch_size, normalize_embeddings=True, show_progress_bar=False
            )
            return np.asarray(vectors, dtype=np.float64)

        return mean_direction(texts, self.prompts, encoded)

    def _load(self) -> Any:
        require_package("sentence_transformers", extra="sentences")
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self.model, device=self.device)
        except (OSError, ValueError) as error:
            raise MissingResourceError(
                f"the model {self.model!r} could not be loaded ({str(error).splitlines()[0]})",
                remedy="get it where there is a network and pass its folder",
            ) from error
        except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
            raise DeviceError(f"device={self.device!r}: {error}", expected="a device that is there") from error
