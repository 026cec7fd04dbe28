"""The checkpoints of one run: written during training, read to resume, and kept as long as they are needed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from hiertree.errors import CheckpointError
from hiertree.io import files
from hiertree.io.provenance import sha256
from hiertree.io.reading import Complaint, read_json_object, read_tensors, reading_file, reading_json

from ..learning.learner import Learner
from ..recipe.schema import Recipe
from .run_state import RunState

FORMAT = "hiertree checkpoint 2"
_TENSORS, _STATE = "tensors.safetensors", "state.json"
_REMEDY = "remove this folder to go on from an older checkpoint, or start again (--fresh)"
_WHOLE: Complaint = {"expected": "a whole checkpoint", "remedy": _REMEDY, "kind": CheckpointError}


def save_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], state: dict[str, Any], *, step: int, fingerprint: str
) -> Path:
    """Write one checkpoint below ``folder``."""
    from safetensors.torch import save_file

    path = checkpoint_path(folder, step=step)
    with files.replacing_folder(path) as temporary:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, temporary / _TENSORS)
        _write_state(temporary, fingerprint, sha256(temporary / _TENSORS), state)
    return path


def _write_state(folder: Path, fingerprint: str, tensors: str, state: dict[str, Any]) -> None:
    content = {"format": FORMAT, "recipe": fingerprint, "sha256": tensors, "state": state}
    files.write_json(folder / _STATE, {**content, "check": _digest(content)})


def _digest(content: Mapping[str, Any]) -> str:
    """The SHA-256 of all that a state holds, tensors included, by which damage to any of it shows."""
    covered = {key: value for key, value in content.items() if key != "check"}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def checkpoint_path(folder: Path, *, step: int) -> Path:
    """The folder of the checkpoint of a step."""
    return folder / f"step-{step:08d}"


def read_checkpoint(path: Path, *, accepts: Callable[[str], bool]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the state of one checkpoint."""
    content = _checked(path)
    if not accepts(content["recipe"]):
        raise _refused(f"{path}, of another recipe", "a checkpoint of this recipe")
    return read_tensors(path / _TENSORS, **_WHOLE), content["state"]


def newest_whole_checkpoint(folder: Path) -> Path | None:
    """Find the newest checkpoint that is not damaged, and report the damaged; None if there is no checkpoint at all."""
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


def _checked(path: Path) -> dict[str, Any]:
    """The content of ``state.json``, where it and the tensors are as they were written."""
    with reading_json(path / _STATE, **_WHOLE) as content:
        if content["format"] != FORMAT:
            raise _refused(f"{path}, of the format {str(content['format'])[:40]!r}", f"a checkpoint ({FORMAT})")
        if content["check"] != _digest(content):
            raise ValueError("other content than was written")
    with reading_file(path / _TENSORS, **_WHOLE):
        if sha256(path / _TENSORS) != content["sha256"]:
            raise ValueError("other bytes than were written")
    return content


def _refused(problem: str, expected: str = "a whole checkpoint") -> CheckpointError:
    return CheckpointError(problem, expected=expected, remedy=_REMEDY)


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """List the checkpoints below a folder by step, oldest first, without those left incomplete by a killed process."""
    checkpoints = {int(path.name[5:]): path for path in folder.glob("step-*") if path.name[5:].isdigit()}
    return dict(sorted(checkpoints.items()))


def remove_checkpoints(folder: Path, *, keep: Collection[int | None]) -> None:
    """Remove all checkpoints except some, and what killed processes left."""
    for step, path in list_checkpoints(folder).items():
        if step not in keep:
            shutil.rmtree(path)
    for path in filter(files.is_remnant, folder.glob(".step-*")):
        shutil.rmtree(path)


class RunCheckpoints:
    """Checkpoints of a learner and of how far its run is."""

    def __init__(self, folder: Path, recipe: Recipe, learner: Learner) -> None:
        self._folder, self._recipe, self._learner = folder, recipe, learner
        self._kept: set[int] = set()  # steps whose checkpoints the last one needs

    def write(self, state: RunState) -> None:
        """Write a checkpoint and remove the earlier ones, except the one before and the best of either."""
        tensors, fingerprint = self._learner.tensors(), self._recipe.fingerprint()
        with _writing(state.step):
            save_checkpoint(self._folder, tensors, self._content(state), step=state.step, fingerprint=fingerprint)
        previous_steps, self._kept = self._kept, _steps_needed(state)
        remove_checkpoints(self._folder, keep=previous_steps | self._kept)

    def update(self, state: RunState) -> None:
        """Write the state of the step whose checkpoint was written last, now that its epoch has been evaluated."""
        path = checkpoint_path(self._folder, step=state.step)
        with _writing(state.step):
            content = read_json_object(path / _STATE, **_WHOLE)
            _write_state(path, content["recipe"], content["sha256"], self._content(state))
        self._kept = _steps_needed(state)

    def _content(self, state: RunState) -> dict[str, Any]:
        return {"position": asdict(state), **self._learner.numbers()}

    def restore(self, checkpoint: Path) -> RunState:
        """Load the tensors of a checkpoint into the learner; returns how far the run was."""
        tensors, content = read_checkpoint(checkpoint, accepts=self._recipe.accepts)
        with reading_file(checkpoint / _STATE, expected="the state of a training run", kind=CheckpointError):
            state = RunState(**content["position"])
            self._learner.load(tensors, content, step=state.step)
        self._kept = _steps_needed(state)
        return state

    def restore_network(self, *, step: int) -> None:
        """Load the network after an earlier step, whose checkpoint was kept, into the learner."""
        try:
            tensors, content = read_checkpoint(checkpoint_path(self._folder, step=step), accepts=self._recipe.accepts)
        except CheckpointError as error:
            raise CheckpointError(
                f"the best network, of step {step}, is lost: {error.given}",
                expected="a whole checkpoint",
                remedy="the last network is whole in the run's folder; train again (--fresh) to have the best one too",
            ) from error
        self._learner.load(tensors, content, step=step)


@contextmanager
def _writing(step: int) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint of step {step} was not written ({error})",
            expected="room on the disk",
            remedy="free some and run the same command: it goes on from the checkpoint before, which is whole",
        ) from error


def _steps_needed(state: RunState) -> set[int]:
    """Steps of the checkpoints that a run needs to resume from its state: the last one, and the best so far."""
    return {state.step} | ({int(state.best["step"])} if state.best else set())
