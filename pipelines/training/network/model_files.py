"""The files of a trained network: its weights and its settings."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hiertree.errors import CheckpointError
from hiertree.io import files

from ..recipe.settings import ModelSettings
from .embedder import Embedder


def save_embedder(embedder: Embedder, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``model.safetensors`` and ``model.json``, which :func:`load_embedder` reads."""
    from safetensors.torch import save_file

    weights, settings = Path(folder) / "model.safetensors", Path(folder) / "model.json"
    with files.replacing(weights) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in embedder.state_dict().items()}, temporary)
    files.write_json(settings, {"model": embedder.settings.model_dump(mode="json"), "channels": embedder.channels})
    return [weights, settings]


def load_embedder(folder: str | os.PathLike[str]) -> Embedder:
    """Load the trained network of a run folder, in evaluation mode on the CPU.

    Raises:
        CheckpointError: the folder holds no model, or the two files do not fit together.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        settings = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
        model = ModelSettings.model_validate(settings["model"])
        embedder = Embedder(model, channels=settings["channels"], load_weights=False)
        embedder.load_state_dict(load_file(Path(folder) / "model.safetensors"))
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"{folder} ({error})", expected="model.json and model.safetensors of one model"
        ) from error
    return embedder.eval()
