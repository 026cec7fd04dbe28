"""Images in files, cropped to boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...errors import ImageError
from .images import FileImages, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image


class BoxedImages(FileImages):
    """Images in files, cropped to boxes (left, upper, right, lower) as far as they lie inside."""

    def __init__(self, files: FileImages, boxes: NDArray[np.float64]) -> None:
        super().__init__(files.root, map(files.name, range(len(files))))
        self.boxes = boxes

    def __getitem__(self, index: int) -> Image:
        with reading():  # not reduced, as boxes count pixels of the whole image
            image = super().__getitem__(index)
        left, upper, right, lower = (
            np.clip(self.boxes[index], 0, [*image.size, *image.size]).round().astype(int).tolist()
        )
        if left >= right or upper >= lower:
            problem = (
                f"image {self.name(index)!r} of {image.width} × {image.height} pixels, box {self.boxes[index].tolist()}"
            )
            raise ImageError(problem, expected="a box inside the image")
        return image.crop((left, upper, right, lower))
