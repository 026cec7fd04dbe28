"""What a scheduler's SIGTERM does to a run: the step is finished and kept, and the process ends with status 0."""

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
    """Whether this process, or another of the run, was asked to end.

    Args:
        processes: of the run; None: this one alone.

    >>> stop = StopRequest()
    >>> with stop.heeded():
    ...     signal.raise_signal(signal.SIGTERM)
    >>> stop.asked()
    True
    """

    def __init__(self, processes: Processes | None = None) -> None:
        self._processes, self._noted = processes or Processes(), False

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

    def asked(self) -> bool:
        """Whether any process of the run was; all of them must ask, and have the same answer."""
        return self._processes.any(self._noted)

    def obey(self, step: int) -> NoReturn:
        """End the process with status 0; the state after this step has been kept.

        Raises:
            SystemExit: always.
        """
        if self._processes.is_first:
            print(f"stopped after step {step}, as SIGTERM asked; the same command goes on from there", file=sys.stderr)
        raise SystemExit(0)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._noted = True
