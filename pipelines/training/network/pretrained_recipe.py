"""``timm:NAME`` and ``open_clip:NAME/WEIGHTS``: pretrained networks with their own size, normalization and pooling.

``WEIGHTS`` are a name that open_clip knows, or a file; ``timm:NAME`` takes a file too, ``timm:resnet50/resnet50.pth``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from hiertree.errors import require_package

from ..recipe.reading import load_recipe
from ..recipe.schema import Recipe
from .embedder import Embedder
from .pretrained_backbones import CLIP, HUB, find_timm_model

TIMM = "timm:"
_MOST_WORKERS = 8  # processes that decode


def is_pretrained(name: str) -> bool:
    """Whether a name is that of a pretrained network of a library, not of a run or a recipe."""
    return name.startswith((TIMM, CLIP))


def pretrained_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe by which a pretrained network embeds: the features that it pools itself, without a projection.

    Of a ``timm:NAME``, the size, the crop, mean and deviation that its weights were tested with; of an
    ``open_clip:NAME/WEIGHTS``, those of these weights. The crop follows ``images.size``.
    """
    size, crop, model = _of_timm(name) if name.startswith(TIMM) else _of_clip(name)
    view: dict[str, Any] = {"size": size, "cache": False, "workers": min(_MOST_WORKERS, os.cpu_count() or 1)}
    settings = {
        "name": name,
        "data": {"name": "folder", "root": "."},
        "images": view,
        "model": {"pooling": "backbone", "layer_norm": False, "embedding_size": None, **model},
        "sampler": {"name": "ClassBalancedSampler", "batch_size": 2, "images_per_class": 2},
        "loss": {"name": "SupHAP"},
        "training": {"epochs": 1},
        "evaluation": {"batch_size": 64},
    }
    if crop is not None:
        view["resize"] = int(load_recipe(settings, overrides).images.size / crop)
    return load_recipe(settings, overrides)


def untrained_network(recipe: Recipe) -> Embedder:
    """A recipe's network before training: pretrained weights, if named, and a projection that the seed draws."""
    images, is_new = recipe.images, recipe.training.start_from is None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return Embedder(recipe.model, channels=images.channels, size=images.size, load_weights=is_new)


def _of_timm(name: str) -> tuple[int, float | None, dict[str, Any]]:
    backbone, file = name.removeprefix(TIMM), ""
    if not backbone.startswith(HUB):
        backbone, _, file = backbone.partition("/")
    found = find_timm_model(backbone)
    return found.size, found.crop, {"backbone": backbone, "pretrained": file or True}


def _of_clip(name: str) -> tuple[int, float | None, dict[str, Any]]:
    require_package("open_clip", extra="clip")
    import open_clip

    backbone, _, weights = name.partition("/")
    model = backbone.removeprefix(CLIP)
    config = open_clip.get_model_config(model) or {}
    size = config.get("vision_cfg", {}).get("image_size", 224)
    tags = open_clip.list_pretrained_tags_by_model(model)
    named = weights or (tags[0] if len(tags) == 1 else "")
    squeezes = open_clip.get_pretrained_cfg(model, named).get("resize_mode", "shortest") != "shortest"
    side = size if isinstance(size, int) else size[0]
    return side, None if squeezes else 1.0, {"backbone": backbone, "pretrained": named or True}
