"""Self-contained HTML pages: a package's ``page.html`` filled in, with its script, pictures and drawings.

matplotlib draws with placeholder colors, which become CSS: ``currentColor`` for ink, ``var(--run-1)`` … for the runs.
The same numbers give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files as resources
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure
    from PIL import Image

LARGEST_SIDE = 160  # pixels of a picture inside a page
COLORS = 6  # of runs, in the page's style
INK = "#010203"
STYLE: Any = {  # matplotlib types its keys one by one, and each release has others
    "svg.fonttype": "none",
    "svg.hashsalt": "hiertree",
    "text.usetex": False,
    "text.parse_math": False,
    "font.size": 11,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
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
    """A picture as a data URI: PNG where it is no larger than that already, or else reduced and JPEG.

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


def run_color(color: int) -> str:
    """The color of a run by its number, from 0."""
    return f"#0000{color % COLORS + 16:02x}"


def inline_svg(figure: Figure, *, name: str) -> str:
    """The ``<svg>`` element of a figure that was drawn with :data:`STYLE` and :func:`run_color`, in the page's colors.

    Its ids are made of the name, so that no other figure of the page has them.
    """
    prefix, text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"), StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"<[^>]*>", lambda tag: _adapt_tag(tag[0], prefix), svg)  # labels, which stand between tags, stay
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"([^>]*?) width="[^"]*"', r"<svg\1\2", svg, count=1)
    return svg.replace("<svg", '<svg aria-hidden="true"', 1).strip()


def _adapt_tag(tag: str, prefix: str) -> str:
    """A tag of a drawing with the page's colors, and ids of its own."""
    colored = re.sub(r"#0000([0-9a-f]{2})\b", lambda found: f"var(--run-{int(found[1], 16) - 15})", tag)
    markup = re.sub(r'\bid="', f'id="{prefix}-', colored.replace(INK, "currentColor"))
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", markup)


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
