"""The state of a run that is not a tensor: how far it is, and what it has measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunState:
    """How far a run is; a checkpoint stores it as JSON.

    Attributes:
        epoch: epochs done.
        batch: batches done in the current epoch.
        step: batches done in total.
        sums: loss and terms, summed over the current epoch.
        history: one row per finished epoch.
        best: epoch, step and value of the best evaluation so far.
        skipped: batches of the current epoch that were skipped because their loss was not finite.
        skipped_in_a_row: batches skipped since the last one that was not.
        measured: whether the last finished epoch has been evaluated, as far as that was due.
        started_from: the file of weights that the network started with: path, size and hash; None for its own start.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, float] | None = None
    skipped: int = 0
    skipped_in_a_row: int = 0
    measured: bool = True
    started_from: dict[str, Any] | None = None

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
