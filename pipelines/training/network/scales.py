"""Multi-scale embeddings, as are usual for landmarks: one embedding from several sizes of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from hiertree.errors import RecipeError

from .embedder import Embedder


def embed_at_scales(network: Callable[[Tensor], Tensor], images: Tensor, scales: Sequence[float]) -> Tensor:
    r"""Average the embeddings of each scale and scale the mean to unit length.

    .. math:: e(x) = \frac{\sum_s f(x_s)}{\lVert \sum_s f(x_s) \rVert}

    Radenović et al. (TPAMI 2018) take this mean after a learned projection, whose outputs have signs, and a power mean
    where no projection follows the pooling.

    Args:
        network: (B, C, H, W) images → (B, d) vectors of unit length.
        images: (B, C, H, W) pixels in 0 … 255, resized with antialiased bilinear interpolation.
        scales: of height and width; ``[1.0]`` gives the network's own embeddings.

    Returns:
        (B, d) of unit norm.

    >>> colors = lambda images: normalize(images.float().mean(dim=(2, 3)), dim=1)
    >>> images = torch.tensor([60.0, 80.0]).view(1, 2, 1, 1).expand(1, 2, 8, 8)
    >>> [round(value, 4) for value in embed_at_scales(colors, images, [0.5, 1.0, 1.5])[0].tolist()]
    [0.6, 0.8]
    """
    if all(scale == 1 for scale in scales):
        return network(images)
    return normalize(torch.stack([network(_resized(images, scale)) for scale in scales]).sum(dim=0), dim=1)


def require_sizes(embedder: Embedder, size: int, scales: Sequence[float]) -> None:
    """Check that the backbone takes images of a size, and at each scale of it.

    Raises:
        RecipeError: it takes another size only, as most transformers do.
    """
    settings = embedder.settings
    for module in embedder.backbone.modules():
        if getattr(module, "strict_img_size", False):
            expected = tuple(cast("tuple[int, int]", module.img_size))
            if expected != (size, size):
                raise RecipeError(
                    f"images.size={size} with {settings.backbone}",
                    expected=f"its own size, {expected[0]}",
                    remedy=f"set images.size={expected[0]}, or choose a convolutional backbone",
                )
            if any(scale != 1 for scale in scales):
                raise RecipeError(
                    f"evaluation.scales={list(scales)} with {settings.backbone}, which takes images of one size",
                    expected="evaluation.scales=[1.0], or a convolutional backbone",
                )


def _resized(images: Tensor, scale: float) -> Tensor:
    if scale == 1:
        return images
    size = [max(1, round(scale * side)) for side in images.shape[-2:]]
    return interpolate(images.float(), size=size, mode="bilinear", antialias=True)
