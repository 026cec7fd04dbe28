"""Runs that are broken off, and what two runs must have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from hiertree.pipelines.training.recipe.settings import Recipe
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


def before_each_step(patch: pytest.MonkeyPatch, act: Callable[[Learner, int], object]) -> None:
    """Do something with the learner and the number of the step, before it is taken."""
    take_step = Learner.step

    def changed(self: Learner, *batch: torch.Tensor, step: int, **options: Any) -> dict[str, float]:
        act(self, step)
        return take_step(self, *batch, step=step, **options)

    patch.setattr(Learner, "step", changed)


def break_at(broken_at: int, recipe: Recipe, out: Path) -> None:
    """Train until a step, then stop as Ctrl-C would."""

    def interrupt(_: Learner, step: int) -> None:
        if step == broken_at:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        before_each_step(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, out)


def assert_resumes(recipe: Recipe, folder: Path, *, broken_at: int = 3) -> None:
    """Two runs below the folder, one of them broken off, end alike: ``whole`` and ``broken``."""
    train(recipe, folder / "whole")
    break_at(broken_at, recipe, folder / "broken")
    train(recipe, folder / "broken")
    assert_same_weights(folder / "whole", folder / "broken")
    assert curve(folder / "whole") == curve(folder / "broken")


def train_slowly(recipe: dict[str, object], out: str) -> None:
    """Train with a pause before each step, in which the process can be killed."""
    with pytest.MonkeyPatch.context() as patch:
        before_each_step(patch, lambda *_: time.sleep(0.1))
        train(Recipe.model_validate(recipe), Path(out))
