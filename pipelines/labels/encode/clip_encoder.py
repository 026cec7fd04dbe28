"""Label texts through the text tower of a CLIP model (open_clip), as the paper does: "A picture of a {label}"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hiertree.errors import OptionError, require_package
from hiertree.io.progress import track

from ...clip_model import clip_identity, load_clip
from .text_encoders import check_prompts, mean_direction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROMPT = "A picture of a {label}"


@dataclass(frozen=True)
class ClipEncoder:
    """CLIP's text tower; the vectors of several prompts are averaged.

    Args:
        model: an open_clip model name, or ``local-dir:FOLDER`` with ``open_clip_config.json`` and weights in it.
        weights: one of open_clip's names for pretrained weights, or a file (``.safetensors``, or a state dict that
            ``torch.load(weights_only=True)`` reads); ignored with ``local-dir:``.
        prompts: templates that hold ``{label}``.
        batch_size: texts at a time.
        device: ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        OptionError: no prompt, a prompt without ``{label}``, an unknown model or weights, weights of another model.
        DeviceError: a GPU is asked for and there is none.
        MissingResourceError: named weights that are neither here nor within reach; the message says how to get them.
    """

    model: str = "ViT-L-14"
    weights: str = "laion2b_s32b_b82k"
    prompts: tuple[str, ...] = (PROMPT,)
    batch_size: int = 128
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_prompts(self.prompts, example=PROMPT)
        if self.batch_size < 1:
            raise OptionError(f"batch_size={self.batch_size}", expected="at least 1")

    @property
    def name(self) -> str:
        """``clip``."""
        return "clip"

    @property
    def kind_margin(self) -> float:
        """A fiftieth: cosines of CLIP texts lie close together."""
        return 0.02

    @property
    def independent(self) -> bool:
        """Each text is encoded for itself."""
        return True

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest; weights on this machine are named with their SHA-256."""
        return {"encoder": self.name, **clip_identity(self.model, self.weights), "prompts": list(self.prompts)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm, one per text: the mean direction over the prompts."""
        require_package("open_clip", "torch", extra="clip")
        import open_clip
        import torch

        model = load_clip(self.model, self.weights, self.device)
        tokenize = open_clip.get_tokenizer(self.model)

        def encoded(sentences: list[str]) -> NDArray[np.float64]:
            starts = range(0, len(sentences), self.batch_size)
            with torch.inference_mode():
                batches = [
                    model.encode_text(
                        tokenize(sentences[start : start + self.batch_size]).to(self.device), normalize=True
                    ).cpu()
                    for start in track(starts, description="texts through CLIP, in batches")
                ]
            vectors: NDArray[np.float64] = torch.cat(batches).double().numpy()
            return vectors

        return mean_direction(texts, self.prompts, encoded)
