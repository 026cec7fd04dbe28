"""Checkpoints: one folder per step, with ``tensors.safetensors`` and ``state.json``.

A folder appears whole under its final name. Later only its state is replaced, whole, once the epoch that it saved has
been evaluated. Older folders are removed only after a newer one exists, so the newest is whole whenever a run is
killed. The one before it is kept in case a disk damages the newest. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from hiertree.errors import CheckpointError
from hiertree.io import files
from hiertree.io.provenance import sha256

FORMAT = "hiertree checkpoint 1"
_TENSORS, _STATE = "tensors.safetensors", "state.json"
_REMEDY = "remove this folder to go on from an older checkpoint, or start again (--fresh)"


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any], *, step: int, fingerprint: str
) -> Path:
    """Write one checkpoint below ``folder``.

    Args:
        folder: of all checkpoints of the run.
        tensors: by name.
        state: everything else; JSON-able.
        step: number of training steps done, which names the checkpoint.
        fingerprint: of the recipe.

    Returns:
        The folder of the checkpoint.
    """
    from safetensors.torch import save_file

    path = checkpoint_path(folder, step=step)
    with files.replacing_folder(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary / _TENSORS)
        header = {"format": FORMAT, "recipe": fingerprint, "sha256": sha256(temporary / _TENSORS)}
        files.write_json(temporary / _STATE, header | {"state": dict(state)})
    return path


def rewrite_state(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the state of a checkpoint, whose tensors stay."""
    header = json.loads((path / _STATE).read_text(encoding="utf-8"))
    files.write_json(path / _STATE, header | {"state": dict(state)})


def checkpoint_path(folder: Path, *, step: int) -> Path:
    """The folder of the checkpoint of a step."""
    return folder / f"step-{step:08d}"


def read_checkpoint(path: Path, *, accepts: Callable[[str], bool]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the state of one checkpoint.

    Args:
        path: folder of the checkpoint.
        accepts: whether the recipe to resume goes on from one with a given fingerprint.

    Raises:
        CheckpointError: a file is missing or damaged, or the checkpoint belongs to another recipe.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    kind, recipe, state = _checked(path)
    if kind != FORMAT:
        raise CheckpointError(f"{path}, of the format {kind!r}", expected=f"a checkpoint ({FORMAT})", remedy=_REMEDY)
    if not accepts(recipe):
        raise CheckpointError(f"{path}, of another recipe", expected="a checkpoint of this recipe", remedy=_REMEDY)
    try:
        return load_file(path / _TENSORS), state
    except SafetensorError as error:
        raise CheckpointError(f"{path} ({error})", expected="a whole checkpoint", remedy=_REMEDY) from error


def newest_whole_checkpoint(folder: Path) -> Path | None:
    """Find the newest checkpoint that is not damaged; None if there is no checkpoint at all.

    A damaged one is reported on standard error.

    Raises:
        CheckpointError: all checkpoints are damaged.
    """
    damage: CheckpointError | None = None
    for path in reversed(list_checkpoints(folder).values()):
        try:
            _checked(path)
        except CheckpointError as error:
            damage = damage or error
            continue
        if damage is not None:
            print(f"warning: {damage.given}; going on from {path.name}, the newest whole one", file=sys.stderr)
        return path
    if damage is not None:
        raise damage
    return None


def _checked(path: Path) -> tuple[str, str, dict[str, Any]]:
    """Format, fingerprint and state of a checkpoint whose tensors are those written with them."""
    try:
        content = json.loads((path / _STATE).read_text(encoding="utf-8"))
        kind, recipe, digest, state = (content[key] for key in ("format", "recipe", "sha256", "state"))
        damaged = sha256(path / _TENSORS) != digest
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path} is damaged ({error!r})", expected="a whole checkpoint", remedy=_REMEDY
        ) from error
    if damaged:
        raise CheckpointError(f"{path} is damaged ({_TENSORS})", expected="a whole checkpoint", remedy=_REMEDY)
    return kind, recipe, state


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """List the checkpoints below a folder by step, oldest first, without those left incomplete by a killed process."""
    found = {int(path.name[5:]): path for path in folder.glob("step-*") if path.name[5:].isdigit()}
    return dict(sorted(found.items()))


def remove_checkpoints(folder: Path, *, keep: Collection[int | None]) -> None:
    """Remove all checkpoints except some, and incomplete ones that killed processes left."""
    for step, path in list_checkpoints(folder).items():
        if step not in keep:
            shutil.rmtree(path)
    for path in folder.glob(".step-*"):
        shutil.rmtree(path)
