"""Augmentation by torchvision's or the user's transforms, one image at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.random import mtrand
from torch import Tensor
from torchvision.transforms.v2 import functional

from hiertree.errors import RecipeError

from ..distributed.processes import seed_torch
from ..recipe.components import Component


class SeededTransforms:
    """Transforms, one after the other, whose randomness depends on the numbers that each image is given."""

    def __init__(self, components: Sequence[Component], *, size: int) -> None:
        self._transforms = [component.build() for component in components]
        self._size = size

    def __call__(self, image: Tensor, *numbers: int) -> Tensor:
        """(C, H, W) uint8 → (C, S, S) uint8."""
        output: Any = image
        with _drawing_from(*numbers):
            for transform in self._transforms:
                output = transform(output)
        try:
            pixels: Tensor = functional.to_image(output).as_subclass(Tensor)
        except TypeError as error:
            raise _unusable(f"a {type(output).__name__}") from error
        shape = (len(image), self._size, self._size)
        if pixels.shape != shape:
            end = f"end with {{name: Resize, size: [{self._size}, {self._size}]}}"
            raise _unusable(f"an image of shape {tuple(pixels.shape)}", f"{shape}", remedy=end)
        if pixels.is_floating_point() and bool(((pixels >= 0) & (pixels <= 1)).all()):
            pixels = functional.to_dtype(pixels, torch.uint8, scale=True)
        if pixels.dtype != torch.uint8:
            pixel_range = f"{pixels.dtype} from {pixels.min():.3g} to {pixels.max():.3g}"
            raise _unusable(pixel_range, "8 bits, or floats in [0, 1]; model.mean and .std normalize them")
        return pixels

    def check(self, image: Tensor) -> None:
        """Try the transforms on one image, before anything is learned or written."""
        try:
            self(image, 0)
        except RecipeError:
            raise
        except Exception as error:  # whatever transforms raise
            raise _unusable(f"{type(error).__name__}: {error}", "transforms that take this image") from error


def _unusable(result: str, expected: str = "an image", *, remedy: str | None = None) -> RecipeError:
    return RecipeError(f"images.augmentation makes {result}", expected=expected, remedy=remedy)


@contextmanager
def _drawing_from(*numbers: int) -> Iterator[None]:
    """A block in which torch, numpy and Python draw from the given seeds; their states are restored afterwards."""
    of_python, of_numpy = random.getstate(), mtrand.get_bit_generator()
    seed = np.random.SeedSequence(numbers)
    with torch.random.fork_rng(devices=[]):
        try:
            seed_torch(*numbers)
            random.seed(int(seed.generate_state(1)[0]))
            mtrand.set_bit_generator(np.random.MT19937(seed))
            yield
        finally:
            random.setstate(of_python)
            mtrand.set_bit_generator(of_numpy)
