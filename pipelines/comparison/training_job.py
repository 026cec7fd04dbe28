"""One run as a job of submitit: a call of ``train`` that continues in another job when its time is up."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..training.recipe.reading import check_recipe
from ..training.run.experiment import train

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


class TrainingJob:
    """What submitit stores, calls, and submits again if the scheduler ends the job too early.

    Args:
        recipe: every setting.
        folder: of the run, absolute.
    """

    def __init__(self, recipe: Mapping[str, Any], folder: Path) -> None:
        self.recipe, self.folder = dict(recipe), folder

    def __call__(self) -> dict[str, float]:
        """Train; returns the metrics."""
        with _saving_the_step():
            return train(check_recipe(self.recipe), self.folder).metrics

    def checkpoint(self) -> DelayedSubmission:
        """What to submit again: the same job, since the run's own checkpoint holds its state."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@contextmanager
def _saving_the_step() -> Iterator[None]:
    """Let the run finish and save its step when the signal comes that time is up, as on SIGTERM."""
    requeue, terminate = signal.getsignal(signal.SIGUSR2), signal.getsignal(signal.SIGTERM)
    requested = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        if signal.getsignal(signal.SIGTERM) != terminate:
            signal.raise_signal(signal.SIGTERM)
        elif callable(requeue):  # the run has not begun
            requeue(number, frame)

    signal.signal(signal.SIGUSR2, stop)
    try:
        yield
    except SystemExit:
        if requested and callable(requeue):
            requeue(signal.SIGUSR2, None)
        raise
    finally:
        signal.signal(signal.SIGUSR2, requeue)
