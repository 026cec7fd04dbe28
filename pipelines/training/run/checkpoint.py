"""Checkpoints: a folder each, named by its step, holding ``tensors.safetensors`` and ``state.json``.

A folder appears whole under its final name and is never written again; older ones go only when a newer one is there.
So whenever a run is killed, the newest folder is whole. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from hiertree.errors import CheckpointError
from hiertree.io import files
from hiertree.io.provenance import sha256

FORMAT = "hiertree checkpoint 1"
_TENSORS, _STATE = "tensors.safetensors", "state.json"


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any], *, step: int, fingerprint: str
) -> Path:
    """Write one checkpoint below ``folder``.

    Args:
        folder: where the run keeps its checkpoints.
        tensors: every tensor, by name.
        state: everything else; JSON-able.
        step: training steps done; the checkpoint's name.
        fingerprint: of the recipe.

    Returns:
        The folder of the checkpoint.
    """
    from safetensors.torch import save_file

    path = folder / f"step-{step:08d}"
    with files.replacing_folder(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary / _TENSORS)
        header = {"format": FORMAT, "recipe": fingerprint, "sha256": sha256(temporary / _TENSORS)}
        files.write_json(temporary / _STATE, header | {"state": dict(state)})
    return path


def read_checkpoint(path: Path, *, fingerprint: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of one checkpoint.

    Args:
        path: the folder of the checkpoint.
        fingerprint: of the recipe that wants to go on from it.

    Raises:
        CheckpointError: a file is missing or damaged, or the checkpoint belongs to another recipe.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    remedy = "remove this folder to go on from an older checkpoint, or start afresh (--fresh)"
    try:
        content = json.loads((path / _STATE).read_text(encoding="utf-8"))
        kind, recipe, digest, state = (content[key] for key in ("format", "recipe", "sha256", "state"))
        damaged = sha256(path / _TENSORS) != digest
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} ({error!r})", expected="a whole checkpoint", remedy=remedy) from error
    if kind != FORMAT or damaged:
        problem = f"of the format {kind!r}" if kind != FORMAT else f"whose {_TENSORS} is damaged"
        raise CheckpointError(f"{path}, {problem}", expected=f"a whole checkpoint ({FORMAT})", remedy=remedy)
    if recipe != fingerprint:
        raise CheckpointError(f"{path}, of another recipe", expected="a checkpoint of this recipe", remedy=remedy)
    try:
        return load_file(path / _TENSORS), state
    except SafetensorError as error:
        raise CheckpointError(f"{path} ({error})", expected="a whole checkpoint", remedy=remedy) from error


def checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints below a folder, by step, oldest first; what a killed process left half-written is not one."""
    found = {int(path.name[5:]): path for path in folder.glob("step-*") if path.name[5:].isdigit()}
    return dict(sorted(found.items()))


def remove_checkpoints(folder: Path, *, keep: set[int]) -> None:
    """Remove all checkpoints but some, and what killed processes left half-written."""
    for step, path in checkpoints(folder).items():
        if step not in keep:
            shutil.rmtree(path)
    for path in folder.glob(".step-*"):
        shutil.rmtree(path)
