"""``timm:NAME``, ``open_clip:NAME/WEIGHTS``, ``transformers:NAME``: networks with their own size, mean and pooling.

``NAME`` of transformers is ``OWNER/NAME`` of the hub or a folder.
``WEIGHTS`` are a name that open_clip knows, or a file; ``timm:NAME`` takes a file too, ``timm:resnet50/resnet50.pth``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from hiertree.errors import RecipeError, require_package

from ..recipe.reading import load_recipe
from ..recipe.schema import Recipe
from .embedder import Embedder
from .pretrained_backbones import CLIP, HUB, clip_view, find_timm_model
from .transformers_networks import TRANSFORMERS, transformers_view

TIMM = "timm:"
_MOST_WORKERS = 8  # processes that decode


def is_pretrained(name: str) -> bool:
    """Whether a name is that of a pretrained network of a library, not of a run or a recipe."""
    return name.startswith(tuple(_VIEWS))


def pretrained_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe by which a pretrained network embeds: the features that it pools itself, without a projection.

    Images are prepared as the library does for these weights: size, interpolation, crop or border, mean and deviation.
    The crop follows ``images.size``.
    """
    view, model = _VIEWS[name.partition(":")[0] + ":"](name)
    settings: dict[str, Any] = {
        "name": name,
        "data": {"name": "folder", "root": "."},
        "images": {"cache": False, "workers": min(_MOST_WORKERS, os.cpu_count() or 1), **view.settings},
        "model": {"pooling": "backbone", "layer_norm": False, "embedding_size": None, **model},
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


class _View(NamedTuple):
    """How a library prepares the images of a network."""

    settings: dict[str, Any]  # size and interpolation
    squeezes: bool  # the whole image to a square, before the central crop
    border: list[int] | None  # color that completes the square of the whole image
    crop: float = 1.0  # its size over the side before the central crop


def _read_timm(name: str) -> tuple[_View, dict[str, Any]]:
    backbone, file = name.removeprefix(TIMM), ""
    if not backbone.startswith(HUB):
        backbone, _, file = backbone.partition("/")
    config = find_timm_model(backbone).view
    settings = {"size": _square_side(name, config["input_size"][-2:]), "interpolation": config["interpolation"]}
    border = [round(255 * value) for value in config["mean"]] if config["crop_mode"] == "border" else None
    view = _View(settings, config["crop_mode"] == "squash", border, config["crop_pct"])
    return view, {"backbone": backbone, "pretrained": file or True}


def _read_clip(name: str) -> tuple[_View, dict[str, Any]]:
    require_package("open_clip", extra="clip")
    import open_clip

    backbone, _, weights = name.partition("/")
    model = backbone.removeprefix(CLIP)
    tags = open_clip.list_pretrained_tags_by_model(model)
    tag = weights or (tags[0] if len(tags) == 1 else "")
    config = clip_view(model, tag)
    interpolation = "bilinear" if config["interpolation"] == "bilinear" else "bicubic"  # also of "random"
    border = [config["fill_color"]] * 3 if config["resize_mode"] == "longest" else None
    settings = {"size": _square_side(name, config["size"]), "interpolation": interpolation}
    view = _View(settings, config["resize_mode"] == "squash", border)
    return view, {"backbone": backbone, "pretrained": tag or True}


def _read_transformers(name: str) -> tuple[_View, dict[str, Any]]:
    image_view = transformers_view(name)
    settings = {"size": image_view.size, "interpolation": image_view.interpolation}
    view = _View(settings, image_view.squeezes, None, image_view.size / image_view.side)
    return view, {"backbone": name, "pretrained": True}


def _square_side(name: str, size: int | Sequence[int]) -> int:
    height, width = (size, size) if isinstance(size, int) else size
    if height != width:
        raise RecipeError(f"{name}, for images of {height} × {width} pixels", expected="a network for square images")
    return height


_VIEWS = {TIMM: _read_timm, CLIP: _read_clip, TRANSFORMERS: _read_transformers}
