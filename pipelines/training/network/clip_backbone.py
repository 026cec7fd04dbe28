"""Image towers of open_clip as backbones: ``open_clip:ViT-B-32``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from hiertree.errors import OptionError, RecipeError, require_package

from ...clip_model import load_clip

if TYPE_CHECKING:
    from ..recipe.settings import ModelSettings

PREFIX = "open_clip:"


def build_clip_tower(model: ModelSettings, *, channels: int, size: int | None, load_weights: bool) -> nn.Module:
    """Build the image tower of a CLIP model, without its text tower, for images of a size.

    ``model.pretrained`` is one of open_clip's names for weights of that model, a file of the whole model, or false.
    Position embeddings of the weights are interpolated where the size is not theirs.

    Raises:
        RecipeError: no such model, no such weights, or a size that it cannot have.
        MissingResourceError: named weights are neither here nor within reach.
    """
    require_package("open_clip", extra="clip")
    import open_clip

    name = model.backbone.removeprefix(PREFIX)
    if model.pretrained is True:
        tags = ", ".join(open_clip.list_pretrained_tags_by_model(name))
        raise RecipeError(
            f"model.pretrained=true with {model.backbone}",
            expected=f"the name of its weights{f', one of {tags}' if tags else ''}, or a file",
        )
    if channels != 3 or model.backbone_options:
        wrong = f"images.channels={channels}" if channels != 3 else f"model.backbone_options={model.backbone_options}"
        raise RecipeError(f"{wrong} with {model.backbone}", expected="images.channels=3 and no options")
    weights = model.pretrained or None if load_weights else None
    try:
        tower: nn.Module = load_clip(name, weights, "cpu", image_size=size).visual
    except OptionError as error:
        raise RecipeError(f"model.backbone={model.backbone}: {error}") from error
    return tower.train()


def clip_statistics(model: ModelSettings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation by which named weights normalize pixels in [0, 1]; else OpenAI's."""
    require_package("open_clip", extra="clip")
    import open_clip

    tag = model.pretrained if isinstance(model.pretrained, str) else ""
    known = open_clip.get_pretrained_cfg(model.backbone.removeprefix(PREFIX), tag)
    mean, std = known.get("mean", open_clip.OPENAI_DATASET_MEAN), known.get("std", open_clip.OPENAI_DATASET_STD)
    return tuple(mean), tuple(std)
