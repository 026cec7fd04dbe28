"""What training does to images, as pure functions of uniform random numbers.

The numbers of a batch depend on (seed, epoch, batch) alone: no process holds the state of a generator, so any number of
workers produces the same images, and a resumed run produces those that an uninterrupted one would have.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample
from torchvision.transforms.v2 import functional

from ..recipe.settings import GlyphAugmentation, PhotoAugmentation

NUMBERS = 5  # per image; no augmentation needs more


def batch_numbers(count: int, *, seed: int, epoch: int, batch: int) -> NDArray[np.float32]:
    """Draw (count, 5) uniform numbers in [0, 1) that depend on the arguments alone.

    >>> bool((batch_numbers(2, seed=0, epoch=1, batch=7) == batch_numbers(2, seed=0, epoch=1, batch=7)).all())
    True
    """
    return np.random.default_rng([seed, epoch, batch]).random((count, NUMBERS), dtype=np.float32)


def move_glyphs(images: Tensor, numbers: NDArray[np.float32], settings: GlyphAugmentation) -> Tensor:
    """Rotate, scale, shear and shift every image of a batch a little.

    Args:
        images: (B, C, S, S) uint8.
        numbers: (B, 5) in [0, 1); 0.5 everywhere leaves an image as it is.
        settings: the range of each change.

    Returns:
        (B, C, S, S) uint8; the border is repeated outward.
    """
    angle, scale, shear, right, down = torch.from_numpy(2 * numbers - 1).unbind(1)
    angle = angle * math.radians(settings.degrees)
    scale = 1 + scale * settings.scale
    cosine, sine, shear = torch.cos(angle) / scale, torch.sin(angle) / scale, shear * settings.shear
    rows = [
        torch.stack([cosine, shear * cosine - sine, 2 * settings.shift * right], dim=1),
        torch.stack([sine, shear * sine + cosine, 2 * settings.shift * down], dim=1),
    ]
    grid = affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    moved = grid_sample(images.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
    return moved.round().to(torch.uint8)


def crop_photo(image: Tensor, numbers: NDArray[np.float32], settings: PhotoAugmentation, *, size: int) -> Tensor:
    """Crop a random part of one image, resize it to a square and perhaps mirror it.

    Args:
        image: (C, H, W) uint8.
        numbers: five numbers in [0, 1).
        settings: the smallest area and widest aspect of the part.
        size: height and width of the result.

    Returns:
        (C, size, size) uint8.
    """
    height, width = image.shape[-2:]
    area = height * width * (settings.smallest_area + numbers[0] * (1 - settings.smallest_area))
    aspect = settings.widest_aspect ** (2 * numbers[1] - 1)
    crop_height = max(1, min(height, round(math.sqrt(area / aspect))))
    crop_width = max(1, min(width, round(math.sqrt(area * aspect))))
    top, left = int(numbers[2] * (height - crop_height + 1)), int(numbers[3] * (width - crop_width + 1))
    part: Tensor = functional.resized_crop(image, top, left, crop_height, crop_width, [size, size], antialias=True)
    if settings.flip and numbers[4] < 0.5:
        part = functional.horizontal_flip(part)
    return part
