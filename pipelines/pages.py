"""HTML pages that are one file: a package's ``page.html`` filled in, with its script and pictures, in one style."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files as resources
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup
    from PIL import Image

LARGEST_SIDE = 160  # pixels of a picture inside a page


def fill_page(package: str, values: Mapping[str, Any], *, scripted: bool = False) -> str:
    """Fill in the template of a package inside the frame of all pages; every value that is not Markup is escaped.

    Args:
        package: its full name; it holds ``page.html``.
        values: what the template names, ``title`` among them.
        scripted: whether the page runs the ``page.js`` of the package; its policy lets no other script run.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    loader = FunctionLoader(partial(_text, __package__))
    environment = Environment(
        autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = breakable
    script = f"\n{_text(package, 'page.js')}\n" if scripted else ""
    frame = {
        "css": Markup(_text(__package__, "page.css")),  # noqa: S704  (our own files)
        "script": Markup(script),  # noqa: S704
        "digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    }
    return environment.from_string(_text(package, "page.html")).render(values, **frame) + "\n"


def _text(package: str, name: str) -> str:
    return resources(package).joinpath(name).read_text(encoding="utf-8").strip()


def breakable(text: object) -> Markup:
    """A text whose lines may break after / and _, not inside words.

    >>> breakable("chair/a_<b>")
    Markup('chair/<wbr>a_<wbr>&lt;b&gt;')
    """
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/_])", r"\1<wbr>", str(escape(text))))  # noqa: S704  (escaped before)


def data_uri(image: Image.Image, *, largest_side: int = LARGEST_SIDE) -> str:
    """A picture as a data URI, at most 160 pixels a side unless another size is given.

    Pictures that are already that small are kept exactly, as PNG; larger ones are reduced and become JPEG.

    >>> from PIL import Image
    >>> data_uri(Image.new("L", (2, 2))).partition(",")[0]
    'data:image/png;base64'
    """
    from PIL.Image import Resampling

    small = max(image.size) <= largest_side
    picture = image.convert("RGB") if image.mode not in ("L", "RGB") else image.copy()
    if not small:
        picture.thumbnail((largest_side, largest_side), Resampling.LANCZOS)
    buffer = BytesIO()
    picture.save(buffer, format="PNG" if small else "JPEG", optimize=True, quality=85)
    return f"data:image/{'png' if small else 'jpeg'};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
