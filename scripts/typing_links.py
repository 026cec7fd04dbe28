"""Lay the four source folders out as the one package they install as, for tools that read sources without installing.

``python scripts/typing_links.py [FOLDER]`` makes FOLDER/hiertree; for type checkers, build/typing/hiertree.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lay_out(folder: Path) -> None:
    """Make links to the sources below a folder, in place of earlier ones."""
    package = folder / "hiertree"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for entry in (ROOT / "hiertree").iterdir():
        (package / entry.name).symlink_to(entry)
    for name in ("metrics", "losses", "pipelines"):
        (package / name).symlink_to(ROOT / name)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "typing")
