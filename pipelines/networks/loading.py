"""One loader: a name → the network, the preprocessing of its images, and the text tower if it has one.

``timm:NAME`` and ``open_clip:NAME/WEIGHTS`` are networks of these libraries, whose weights may be a name or a file;
``timm:hf-hub:OWNER/NAME``, ``open_clip:hf-hub:OWNER/NAME`` and ``open_clip:local-dir:FOLDER`` those of a repository or
a folder. Images are prepared as the library does for these weights; embeddings are what the network pools itself. Any
other name is the folder of a trained model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hiertree.errors import OptionError, RecipeError, raised_as

from .backbones import image_view, input_statistics
from .clip import CLIP, HUB, TextTower, is_described, load_clip, split_weights
from .embedder import Embedder
from .model_files import Backbone, load_embedder, load_preprocessing
from .settings import ModelSettings, Precision, Preprocessing, ViewSettings

TIMM = "timm:"


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
    height, width = (view.size, view.size) if isinstance(view.size, int) else view.size
    if height != width and size is None:
        problem = f"{model.backbone}, for images of {height} × {width} pixels"
        raise RecipeError(problem, expected="a network for square images")
    size = size or height
    before_crop = math.floor(size / view.crop)
    squeezed = (before_crop, before_crop)
    square = ViewSettings(
        size=size,
        resize=squeezed if view.squeezes else before_crop,
        interpolation=view.interpolation,
        border=view.border,
    )
    return preprocessing_of(square, model)


def preprocessing_of(
    view: ViewSettings, model: ModelSettings, *, scales: Sequence[float] = (1.0,), precision: Precision = "32-true"
) -> Preprocessing:
    """The preprocessing of a view of images, with the mean and the deviation of a network."""
    mean, std = input_statistics(model, channels=view.channels)
    square = {name: getattr(view, name) for name in ViewSettings.model_fields}
    return Preprocessing(**square, mean=mean, std=std, scales=scales, precision=precision)


def load_network(name: str, *, size: int | None = None, backbone: Backbone | None = None) -> LoadedNetwork:
    """Load a network by name, on the CPU; see the names above.

    Args:
        name: of the network.
        size: of its images, where it is pretrained; None takes its own.
        backbone: builds the backbone of a trained model that is code of someone's own.
    """
    if not is_pretrained(name):
        return LoadedNetwork(load_embedder(name, backbone=backbone), load_preprocessing(name))
    model = pretrained_model(name)
    preprocessing = library_preprocessing(model, size=size)
    options: Any = {"channels": 3, "size": preprocessing.size}
    if not name.startswith(CLIP) or (model.pretrained is True and not is_described(name)):
        return LoadedNetwork(Embedder(model, **options).eval(), preprocessing)
    with raised_as(RecipeError, f"model.backbone={model.backbone}", on=OptionError):
        clip = load_clip(model.backbone, str(model.pretrained), "cpu", image_size=preprocessing.size)
    tower = model.model_copy(update={"pretrained": False})  # which is there already
    network = Embedder(tower, **options, factory=lambda: clip.visual)
    return LoadedNetwork(network.eval(), preprocessing, TextTower(clip, model.backbone))
