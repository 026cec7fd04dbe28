"""Small pictures for local pages, made when they are asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from hiertree.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

THUMBNAIL = 224  # pixels
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")


def thumbnail(path: Path, *, side: int = THUMBNAIL, crop: bool = True) -> bytes | None:
    """A small JPEG of an image file, or None where it is missing or does not decode; cropped, it is square."""
    from PIL import Image

    from hiertree.datasets.readers.images import eight_bit

    try:
        with Image.open(path, formats=FORMATS) as image:
            image.draft("RGB", (side, side))
            return shrink(eight_bit(image, name=path.name), side=side, crop=crop)
    except (ImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def shrink(image: Image.Image, *, side: int = THUMBNAIL, crop: bool = True) -> bytes:
    """A small JPEG of an image."""
    from PIL import ImageOps

    picture = image.convert("RGB")
    small = ImageOps.fit(picture, (side, side)) if crop else ImageOps.contain(picture, (side, side))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def image_response(content: bytes | None) -> Response:
    """A JPEG that the browser keeps for an hour; 404 where there is none."""
    if content is None:
        raise HTTPException(404, "no image")
    return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})
