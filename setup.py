"""The README as PyPI shows it: links into the repository become absolute. All else stands in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
VERSION, REPOSITORY = (re.search(rf'^{key} = "(.*)"', PROJECT, re.M)[1] for key in ("version", "Repository"))


def absolute(link: re.Match) -> str:
    """A picture as a raw file, another file as its page, both of this version."""
    kind = "raw" if link["picture"] else "blob"
    return f"{link['picture']}[{link['text']}]({REPOSITORY}/{kind}/v{VERSION}/{link['file']})"


setup(
    long_description=re.sub(
        r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?!https?:|#)(?P<file>[^)]+)\)",
        absolute,
        (ROOT / "README.md").read_text(encoding="utf-8"),
    ),
    long_description_content_type="text/markdown",
)
