"""The files of a trained network: weights, settings, and the preprocessing of its images."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor, nn

from hiertree.errors import CheckpointError, RecipeError, raised_as
from hiertree.io import files
from hiertree.io.reading import Complaint, read_json_object, read_tensors, reading_file

from .backbones import is_fetched, is_imported
from .embedder import Embedder
from .settings import ModelSettings, Preprocessing, import_callable
from .weights import require_finite_weights

Backbone: TypeAlias = Callable[..., nn.Module] | str
WEIGHTS, SETTINGS = "model.safetensors", "model.json"
_OF_A_MODEL: Complaint = {"expected": f"{SETTINGS} and {WEIGHTS} of one model", "kind": CheckpointError}


def save_embedder(embedder: Embedder, folder: str | os.PathLike[str], preprocessing: Preprocessing) -> list[Path]:
    """Write ``model.safetensors`` and ``model.json``, which the functions below read."""
    weights, settings = Path(folder) / WEIGHTS, Path(folder) / SETTINGS
    room, remedy = "room on the disk", "free some and run the same command"
    with (
        files.replacing(weights) as temporary,
        raised_as(CheckpointError, f"{weights} was not written", expected=room, remedy=remedy, on=OSError),
    ):
        files.write_tensors(temporary, embedder.state_dict())
    architecture = {"model": embedder.settings.model_dump(mode="json"), "channels": embedder.channels}
    files.write_json(settings, {**architecture, "preprocessing": preprocessing.model_dump(mode="json")})
    return [weights, settings]


def load_embedder(folder: str | os.PathLike[str], *, backbone: Backbone | None = None) -> Embedder:
    """Load the trained network of a run folder, in evaluation mode on the CPU.

    The folder may be anyone's: it may name only networks that hiertree builds itself, and imports nothing.
    """
    settings, preprocessing = _settings(Path(folder)), load_preprocessing(folder)
    with reading_file(Path(folder) / SETTINGS, **_OF_A_MODEL):
        model, channels = ModelSettings.model_validate(settings["model"]), settings["channels"]
        if is_fetched(model.backbone):
            raise ValueError(f"backbone {model.backbone}, where a saved model names an architecture")
        if channels != preprocessing.channels:
            raise ValueError(f"channels={channels!r} with a preprocessing for {preprocessing.channels}")
    if backbone is None and is_imported(model.backbone):
        raise RecipeError(
            f"the network of {folder} is {model.backbone}, code that is not part of the model",
            expected="that code from you: nothing that a model's folder names is imported",
            remedy="if you trust it, load_model(…, backbone=…) takes the class or function, and --backbone its name",
        )
    factory = import_callable(backbone, setting="model.backbone") if isinstance(backbone, str) else backbone
    with reading_file(Path(folder) / SETTINGS, **_OF_A_MODEL):
        embedder = Embedder(model, channels=channels, size=preprocessing.size, load_weights=False, factory=factory)
    weights = load_weights(folder)
    with reading_file(Path(folder) / WEIGHTS, **_OF_A_MODEL):
        embedder.float().load_state_dict(weights)  # whatever type torch makes by default
    return embedder.eval()


def load_weights(folder: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Load the tensors of a finished run's network by name; nothing is built."""
    _settings(Path(folder))
    tensors = read_tensors(Path(folder) / WEIGHTS, **_OF_A_MODEL)
    with reading_file(Path(folder) / WEIGHTS, **_OF_A_MODEL):
        require_finite_weights(tensors)
        if "std" in tensors and not (tensors["std"] > 0).all():
            raise ValueError("std is not above 0")
    return tensors


def load_preprocessing(folder: str | os.PathLike[str]) -> Preprocessing:
    """Load the preprocessing of a run's network."""
    settings = _settings(Path(folder))
    with reading_file(Path(folder) / SETTINGS, **_OF_A_MODEL):
        return Preprocessing.model_validate(settings["preprocessing"])


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.is_file():
        problem = f"{folder} holds no {SETTINGS}" if folder.is_dir() else f"no folder {folder}"
        remedy = None
        if (folder / "recipe.yaml").is_file():
            remedy = f"a run, not finished: `hiertree train {folder}/recipe.yaml --out {folder}` finishes it"
        raise CheckpointError(problem, expected="the folder of a finished run of `hiertree train`", remedy=remedy)
    return read_json_object(path, **_OF_A_MODEL)
