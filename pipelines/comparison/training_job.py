"""One run as a job of submitit: the same call of ``train``, that goes on where it was when its time is up."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..training.recipe.reading import check_recipe
from ..training.run.training import train

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


class TrainingJob:
    """What submitit keeps, calls, and submits again where the scheduler ends it before it is done.

    Args:
        recipe: every setting.
        folder: of the run, absolute.
    """

    def __init__(self, recipe: Mapping[str, Any], folder: Path) -> None:
        self.recipe, self.folder = dict(recipe), folder

    def __call__(self) -> dict[str, float]:
        """Train; returns the metrics."""
        with _keeping_the_step():
            return train(check_recipe(self.recipe), self.folder).metrics

    def checkpoint(self) -> DelayedSubmission:
        """What to submit again: the same, as the run's own checkpoint holds its state."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@contextmanager
def _keeping_the_step() -> Iterator[None]:
    """While inside, the signal that time is up first lets the run finish and keep its step, as SIGTERM does."""
    requeue, unheeded = signal.getsignal(signal.SIGUSR2), signal.getsignal(signal.SIGTERM)
    requested = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        if signal.getsignal(signal.SIGTERM) != unheeded:
            signal.raise_signal(signal.SIGTERM)
        elif callable(requeue):  # the run has not begun
            requeue(number, frame)

    signal.signal(signal.SIGUSR2, hear)
    try:
        yield
    except SystemExit:
        if requested and callable(requeue):
            requeue(signal.SIGUSR2, None)
        raise
    finally:
        signal.signal(signal.SIGUSR2, requeue)
