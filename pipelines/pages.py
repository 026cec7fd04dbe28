"""HTML pages that are one file: a package's ``page.html`` filled in, its style and its pictures inside."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files as resources
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup
    from PIL import Image

LARGEST_SIDE = 160  # pixels of a picture inside a page


def fill_page(package: str, values: Mapping[str, Any], *, style_of: str | None = None) -> str:
    """Fill in the template of a package; every value that is not Markup is escaped.

    Args:
        package: its full name; it holds ``page.html``.
        values: what the template names, except ``css``.
        style_of: the package whose ``page.css`` is used; None: its own.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    template = resources(package).joinpath("page.html").read_text(encoding="utf-8")
    css = resources(style_of or package).joinpath("page.css").read_text(encoding="utf-8").rstrip()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["breakable"] = breakable
    return environment.from_string(template).render(values, css=Markup(css)) + "\n"  # noqa: S704  (our own file)


def inline_script(package: str) -> dict[str, Any]:
    """The ``script`` of a package, its ``page.js``, and the ``digest`` by which a page's policy lets it alone run.

    Args:
        package: its full name.
    """
    from markupsafe import Markup

    script = f"\n{resources(package).joinpath('page.js').read_text(encoding='utf-8').strip()}\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return {"script": Markup(script), "digest": digest}  # noqa: S704  (our own file)


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
