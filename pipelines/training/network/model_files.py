"""The files of a trained network: weights, settings, and the preprocessing of its images."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import nn

from hiertree.errors import CheckpointError, RecipeError
from hiertree.io import files

from ..recipe.reading import load_recipe
from ..recipe.settings import ModelSettings
from .backbones import is_imported
from .embedder import Embedder
from .imported_backbone import import_backbone
from .preprocessing import Preprocessing

WEIGHTS, SETTINGS = "model.safetensors", "model.json"


def save_embedder(embedder: Embedder, folder: str | os.PathLike[str], preprocessing: Preprocessing) -> list[Path]:
    """Write ``model.safetensors`` and ``model.json``, which the functions below read."""
    from safetensors.torch import save_file

    weights, settings = Path(folder) / WEIGHTS, Path(folder) / SETTINGS
    with files.replacing(weights) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in embedder.state_dict().items()}, temporary)
    content = {"model": embedder.settings.model_dump(mode="json"), "channels": embedder.channels}
    files.write_json(settings, {**content, "preprocessing": preprocessing.model_dump(mode="json")})
    return [weights, settings]


def load_embedder(
    folder: str | os.PathLike[str], *, backbone: Callable[..., nn.Module] | None = None, imports: bool = True
) -> Embedder:
    """Load the trained network of a run folder, in evaluation mode on the CPU.

    Args:
        folder: of the run or the model.
        backbone: builds a backbone of one's own; by default what the model names by ``module:attribute`` is imported,
            from the Python path and never from the folder.
        imports: False imports none: such a model then needs ``backbone``.

    Raises:
        CheckpointError: the run is not finished, the folder holds no model, or the two files do not fit together.
        MissingResourceError, RecipeError: a backbone of one's own cannot be imported or built.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    settings = _settings(Path(folder))
    try:
        model, channels = ModelSettings.model_validate(settings["model"]), settings["channels"]
        size = settings["preprocessing"]["size"] if "preprocessing" in settings else None
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, error) from error
    if backbone is None and is_imported(model.backbone):
        if not imports:
            raise RecipeError(
                f"the network of this model is {model.backbone}, code that is not part of it",
                expected="that code from you, for a model of the hub names nothing that is imported",
                remedy="load_model(…, backbone=…) takes the class or function",
            )
        backbone = import_backbone(model.backbone, outside=Path(folder))
    try:
        embedder = Embedder(model, channels=channels, size=size, load_weights=False, factory=backbone)
        embedder.load_state_dict(load_file(Path(folder) / WEIGHTS))
    except (OSError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise _damaged(folder, error) from error
    return embedder.eval()


def load_preprocessing(folder: str | os.PathLike[str]) -> Preprocessing:
    """Load the preprocessing of a run's network; that of earlier runs is in their recipe.

    Raises:
        CheckpointError: the run is not finished, or the folder holds no model.
        RecipeError: the recipe of an earlier run cannot be read.
    """
    settings = _settings(Path(folder))
    if "preprocessing" not in settings:
        return Preprocessing.of_recipe(load_recipe(Path(folder) / "recipe.yaml"))
    try:
        return Preprocessing.model_validate(settings["preprocessing"])
    except ValidationError as error:
        raise CheckpointError(f"{Path(folder) / SETTINGS} ({error})", expected="a preprocessing") from error


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.is_file() and not (folder / "recipe.yaml").is_file():
        problem = f"{folder} holds no {SETTINGS}" if folder.is_dir() else f"no folder {folder}"
        raise CheckpointError(problem, expected="the folder of a finished run of `hiertree train`")
    if not path.is_file():
        raise CheckpointError(
            f"{folder} holds a run that is not finished",
            expected=f"the folder of a finished run, with {SETTINGS}",
            remedy=f"`hiertree train {folder / 'recipe.yaml'} --out {folder}` finishes it",
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}", expected="the settings of a model")
    return content


def _damaged(folder: str | os.PathLike[str], error: BaseException) -> CheckpointError:
    return CheckpointError(f"{folder} ({error})", expected=f"{SETTINGS} and {WEIGHTS} of one model")
