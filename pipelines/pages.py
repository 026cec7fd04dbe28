"""Self-contained HTML pages: a package's ``page.html`` filled in, with its script, pictures and drawings.

matplotlib's drawings are images inside the page, whose style inverts their lightness in the dark. The same numbers give
the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import warnings
from collections.abc import Mapping
from functools import partial
from importlib.resources import files as resources
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure
    from PIL import Image

LARGEST_SIDE = 160  # pixels of a picture inside a page
_LARGEST_PNG = 2**14  # bytes; a photograph takes more
RUN_COLORS = ("#64748b", "#5747b8", "#0f766e", "#a3386c", "#8a5a14", "#2563a8")  # as page.css has them, in the light
STYLE: Any = {  # matplotlib types its keys one by one, and each release has others
    "svg.fonttype": "none",
    "svg.hashsalt": "hiertree",
    "text.usetex": False,
    "text.parse_math": False,
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titlepad": 10,
}


def fill_page(package: str, values: Mapping[str, Any], *, scripted: bool = False) -> str:
    """Fill in ``page.html`` of a package inside the frame of all pages; every value that is not Markup is escaped.

    If ``scripted``, the page runs ``page.js`` of the package; its policy lets no other script run.
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


def fill_card(package: str, values: Mapping[str, Any]) -> str:
    """Fill in ``card.md`` of a package."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701  (Markdown)
    environment.filters["code"] = markdown_code
    return environment.from_string(_text(package, "card.md")).render(values).rstrip() + "\n"


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
    """A picture as a data URI: PNG where it is no larger than that and of few bytes, or else reduced and JPEG.

    >>> from PIL import Image
    >>> data_uri(Image.new("L", (2, 2))).partition(",")[0]
    'data:image/png;base64'
    """
    from PIL.Image import Resampling

    picture = image.convert("RGB") if image.mode not in ("L", "RGB") else image.copy()
    kind, buffer = "png", BytesIO()
    if max(image.size) <= largest_side:
        picture.save(buffer, format="PNG", optimize=True)
    if not 0 < buffer.tell() <= _LARGEST_PNG:
        kind, buffer = "jpeg", BytesIO()
        picture.thumbnail((largest_side, largest_side), Resampling.LANCZOS)
        picture.save(buffer, format="JPEG", optimize=True, quality=85)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def figure_uri(figure: Figure) -> str:
    """A figure that was drawn with :data:`STYLE` as the data URI of an SVG, whose letters the browser draws."""
    drawing = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(drawing.getvalue()).decode('ascii')}"


def markdown_text(text: str) -> str:
    r"""A text that Markdown shows as it is.

    >>> markdown_text("sop_a <b>*x*|")
    'sop_a &lt;b&gt;\\*x\\*\\|'
    """
    signs = r"[\\`*|~]|\](?=[(\[:])|(?<![^\W_])_|_(?![^\W_])"
    return re.sub(signs, r"\\\g<0>", html.escape(" ".join(text.split()), quote=False))


def markdown_code(text: str) -> str:
    """A text as code in Markdown, whatever backticks it holds.

    >>> markdown_code("a.csv"), markdown_code("a`b")
    ('`a.csv`', '`` a`b ``')
    """
    runs = re.findall("`+", text)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    return f"{fence} {text} {fence}" if runs else f"{fence}{text}{fence}"
