"""Which evaluated epoch is the best, and when a run stops because none is better any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from hiertree.errors import RecipeError
from hiertree.metrics.conventions.names import improves_downward

from ..recipe.schema import Recipe
from .run_state import RunState

HistoryKey = Literal["metrics", "validation"]


@dataclass(frozen=True)
class EpochSelection:
    """How the best epoch is found.

    Without a validation it is the best on the test split: noted, and used for nothing.

    Attributes:
        metric: that is compared.
        setting: the key of the recipe that names it.
        measured: the values of a row of the history that are compared: ``"metrics"`` are those of the test split.
        downward: whether the metric falls as it improves.
        patience: evaluations without improvement after which the run stops; None never stops it.
    """

    metric: str
    setting: str
    measured: HistoryKey
    downward: bool = False
    patience: int | None = None

    @classmethod
    def of_recipe(cls, recipe: Recipe, *, num_levels: int) -> EpochSelection:
        """What a recipe asks for; its tree has ``num_levels``."""
        settings, metric = recipe.validation, recipe.evaluation.select
        if settings is None:
            return cls(metric, "evaluation.select", "metrics")
        setting = "validation.select" if settings.select else "evaluation.select"
        metric = settings.select or metric
        falls = improves_downward(metric, num_levels=num_levels) if settings.direction is None else None
        return cls(metric, setting, "validation", settings.direction == "down" or bool(falls), settings.patience)

    def require_among(self, names: Collection[str]) -> None:
        """Refuse a metric that will not be computed.

        Raises:
            RecipeError: it is not among the names.
        """
        if self.metric not in names:
            raise RecipeError(f"{self.setting}={self.metric!r}", expected=f"one of {', '.join(names)}")

    def note(self, state: RunState, metrics: Mapping[str, float]) -> None:
        """Remember the epoch that has just been evaluated if it is the best so far."""
        value = metrics.get(self.metric)
        best = None if state.best is None else state.best["value"]
        if value is not None and (best is None or (value < best if self.downward else value > best)):
            state.best = {"epoch": state.epoch, "step": state.step, "value": value}

    def gives_up(self, state: RunState) -> bool:
        """Whether the last evaluations, as many as the patience, have all brought no improvement."""
        return self.patience is not None and self._without_improvement(state) >= self.patience

    def describe_stop(self, state: RunState) -> str:
        """Say that the run has stopped, and why."""
        since = f"epoch {state.best['epoch']:g}" if state.best else "the start"
        return (
            f"stopped after epoch {state.epoch}: {self.metric} of the validation has not improved since {since} "
            f"(validation.patience={self.patience})"
        )

    def _without_improvement(self, state: RunState) -> int:
        """Evaluations since the best one; counted in the history, so that a resumed run goes on counting."""
        since = 0 if state.best is None else state.best["epoch"]
        return sum(self.measured in row and row["epoch"] > since for row in state.history)
