"""SIGTERM, after which a command ends with status 143 and can be resumed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ..distributed.group import STOPPED, STOPPED_EARLY
from ..distributed.processes import ALONE, Processes


class _StoppedEarly(SystemExit):
    """SIGTERM before the first step."""


class StopRequest:
    """Whether this process, or another of the run, has received SIGTERM."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self._processes, self._received = processes, False

    @contextmanager
    def listening(self, *, before_steps: bool = False) -> Iterator[None]:
        """A block in which SIGTERM is noted, or ends the process if there is nothing to save yet; no effect in threads.

        Where a library swallows that end, the request remains.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(_number: int, _frame: FrameType | None) -> None:
            self._received = True
            if before_steps:
                raise _StoppedEarly(STOPPED)

        previous_handler = signal.signal(signal.SIGTERM, note)
        try:
            yield
        except _StoppedEarly:
            print(STOPPED_EARLY, file=sys.stderr)
            raise
        finally:
            signal.signal(signal.SIGTERM, previous_handler)

    def requested(self) -> bool:
        """Whether any process has received SIGTERM; all call this together and get the same answer."""
        return self._processes.any(self._received)

    def obey(self, progress: str) -> NoReturn:
        """Exit with status 143; ``progress``, "step 3" for instance, must have been saved."""
        if self._processes.is_first:
            print(f"stopped by SIGTERM after {progress}; run the same command to go on from there", file=sys.stderr)
        raise SystemExit(STOPPED)
