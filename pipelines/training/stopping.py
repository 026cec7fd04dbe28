"""What a scheduler's SIGTERM does to a run: the step is finished and kept, and the process ends with status 0."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the process was asked to end.

    >>> stop = StopRequest()
    >>> with stop.heeded():
    ...     signal.raise_signal(signal.SIGTERM)
    >>> stop.requested
    True
    """

    def __init__(self) -> None:
        self.requested = False

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """While inside, SIGTERM makes a request and ends nothing; only the main thread can hear signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def obey(self, step: int) -> None:
        """End the process with status 0 if that was requested; the state after this step has been kept.

        Raises:
            SystemExit: it was.
        """
        if self.requested:
            print(f"stopped after step {step}, as SIGTERM asked; the same command goes on from there", file=sys.stderr)
            raise SystemExit(0)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
