"""Images inside the page: small pictures written into the HTML as data URIs."""

from __future__ import annotations

import base64
from io import BytesIO

from PIL import Image

LARGEST_SIDE = 160


def data_uri(image: Image.Image) -> str:
    """A picture as a data URI, at most 160 pixels a side.

    Pictures that small already are kept exactly, as PNG; larger ones are reduced and become JPEG.

    >>> data_uri(Image.new("L", (2, 2))).partition(",")[0]
    'data:image/png;base64'
    """
    small = max(image.size) <= LARGEST_SIDE
    picture = image.convert("RGB") if image.mode not in ("L", "RGB") else image.copy()
    if not small:
        picture.thumbnail((LARGEST_SIDE, LARGEST_SIDE), Image.Resampling.LANCZOS)
    buffer = BytesIO()
    picture.save(buffer, format="PNG" if small else "JPEG", optimize=True, quality=85)
    return f"data:image/{'png' if small else 'jpeg'};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
