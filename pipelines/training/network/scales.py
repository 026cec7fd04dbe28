"""Multi-scale embeddings, as are usual for landmarks: one embedding from several sizes of an image."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
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
    """Check that the backbone takes images of a size, and at each scale of it, by embedding one of each.

    Convolutional networks of timm, whose maps are pooled here, take any size.

    Raises:
        RecipeError: it does not, as transformers that take one size only.
    """
    settings, was_training = embedder.settings, embedder.training
    known = getattr(getattr(embedder.backbone, "network", None), "pretrained_cfg", None)
    if settings.pooling != "backbone" and known and not known["fixed_input_size"]:
        return
    image = torch.zeros(1, embedder.channels, size, size, dtype=torch.uint8)
    embedder.eval()
    try:
        for scale in sorted({1.0, *scales}, key=lambda scale: scale != 1):
            with torch.inference_mode():
                embedder(_resized(image, scale))
    except (RuntimeError, AssertionError, ValueError) as error:
        if isinstance(error, RecipeError):
            raise
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        if scale != 1:
            given = f"evaluation.scales={list(scales)} with {settings.backbone}, which takes images of one size"
            raise RecipeError(
                f"{given} ({problem})", expected="evaluation.scales=[1.0], or another backbone"
            ) from error
        raise RecipeError(
            f"images.size={size} with {settings.backbone} ({problem})",
            expected="a size that the backbone takes",
            remedy="change images.size, or choose another backbone",
        ) from error
    finally:
        embedder.train(was_training)


def warn_of_cut_images(embedder: Embedder, size: int) -> None:
    """Say on standard error how much of the images a backbone leaves out that cuts them into patches of another size.

    Such are vision transformers, whose first convolution steps by its own width.
    """
    first = next((part for part in embedder.backbone.modules() if isinstance(part, nn.Conv2d)), None)
    if first is None or first.kernel_size != first.stride or first.padding != (0, 0):
        return
    patch = first.kernel_size[0]
    if left := size % patch:
        text = f"warning: images.size={size} with {embedder.settings.backbone}: its patches of {patch} pixels leave "
        text += f"out the last {left} rows and columns; {size - left} or {size - left + patch} would leave out none"
        print(text, file=sys.stderr)


def _resized(images: Tensor, scale: float) -> Tensor:
    if scale == 1:
        return images
    size = [max(1, round(scale * side)) for side in images.shape[-2:]]
    return interpolate(images.float(), size=size, mode="bilinear", antialias=True)
