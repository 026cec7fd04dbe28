"""How docstrings read on the site: examples become code blocks, and Sphinx's roles become links."""

from __future__ import annotations

import re
from typing import Any

import griffe
from site_examples import blocks_of

_EXAMPLE = re.compile(r"^(?:>>> .*\n?(?:[^\n]+\n?)*\n*)+", flags=re.MULTILINE)
_ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`~?([\w.]+)`")


class SiteDocstrings(griffe.Extension):
    """Rewrite docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples and resolve the roles of one object's docstring."""
        if obj.docstring:
            fenced = _EXAMPLE.sub(lambda found: "\n\n".join(blocks_of(found[0])) + "\n\n", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(r"`\1`", fenced)
