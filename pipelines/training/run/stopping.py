"""Signals: after SIGTERM a command ends with status 143 and can be resumed, after Ctrl-C with status 130."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ..distributed.group import STOPPED, STOPPED_EARLY
from ..distributed.processes import ALONE, Processes

Handler = Callable[[int, FrameType | None], None]


class _StoppedEarly(SystemExit):
    """SIGTERM before the first step."""


class StopRequest:
    """Whether this process, or another of the run, has received SIGTERM."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self._processes, self._received, self._interrupted = processes, False, False

    @contextmanager
    def listening(self, *, before_steps: bool = False) -> Iterator[None]:
        """A block in which SIGTERM is noted, or ends the process if there is nothing to save yet; no effect in threads.

        What a library swallows because it arrived in one of its callbacks is raised again at the next step, or at the
        end.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers: dict[int, Handler] = {signal.SIGTERM: self._end if before_steps else self._note}
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            handlers[signal.SIGINT] = self._interrupt
        previous_handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
            self._require_no_interrupt()
        except _StoppedEarly:
            print(STOPPED_EARLY, file=sys.stderr)
            raise
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)

    def requested(self) -> bool:
        """Whether any process has received SIGTERM; all call this together and get the same answer."""
        self._require_no_interrupt()
        return self._processes.any(self._received)

    def obey(self, progress: str) -> NoReturn:
        """Exit with status 143; ``progress``, "step 3" for instance, must have been saved."""
        if self._processes.is_first:
            print(f"stopped by SIGTERM after {progress}; run the same command to go on from there", file=sys.stderr)
        raise SystemExit(STOPPED)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._received = True

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._received = True
        raise _StoppedEarly(STOPPED)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True
        raise KeyboardInterrupt

    def _require_no_interrupt(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
