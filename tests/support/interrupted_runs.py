"""Runs that are broken off, and what two runs must have in common."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hiertree.pipelines.training.recipe.schema import Recipe
from hiertree.pipelines.training.run.experiment import train
from hiertree.pipelines.training.run.history import read_history
from hiertree.pipelines.training.run.learner import Learner


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(first: Path, second: Path) -> None:
    assert weights(first).keys() == weights(second).keys()
    assert all(torch.equal(tensor, weights(second)[name]) for name, tensor in weights(first).items())


def curve(folder: Path) -> list[dict[str, object]]:
    return [
        {k: v for k, v in row.items() if k not in ("seconds", "waited", "images_per_second")}
        for row in read_history(folder / "history.jsonl")
    ]


def break_at(broken_at: int, recipe: Recipe, out: Path) -> None:
    """Train until a step, then stop as Ctrl-C would."""
    take_step = Learner.step

    def interrupted(self: Learner, images: torch.Tensor, paths: torch.Tensor, *, step: int) -> dict[str, float]:
        if step == broken_at:
            raise KeyboardInterrupt
        return take_step(self, images, paths, step=step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, out)


def train_slowly(recipe: dict[str, object], out: str) -> None:
    """Train with a pause before each step, in which the process can be killed."""
    take_step = Learner.step

    def slow_step(self: Learner, images: torch.Tensor, paths: torch.Tensor, *, step: int) -> dict[str, float]:
        time.sleep(0.1)
        return take_step(self, images, paths, step=step)

    Learner.step = slow_step  # type: ignore[method-assign]
    train(Recipe.model_validate(recipe), Path(out))
