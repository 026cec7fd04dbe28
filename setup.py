"""What pyproject.toml cannot say: the packages as the folders have them, and a README whose links are absolute."""

import re
import sys
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
VERSION, REPOSITORY = (re.search(rf'^{key} = "(.*)"', PROJECT, re.M)[1] for key in ("version", "Repository"))
FOLDERS = {
    "hiertree": "hiertree",
    "hiertree.metrics": "metrics",
    "hiertree.losses": "losses",
    "hiertree.pipelines": "pipelines",
}


def absolute(link: re.Match) -> str:
    """A picture as a raw file, another file as its page, both of this version."""
    kind = "raw" if link["picture"] else "blob"
    return f"{link['picture']}[{link['text']}]({REPOSITORY}/{kind}/v{VERSION}/{link['file']})"


if "editable_wheel" in sys.argv:  # the checkout joins sys.path, and hiertree/__init__.py finds the other folders
    layout = {"packages": find_packages(include=["hiertree", "hiertree.*"]), "package_dir": {"": "."}}
else:
    packages = [
        name
        for package, folder in FOLDERS.items()
        for name in (package, *(f"{package}.{inner}" for inner in find_packages(str(ROOT / folder))))
    ]
    layout = {"packages": packages, "package_dir": FOLDERS}

setup(
    **layout,
    long_description=re.sub(
        r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?!https?:|#)(?P<file>[^)]+)\)",
        absolute,
        (ROOT / "README.md").read_text(encoding="utf-8"),
    ),
    long_description_content_type="text/markdown",
)
