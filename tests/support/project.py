"""Where the project's own files are, for tests that read them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = {
    "hiertree": "hiertree",
    "metrics": "hiertree.metrics",
    "losses": "hiertree.losses",
    "pipelines": "hiertree.pipelines",
}


def project_table() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def source_packages() -> list[str]:
    """Every folder of source, by the name that it is imported by."""
    return sorted(
        ".".join((package, *marker.parent.relative_to(ROOT / folder).parts))
        for folder, package in SOURCE_FOLDERS.items()
        for marker in (ROOT / folder).rglob("__init__.py")
    )
