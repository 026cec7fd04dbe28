"""What SIGTERM from a scheduler does: the run finishes its step, keeps a checkpoint and exits with status 0."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ..distributed.processes import Processes


class StopRequest:
    """Whether this process, or another of the run, has received SIGTERM.

    Args:
        processes: of the run; None for this one alone.

    >>> stop = StopRequest()
    >>> with stop.listening():
    ...     signal.raise_signal(signal.SIGTERM)
    >>> stop.requested()
    True
    """

    def __init__(self, processes: Processes | None = None) -> None:
        self._processes, self._received = processes or Processes(), False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A block in which SIGTERM is noted and ends nothing; no effect in threads, which get no signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def requested(self) -> bool:
        """Whether any process has received it; all must call this together, and get the same answer."""
        return self._processes.any(self._received)

    def obey(self, step: int) -> NoReturn:
        """Exit with status 0; the state after ``step`` must have been saved.

        Raises:
            SystemExit: always.
        """
        if self._processes.is_first:
            print(f"stopped by SIGTERM after step {step}; run the same command to go on from there", file=sys.stderr)
        raise SystemExit(0)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._received = True
