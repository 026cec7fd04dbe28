"""Checkpoints: whole or refused."""

from __future__ import annotations

import json

import pytest
import torch

from hiertree.errors import CheckpointError
from hiertree.pipelines.training.run.checkpoints import (
    list_checkpoints,
    read_checkpoint,
    remove_checkpoints,
    save_checkpoint,
)

TENSORS = {"scalar": torch.tensor(3.0), "matrix": torch.arange(6).reshape(2, 3).T, "empty": torch.zeros(0)}


@pytest.fixture
def checkpoint(tmp_path):
    return save_checkpoint(tmp_path, TENSORS, {"sum": 0.1 + 0.2}, step=7, fingerprint="mine")


def test_what_is_read_is_what_was_written_to_the_bit(checkpoint):
    tensors, state = read_checkpoint(checkpoint, accepts={"mine"}.__contains__)
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert state == {"sum": 0.1 + 0.2}


def test_checkpoint_of_another_recipe_is_refused(checkpoint):
    with pytest.raises(CheckpointError, match="of another recipe"):
        read_checkpoint(checkpoint, accepts={"other"}.__contains__)


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("length", [0, 40, -1])
def test_torn_checkpoint_is_refused(checkpoint, file, length):
    text = (checkpoint / file).read_bytes()
    (checkpoint / file).write_bytes(text[:length])
    if file == "state.json" and length == -1:  # only the last newline is lost
        read_checkpoint(checkpoint, accepts={"mine"}.__contains__)
        return
    with pytest.raises(CheckpointError, match=r"step-00000007.*--fresh"):
        read_checkpoint(checkpoint, accepts={"mine"}.__contains__)


def test_changed_weights_are_noticed(checkpoint):
    text = bytearray((checkpoint / "tensors.safetensors").read_bytes())
    text[-1] ^= 1
    (checkpoint / "tensors.safetensors").write_bytes(text)
    with pytest.raises(CheckpointError, match="other bytes than were written"):
        read_checkpoint(checkpoint, accepts={"mine"}.__contains__)


def test_pickle_is_never_opened(checkpoint):
    torch.save(TENSORS, checkpoint / "tensors.safetensors")
    with pytest.raises(CheckpointError):
        read_checkpoint(checkpoint, accepts={"mine"}.__contains__)


@pytest.mark.parametrize("text", ["[]", "{}", '{"format": "other", "recipe": "mine", "sha256": "", "state": {}}'])
def test_foreign_state_is_refused(checkpoint, text):
    (checkpoint / "state.json").write_text(text)
    with pytest.raises(CheckpointError):
        read_checkpoint(checkpoint, accepts={"mine"}.__contains__)


def test_newest_and_best_stay_and_half_written_ones_go(tmp_path):
    for step in (2, 10, 9):
        save_checkpoint(tmp_path, TENSORS, {}, step=step, fingerprint="mine")
    (tmp_path / ".step-00000011.hiertree-abcdefgh").mkdir()
    (tmp_path / "step-of-mine").mkdir()
    assert list(list_checkpoints(tmp_path)) == [2, 9, 10]
    remove_checkpoints(tmp_path, keep={2, 10})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000010", "step-of-mine"]


def test_state_with_nan_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="Out of range float"):
        save_checkpoint(tmp_path, TENSORS, {"loss": float("nan")}, step=1, fingerprint="mine")
    assert list(tmp_path.iterdir()) == []


def test_state_is_readable_json(checkpoint):
    assert json.loads((checkpoint / "state.json").read_text())["format"] == "hiertree checkpoint 2"


@pytest.mark.parametrize(
    "change", [("0.3", "0.4"), ('"mine"', '"nine"'), ('"sum"', '"sun"'), ("checkpoint 2", "checkpoint 3")]
)
def test_changed_state_is_noticed(checkpoint, change):
    text = (checkpoint / "state.json").read_text()
    assert text.count(change[0]) == 1
    (checkpoint / "state.json").write_text(text.replace(*change))
    with pytest.raises(CheckpointError, match=r"step-00000007.*remove this folder .*--fresh"):
        read_checkpoint(checkpoint, accepts=lambda _: True)
