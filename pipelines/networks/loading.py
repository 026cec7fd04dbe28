"""One loader: a name → the network, the preprocessing of its images, and the text tower if it has one.

``timm:NAME`` and ``open_clip:NAME/WEIGHTS`` are networks of these libraries, whose weights may be a name or a file;
``timm:hf-hub:OWNER/NAME``, ``open_clip:hf-hub:OWNER/NAME`` and ``open_clip:local-dir:FOLDER`` those of a repository or
a folder. Images are prepared as the library does for these weights; embeddings are what the network pools itself. Any
other name is the folder of a trained model.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor, nn

from hiertree.errors import CheckpointError, OptionError, RecipeError, raised_as
from hiertree.io import files
from hiertree.io.reading import Complaint, read_json_object, read_tensors, reading_file

from .backbones import image_view, input_statistics, is_fetched, is_imported
from .clip import CLIP, HUB, TextTower, is_described, load_clip, split_weights
from .embedder import Embedder
from .settings import ModelSettings, Precision, Preprocessing, ViewSettings, import_callable
from .weights import require_finite_weights

TIMM = "timm:"
Backbone: TypeAlias = Callable[..., nn.Module] | str
WEIGHTS, SETTINGS = "model.safetensors", "model.json"
_OF_A_MODEL: Complaint = {"expected": f"{SETTINGS} and {WEIGHTS} of one model", "kind": CheckpointError}


class LoadedNetwork(NamedTuple):
    """What embeds images, and perhaps texts."""

    network: Embedder
    preprocessing: Preprocessing
    texts: TextTower | None = None  # None where it has no text tower


def is_pretrained(name: str) -> bool:
    """Whether a name is that of a pretrained network of a library, not of a run or a recipe."""
    return name.startswith((TIMM, CLIP))


def pretrained_model(name: str) -> ModelSettings:
    """The settings of a pretrained network: the features that it pools itself, without a projection."""
    if name.startswith(CLIP):
        model, weights = split_weights(name)
        backbone, pretrained = f"{CLIP}{model}", weights or True
    else:
        backbone, file = name.removeprefix(TIMM), ""
        if not backbone.startswith(HUB):
            backbone, _, file = backbone.partition("/")
        pretrained = file or True
    pooled: Any = {"pooling": "backbone", "layer_norm": False, "embedding_size": None}
    return ModelSettings(backbone=backbone, pretrained=pretrained, **pooled)


def library_preprocessing(model: ModelSettings, *, size: int | None = None) -> Preprocessing:
    """How a library prepares images for the weights of a network; the crop follows another size than its own."""
    view = image_view(model)
    height, width = view["input_size"][-2:]
    if height != width and size is None:
        problem = f"{model.backbone}, for images of {height} × {width} pixels"
        raise RecipeError(problem, expected="a network for square images")
    size = size or height
    before_crop = math.floor(size / view["crop_pct"])
    resize = (before_crop, before_crop) if view["crop_mode"] == "squash" else before_crop
    border = view["fill"] if view["crop_mode"] == "border" else None
    square = ViewSettings(size=size, resize=resize, interpolation=view["interpolation"], border=border)
    return preprocessing_of(square, model)


def preprocessing_of(
    view: ViewSettings, model: ModelSettings, *, scales: tuple[float, ...] = (1.0,), precision: Precision = "32-true"
) -> Preprocessing:
    """The preprocessing of a view of images, with the mean and the deviation of a network."""
    mean, std = input_statistics(model, channels=view.channels)
    square = {name: getattr(view, name) for name in ViewSettings.model_fields}
    return Preprocessing(**square, mean=mean, std=std, scales=scales, precision=precision)


def load_network(name: str, *, backbone: Backbone | None = None) -> LoadedNetwork:
    """Load a network by name, on the CPU; see the names above.

    Args:
        name: of the network.
        backbone: builds the backbone of a trained model that is code of someone's own.
    """
    if not is_pretrained(name):
        return LoadedNetwork(load_embedder(name, backbone=backbone), load_preprocessing(name))
    model = pretrained_model(name)
    preprocessing = library_preprocessing(model)
    options: Any = {"channels": 3, "size": preprocessing.size}
    if not name.startswith(CLIP) or (model.pretrained is True and not is_described(name)):
        return LoadedNetwork(Embedder(model, **options).eval(), preprocessing)
    with raised_as(RecipeError, f"model.backbone={model.backbone}", on=OptionError):
        clip = load_clip(model.backbone, str(model.pretrained), "cpu", image_size=preprocessing.size)
    tower = model.model_copy(update={"pretrained": False})  # which is there already
    network = Embedder(tower, **options, factory=lambda: clip.visual)
    return LoadedNetwork(network.eval(), preprocessing, TextTower(clip, model.backbone))


def save_embedder(embedder: Embedder, folder: str | os.PathLike[str], preprocessing: Preprocessing) -> list[Path]:
    """Write ``model.safetensors`` and ``model.json``, which the functions below read."""
    from safetensors import SafetensorError

    weights, settings = Path(folder) / WEIGHTS, Path(folder) / SETTINGS
    room, remedy = "room on the disk", "free some and run the same command"
    with (
        files.replacing(weights) as temporary,
        raised_as(
            CheckpointError,
            f"{weights} was not written",
            expected=room,
            remedy=remedy,
            on=(OSError, SafetensorError),
        ),
    ):
        files.write_tensors(temporary, embedder.state_dict())
    architecture: dict[str, Any] = {"model": embedder.settings.model_dump(mode="json"), "channels": embedder.channels}
    architecture |= {} if embedder.text_size is None else {"text_size": embedder.text_size}
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
        sizes: Any = {"size": preprocessing.size, "text_size": settings.get("text_size")}
        embedder = Embedder(model, channels=channels, **sizes, load_weights=False, factory=factory)
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
