"""Lay the four source folders out as the one package they install as, for type checkers: build/typing/hiertree."""

import shutil
from pathlib import Path

root = Path(__file__).resolve().parent.parent
package = root / "build" / "typing" / "hiertree"
shutil.rmtree(package, ignore_errors=True)
package.mkdir(parents=True)
for entry in (root / "hiertree").iterdir():
    (package / entry.name).symlink_to(entry)
for folder in ("metrics", "losses", "pipelines"):
    (package / folder).symlink_to(root / folder)
