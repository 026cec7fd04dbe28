"""Label texts through the text tower of a CLIP model (open_clip), as the paper does: "A picture of a {label}"."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hiertree.errors import DeviceError, MissingResourceError, OptionError
from hiertree.pipelines.labels.text_encoders import check_prompts, mean_direction
from hiertree.progress import track
from hiertree.provenance import sha256

if TYPE_CHECKING:
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
        """Cosines of CLIP texts lie close together, so a fiftieth already speaks."""
        return 0.02

    @property
    def independent(self) -> bool:
        """Each text is encoded for itself."""
        return True

    def settings(self) -> dict[str, Any]:
        """JSON-able settings, for the manifest; a weights file is named with its SHA-256."""
        file = Path(self.weights)
        weights = {"name": file.name, "sha256": sha256(file)} if file.is_file() else self.weights
        return {"encoder": self.name, "model": self.model, "weights": weights, "prompts": list(self.prompts)}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32 rows of unit norm, one a text: the mean direction over the prompts."""
        import open_clip
        import torch

        model = self._load()
        tokenise = open_clip.get_tokenizer(self.model)

        def encoded(sentences: list[str]) -> NDArray[np.float64]:
            starts = range(0, len(sentences), self.batch_size)
            with torch.inference_mode():
                batches = [
                    model.encode_text(
                        tokenise(sentences[start : start + self.batch_size]).to(self.device), normalize=True
                    ).cpu()
                    for start in track(starts, description="texts through CLIP, in batches")
                ]
            vectors: NDArray[np.float64] = torch.cat(batches).double().numpy()
            return vectors

        return mean_direction(texts, self.prompts, encoded)

    def _load(self) -> Any:
        import open_clip
        import torch
        from safetensors import SafetensorError

        self._check_model(open_clip)
        if torch.device(self.device).type == "cuda" and not torch.cuda.is_available():
            raise DeviceError(f"device={self.device!r}", expected="a CUDA GPU", remedy="use device='cpu'")
        named = not self.model.startswith("local-dir:")
        downloads = named and not Path(self.weights).is_file()
        try:
            model = open_clip.create_model(
                self.model, pretrained=self.weights if named else None, require_pretrained=True, device=self.device
            )
        except (
            RuntimeError,
            OSError,
            ValueError,
            KeyError,
            EOFError,
            pickle.UnpicklingError,
            SafetensorError,
        ) as error:
            if downloads:
                raise self._unreachable(open_clip) from error
            source = self.weights if named else self.model
            raise OptionError(
                f"weights {source!r} do not load into {self.model!r} ({_first_line(error)})",
                expected="weights of that model",
            ) from error
        return model.eval()

    def _check_model(self, open_clip: Any) -> None:
        """The model is known, and the weights are a file or known for it."""
        if self.model.startswith("local-dir:"):
            return
        if self.model not in open_clip.list_models():
            close = get_close_matches(self.model, open_clip.list_models(), n=3)
            raise OptionError(f"model={self.model!r}", expected=f"an open_clip model, perhaps {close}")
        tags = open_clip.list_pretrained_tags_by_model(self.model)
        if self.weights not in tags and not Path(self.weights).is_file():
            raise OptionError(f"weights={self.weights!r}", expected=f"an existing file or one of {tags}")

    def _unreachable(self, open_clip: Any) -> MissingResourceError:
        hub = str(open_clip.get_pretrained_cfg(self.model, self.weights).get("hf_hub", "")).strip("/")
        fetch = f"`hf download {hub}`" if hub else "open_clip's list of pretrained weights"
        return MissingResourceError(
            f"the weights {self.weights!r} of {self.model!r} are not on this machine and could not be downloaded",
            remedy=f"get them where there is a network ({fetch}) and pass the file as the weights",
        )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
