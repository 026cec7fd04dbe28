"""``timm:NAME``, ``open_clip:NAME/WEIGHTS``, ``transformers:NAME``: networks with their own size, mean and pooling.

``NAME`` of transformers is ``OWNER/NAME`` of the hub or a folder.
``WEIGHTS`` are a name that open_clip knows, or a file; ``timm:NAME`` takes a file too, ``timm:resnet50/resnet50.pth``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import torch

from hiertree.errors import RecipeError, require_package

from ..recipe.reading import load_recipe
from ..recipe.schema import Recipe
from ..recipe.settings import ModelSettings
from .backbones import image_view
from .embedder import Embedder
from .pretrained_backbones import CLIP, HUB
from .transformers_networks import TRANSFORMERS

TIMM = "timm:"
_MOST_WORKERS = 8  # processes that decode


def is_pretrained(name: str) -> bool:
    """Whether a name is that of a pretrained network of a library, not of a run or a recipe."""
    return name.startswith((TIMM, CLIP, TRANSFORMERS))


def pretrained_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe by which a pretrained network embeds: the features that it pools itself, without a projection.

    Images are prepared as the library does for these weights: size, interpolation, crop or border, mean and deviation.
    The crop follows ``images.size``.
    """
    backbone, pretrained = _backbone_and_weights(name)
    view = image_view(ModelSettings(backbone=backbone, pretrained=pretrained))
    height, width = (view.size, view.size) if isinstance(view.size, int) else view.size
    if height != width:
        raise RecipeError(f"{name}, for images of {height} × {width} pixels", expected="a network for square images")
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    pooled = {"pooling": "backbone", "layer_norm": False, "embedding_size": None}
    settings: dict[str, Any] = {
        "name": name,
        "data": {"name": "folder", "root": "."},
        "images": {"cache": False, "workers": workers, "size": height, "interpolation": view.interpolation},
        "model": {**pooled, "backbone": backbone, "pretrained": pretrained},
        "sampler": {"name": "ClassBalancedSampler", "batch_size": 2, "images_per_class": 2},
        "loss": {"name": "SupHAP"},
        "training": {"epochs": 1},
        "evaluation": {"batch_size": 64},
    }
    side = math.floor(load_recipe(settings, overrides).images.size / view.crop)
    settings["images"] |= {"resize": [side, side] if view.squeezes else side, "border": view.border}
    return load_recipe(settings, overrides)


def untrained_network(recipe: Recipe) -> Embedder:
    """A recipe's network before training: pretrained weights, if named, and a projection that the seed draws."""
    images, is_new = recipe.images, recipe.training.start_from is None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return Embedder(recipe.model, channels=images.channels, size=images.size, load_weights=is_new)


def _backbone_and_weights(name: str) -> tuple[str, str | bool]:
    """``model.backbone`` and ``model.pretrained`` of a name."""
    if name.startswith(TRANSFORMERS):
        return name, True
    if name.startswith(CLIP):
        require_package("open_clip", extra="clip")
        import open_clip

        backbone, _, weights = name.partition("/")
        tags = open_clip.list_pretrained_tags_by_model(backbone.removeprefix(CLIP))
        return backbone, weights or (tags[0] if len(tags) == 1 else True)
    backbone, file = name.removeprefix(TIMM), ""
    if not backbone.startswith(HUB):
        backbone, _, file = backbone.partition("/")
    return backbone, file or True
