"""Where a file came from: a manifest beside it, enough to make it again."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import hiertree

from ..errors import hide_credentials
from .files import write_json

MANIFEST = "manifest.json"  # of a folder
_RECORDED_PACKAGES = (
    "numpy",
    "torch",
    "pandas",
    "scikit-learn",
    "faiss-cpu",
    "open_clip_torch",
    "timm",
    "lightning-fabric",
)


def sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def manifest(
    *,
    command: str,
    parameters: Mapping[str, Any],
    inputs: Iterable[str | os.PathLike[str]] = (),
    outputs: Iterable[str | os.PathLike[str]] = (),
    seed: int | None = None,
) -> dict[str, Any]:
    """What made some files: command, parameters, seed, hashes of the files read and written, versions, time.

    Args:
        command: the command or function, as a user would type it.
        parameters: JSON-able settings, of which passwords in URLs are left out.
        inputs: files read, recorded by name, size and SHA-256.
        outputs: files written, recorded likewise.
        seed: of the run.

    >>> manifest(command="example", parameters={"k": 3}, seed=0)["parameters"]
    {'k': 3}
    """
    return {
        "command": hide_credentials(command),
        "parameters": _without_credentials(dict(parameters)),
        "seed": seed,
        "inputs": [describe_file(path) for path in inputs],
        "outputs": [describe_file(path) for path in outputs],
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "hiertree": hiertree.__version__,
        "source_revision": _source_revision(),
        "python": platform.python_version(),
        "packages": {name: found for name in _RECORDED_PACKAGES if (found := _version(name))},
    }


def manifest_beside(path: str | os.PathLike[str]) -> Path:
    """The file that holds the manifest of a single output: ``table.csv.manifest.json`` of ``table.csv``."""
    return Path(path).with_name(f"{Path(path).name}.{MANIFEST}")


def write_manifest_beside(path: str | os.PathLike[str], made: Mapping[str, Any]) -> None:
    """Write what :func:`manifest` returned beside a single output, which it then lists with its hash."""
    write_json(manifest_beside(path), {**made, "outputs": [describe_file(path)]})


def describe_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Name, size in bytes and SHA-256 of a file, as a manifest lists it."""
    return {"name": Path(path).name, "bytes": Path(path).stat().st_size, "sha256": sha256(path)}


def _without_credentials(value: Any) -> Any:
    if isinstance(value, str):
        return hide_credentials(value)
    if isinstance(value, Mapping):
        return {key: _without_credentials(entry) for key, entry in value.items()}
    return [_without_credentials(entry) for entry in value] if isinstance(value, list | tuple) else value


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _source_revision() -> str | None:
    """The git commit of a development checkout, or None for an installed package."""
    import subprocess  # loaded here, as is importlib.metadata: commands shall start fast

    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
