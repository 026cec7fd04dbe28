"""Print docs/licenses.csv: the license of every package that pyproject.toml names, as its metadata here states it."""

from __future__ import annotations

import csv
import re
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print the table."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"": table["dependencies"], **table["optional-dependencies"]}
    needed: dict[str, list[str]] = {}
    for extra, lines in extras.items():
        for line in lines if extra not in ("all", "dev") else ():
            needed.setdefault(Requirement(line).name.lower(), []).append(extra or "core")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("package", "license", "needed by"))
    writer.writerows((name, _license(name), ", ".join(parts)) for name, parts in sorted(needed.items()))


def _license(name: str) -> str:
    """The SPDX expression of a package, or the first line that states its license."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        raise SystemExit(f"{name} is not installed: pip install -e '.[all]'") from None
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License")]
    stated = (about.get("License") or "").strip().splitlines()
    short = stated[:1] if stated and len(stated[0]) <= 60 else []
    found = [about.get("License-Expression") or ""], classifiers, short
    return re.sub(r"\s+", " ", next((", ".join(lines) for lines in found if any(lines)), "see its files"))


if __name__ == "__main__":
    main()
