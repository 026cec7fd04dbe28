"""Start the processes of a run on this machine, one for each device, and answer for all of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any, NoReturn

from hiertree.errors import HiertreeError, TrainingError

from ..recipe.schema import Recipe

_SECONDS_TO_END = 10.0  # that the others have once one has failed
_UNTYPED, _TYPED, _INTERRUPTED = 1, 2, 130


def run_processes(recipe: Recipe, out: str | os.PathLike[str], *, fresh: bool, devices: int) -> None:
    """Train a recipe in as many new processes of this machine, and wait until all have ended.

    SIGTERM is passed on to them, and they end with this process however it ends.

    Raises:
        HiertreeError, OSError: what one of them met; those that are left are ended.
        TrainingError: one was killed.
        SystemExit: they were stopped by SIGTERM, with status 0.
    """
    from lightning.fabric.plugins.environments.lightning import find_free_network_port

    context = multiprocessing.get_context("spawn")
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_network_port()), "NODE_RANK": "0"}
    shared |= {"WORLD_SIZE": str(devices), "LOCAL_WORLD_SIZE": str(devices)}
    processes, answers = [], []
    try:
        for rank in range(devices):
            answer, theirs = context.Pipe(duplex=False)
            place = {**shared, "LOCAL_RANK": str(rank), "RANK": str(rank)}
            process = context.Process(target=_take_part, args=(place, recipe.as_dict(), os.fspath(out), fresh, theirs))
            process.start()
            theirs.close()
            processes.append(process)
            answers.append(answer)
        with _passing_sigterm_on(processes):
            _until_one_fails(processes)
    finally:
        killed = _ended(processes)
    _tell(processes, [_told(answer) for answer in answers], killed)


def _take_part(place: dict[str, str], recipe: dict[str, Any], out: str, fresh: bool, answer: Connection) -> None:
    """One process: its place among the others, and the run as any launcher's process does it."""
    from ..recipe.reading import check_recipe
    from ..run.training import train

    os.environ.update(place)
    multiprocessing.set_start_method(None, force=True)  # else a data-loading worker would import all anew, as this did
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        train(check_recipe(recipe), out, fresh=fresh)
    except (HiertreeError, OSError) as error:
        answer.send(error)
        sys.exit(_TYPED)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except RuntimeError:  # most often, that another process is gone: then the reason is that one's
        answer.send(traceback.format_exc())
        sys.exit(_UNTYPED)


def _end_with_parent() -> None:
    """Nobody else would end the processes of a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(_UNTYPED)


@contextmanager
def _passing_sigterm_on(processes: Sequence[SpawnProcess]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        for process in processes:
            process.terminate()

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_one_fails(processes: Sequence[SpawnProcess]) -> None:
    """Wait until all processes have ended, or one of them badly."""
    running = list(processes)
    while running and not any(process.exitcode for process in processes):
        wait([process.sentinel for process in running])
        running = [process for process in running if process.is_alive()]


def _ended(processes: Sequence[SpawnProcess]) -> set[SpawnProcess]:
    """End the processes that do not end by themselves now; returns these."""
    deadline = time.monotonic() + _SECONDS_TO_END
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    left = {process for process in processes if process.is_alive()}
    for process in left:
        process.kill()
        process.join()
    return left


def _told(answer: Connection) -> Any:
    """The error that a process sent, if it did."""
    try:
        return answer.recv() if answer.poll() else None
    except EOFError:
        return None


def _tell(processes: Sequence[SpawnProcess], told: Sequence[Any], killed: set[SpawnProcess]) -> None:
    """Raise what best says why the processes ended: an error with a name, a signal, any other error."""
    for error in told:
        if isinstance(error, Exception):
            raise error
    codes = [0 if process in killed else int(process.exitcode or 0) for process in processes]
    if -signal.SIGTERM in codes:
        print("stopped before the first step, as SIGTERM asked; the same command starts again", file=sys.stderr)
        raise SystemExit(0)
    for rank, code in enumerate(codes):
        if code < 0:
            _lost(rank, len(codes), f"was killed by signal {-code}")
    for rank, text in enumerate(told):
        if text is not None:
            raise RuntimeError(f"process {rank} of {len(told)}:\n{text}")
    for rank, code in enumerate(codes):
        if code:
            _lost(rank, len(codes), f"ended with status {code}")


def _lost(rank: int, count: int, fate: str) -> NoReturn:
    raise TrainingError(
        f"process {rank} of {count} {fate}",
        expected="all processes of the run until it is done",
        remedy="the last checkpoint is whole, and the same command goes on from there",
    )
