"""The progress of a run, its best epoch, and early stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hiertree.metrics.request import improves_downward

from ..recipe.schema import Recipe


@dataclass
class RunState:
    """The progress of a run; a checkpoint stores it as JSON."""

    epoch: int = 0  # epochs done
    batch: int = 0  # batches done in the current epoch
    step: int = 0  # batches done in total
    sums: dict[str, float] = field(default_factory=dict)  # loss and terms, summed over the current epoch
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per finished epoch
    best: dict[str, float] | None = None  # epoch, step and value of the best evaluation so far
    skipped: int = 0  # batches of the current epoch that were skipped because their loss was not finite
    skipped_in_a_row: int = 0  # batches skipped since the last one that was not
    measured: bool = True  # whether the last finished epoch has been evaluated, as far as that was due
    started_from: dict[str, Any] | None = None  # path, size and hash of the weights that it started with

    def count_batch(self, values: Mapping[str, float]) -> None:
        """Count a batch and add its loss and terms; a skipped batch has none."""
        self.batch += 1
        self.step += 1
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def mean_losses(self) -> dict[str, float]:
        """Loss and terms, averaged over the batches of this epoch that were not skipped, and the number skipped."""
        learned = max(1, self.batch - self.skipped)
        means = {name: total / learned for name, total in self.sums.items()}
        return means | ({"skipped": self.skipped} if self.skipped else {})

    def end_epoch(self) -> None:
        """Count an epoch and reset what belongs to it."""
        self.epoch, self.batch, self.sums, self.skipped, self.measured = self.epoch + 1, 0, {}, 0, False


@dataclass(frozen=True)
class EpochSelection:
    """The choice of the best epoch; without a validation it is judged on the test split and has no effect."""

    metric: str  # that is compared
    downward: bool = False  # whether the metric falls as it improves
    patience: int | None = None  # evaluations without improvement after which the run stops; None never stops it

    @classmethod
    def from_recipe(cls, recipe: Recipe, *, num_levels: int) -> EpochSelection:
        """The selection that a recipe asks for; its tree has ``num_levels``."""
        settings, metric = recipe.validation, recipe.evaluation.select
        if settings is None:
            return cls(metric)
        metric = settings.select or metric
        direction = settings.direction or ("down" if improves_downward(metric, num_levels=num_levels) else "up")
        return cls(metric, direction == "down", settings.patience)

    def note(self, state: RunState, metrics: Mapping[str, float]) -> None:
        """Remember the epoch that has just been evaluated if it is the best so far."""
        value = metrics.get(self.metric)
        best = None if state.best is None else state.best["value"]
        if value is not None and (best is None or (value < best if self.downward else value > best)):
            state.best = {"epoch": state.epoch, "step": state.step, "value": value}

    def gives_up(self, state: RunState) -> bool:
        """Whether none of the last evaluations, as many as the patience, has improved."""
        best_epoch = 0 if state.best is None else state.best["epoch"]
        evaluations = sum("validation" in row and row["epoch"] > best_epoch for row in state.history)
        return self.patience is not None and evaluations >= self.patience

    def describe_stop(self, state: RunState) -> str:
        """Say that the run has stopped, and why."""
        time = f"epoch {state.best['epoch']:g}" if state.best else "the start"
        stopped = f"stopped after epoch {state.epoch}: {self.metric} of the validation has not improved since {time}"
        return f"{stopped} (validation.patience={self.patience})"
