"""Start the processes of a run on this machine, pass signals on to them, and report how they ended.

torchrun kills processes 30 seconds after SIGTERM and reports errors as text; this waits for a step and its checkpoint,
however long they take, and raises the typed error of whichever process failed first.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from hiertree.errors import HiertreeError, TrainingError

STOPPED = 128 + signal.SIGTERM  # the status of what has obeyed it
STOPPED_EARLY = "stopped by SIGTERM before the first step; run the same command to start again"
_SECONDS_TO_END = 10.0  # for the other processes once one has failed
_CRASHED, _FAILED, _INTERRUPTED = 1, 2, 130


def run_processes(function: Callable[..., object], *arguments: object, count: int) -> None:
    """Call a function in new processes and wait until all have ended; they hear SIGTERM, and end with this one."""
    context = multiprocessing.get_context("spawn")
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _free_port(), "NODE_RANK": "0"}
    variables |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    processes, reports = [], []
    try:
        for rank in range(count):
            report, sender = context.Pipe(duplex=False)
            place = {**variables, "LOCAL_RANK": str(rank), "RANK": str(rank)}
            process = context.Process(target=_call, args=(place, sender, function, arguments))
            process.start()
            sender.close()
            processes.append(process)
            reports.append(report)
        with _forwarding_sigterm(processes):
            _wait_until_one_fails(processes)
    finally:
        killed = _end(processes)
    _raise_failure([0 if p in killed else p.exitcode or 0 for p in processes], [_received(r) for r in reports])


def _free_port() -> str:
    """A free port, chosen as Lightning does, whose import takes seconds."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return os.environ.get("STANDALONE_PORT") or str(probe.getsockname()[1])


def _call(place: dict[str, str], report: Connection, function: Callable[..., object], arguments: Sequence[Any]) -> None:
    """Run in each process: report an error and end with its status."""
    os.environ.update(place)
    multiprocessing.set_start_method(None, force=True)  # data-loading workers start in torch's default way, not as this
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function(*arguments)
    except (HiertreeError, OSError) as error:
        report.send(error)
        sys.exit(_FAILED)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except RuntimeError:  # most often "connection closed", because another process has ended
        report.send(traceback.format_exc())
        sys.exit(_CRASHED)


def _end_with_parent() -> None:
    """End this process when its parent is gone, killed perhaps."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(_CRASHED)


@contextmanager
def _forwarding_sigterm(processes: Sequence[SpawnProcess]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return

    def forward(_number: int, _frame: FrameType | None) -> None:
        for process in processes:
            process.terminate()

    previous_handler = signal.signal(signal.SIGTERM, forward)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _wait_until_one_fails(processes: Sequence[SpawnProcess]) -> None:
    running = list(processes)
    while running and not any(process.exitcode not in {None, 0, STOPPED} for process in processes):
        wait([process.sentinel for process in running])
        running = [process for process in running if process.is_alive()]


def _end(processes: Sequence[SpawnProcess]) -> set[SpawnProcess]:
    """Give the processes time to end, then kill the rest; return those killed."""
    deadline = time.monotonic() + _SECONDS_TO_END
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    left = {process for process in processes if process.is_alive()}
    for process in left:
        process.kill()
        process.join()
    return left


def _received(report: Connection) -> Any:
    """The error that a process reported: an exception, a traceback as text, or None."""
    try:
        return report.recv() if report.poll() else None
    except EOFError:
        return None


def _raise_failure(statuses: Sequence[int], reports: Sequence[Any]) -> None:
    """Raise the most informative error: a typed one, else a signal, else any other."""
    for error in reports:
        if isinstance(error, Exception):
            raise error
    if -signal.SIGTERM in statuses:
        print(STOPPED_EARLY, file=sys.stderr)
        raise SystemExit(STOPPED)
    crashes = [f"process {rank} of {len(reports)}:\n{text}" for rank, text in enumerate(reports) if text is not None]
    worst = min(filter(None, statuses), default=0)  # a signal is negative
    if worst == STOPPED:  # and no other failure, whose status is lower
        raise SystemExit(STOPPED)
    if crashes and worst >= 0:
        raise RuntimeError(crashes[0])
    if worst:
        end = f"was killed by signal {-worst}" if worst < 0 else f"ended with status {worst}"
        problem, remedy = f"process {statuses.index(worst)} of {len(statuses)} {end}", "run the same command to go on"
        raise TrainingError(problem, expected="all processes until the run is done", remedy=remedy)
