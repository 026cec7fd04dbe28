"""The processes of a command: started here or by a launcher, stopped by SIGTERM, ended together with one message."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from torch import distributed
from torch.distributed.rendezvous import rendezvous
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from hiertree.errors import DeviceError, HiertreeError, TrainingError
from hiertree.metrics.engine.processes import ProcessGroup, current_group

from .devices import detect_launch
from .processes import ALONE, Processes

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

STOPPED = 128 + signal.SIGTERM  # the status of what has obeyed it
STOPPED_EARLY = "stopped by SIGTERM before the first step; run the same command to start again"
_TIMEOUT = timedelta(days=7)
_SECONDS_TO_END = 10.0  # for the other processes once one has failed
_FAILED = 2


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


def run_processes(function: Callable[..., object], *arguments: object, count: int) -> None:
    """Call a function in new processes of this machine and wait until all have ended; SIGTERM is passed on to them.

    The typed error of a process is raised here. torchrun would kill processes 30 seconds after SIGTERM; these have as
    long as a step and its checkpoint take.
    """
    from lightning_fabric.plugins.environments.lightning import find_free_network_port

    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_free_network_port()), "NODE_RANK": "0"}
    variables |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    errors = multiprocessing.get_context("spawn").SimpleQueue()
    start: Callable[..., Any] = start_processes
    context = start(_call, (variables, errors, function, arguments), nprocs=count, join=False)
    try:
        with _forwarding_sigterm(context.processes):
            while not context.join(grace_period=_SECONDS_TO_END):
                pass
    except KeyboardInterrupt:
        for process in context.processes:
            process.terminate()
        raise
    except ProcessExitedException as error:
        status = error.exit_code
        if status in (STOPPED, -signal.SIGTERM):
            if status != STOPPED:
                print(STOPPED_EARLY, file=sys.stderr)
            raise SystemExit(STOPPED) from None
        if status > 0 and not errors.empty():
            raise errors.get() from None
        end = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        problem, remedy = f"process {error.error_index} of {count} {end}", "run the same command to go on"
        raise TrainingError(problem, expected="all processes until the run is done", remedy=remedy) from None


def _call(
    rank: int, variables: dict[str, str], errors: Any, function: Callable[..., object], arguments: Sequence[Any]
) -> None:
    """Run in each process."""
    os.environ.update(variables | {"LOCAL_RANK": str(rank), "RANK": str(rank)})
    multiprocessing.set_start_method(None, force=True)  # data-loading workers start in torch's default way, not as this
    try:
        with _connected():
            function(*arguments)
    except (HiertreeError, OSError) as error:
        errors.put(error)
        sys.exit(_FAILED)
    except KeyboardInterrupt:  # which torch would take for success
        sys.exit(128 + signal.SIGINT)


@contextmanager
def _forwarding_sigterm(processes: Sequence[BaseProcess]) -> Iterator[None]:
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


@contextmanager
def launched_group() -> Iterator[ProcessGroup | None]:
    """A block in which the processes of torchrun or srun can talk, over gloo, and end together; None for one."""
    launch = detect_launch()
    if launch is None:
        yield None
        return
    environment = launch.environment
    os.environ.setdefault("MASTER_ADDR", environment.main_address)
    os.environ.setdefault("MASTER_PORT", str(environment.main_port))
    rank, size = environment.global_rank(), environment.world_size()
    store = _store(rank, size)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
    if rank:
        os.environ["HIERTREE_PROGRESS"] = "0"  # only the first process reports
    try:
        with _one_message(store):
            yield current_group()
            distributed.barrier()  # none ends while others still wait for it
    finally:
        distributed.destroy_process_group()


@contextmanager
def ending_together(processes: Processes) -> Iterator[None]:
    """A block in which the processes of a run end together."""
    if processes.size == 1 or multiprocessing.parent_process() is not None:  # which looks after the others itself
        yield
        return
    with _one_message(_store(processes.rank, processes.size)):
        yield


@contextmanager
def _one_message(store: Any) -> Iterator[None]:
    """A block of whose errors, which several processes have, the first to come is raised; the others exit."""
    try:
        with _connected():
            yield
    except (HiertreeError, OSError):
        if not _is_first(store):
            raise SystemExit(_FAILED) from None
        raise


@contextmanager
def _connected() -> Iterator[None]:
    """A block in which a lost connection to another process raises an error that says so."""
    try:
        yield
    except RuntimeError as error:
        if "gloo" not in str(error) and "onnection" not in str(error):
            raise
        problem, expected = "another process has ended", "all of them until the work is done"
        raise DeviceError(problem, expected=expected, remedy="run the same command again") from error


def _is_first(store: Any) -> bool:
    """Whether no other process has told of an error."""
    try:
        return bool(store.add("hiertree errors", 1) == 1)
    except RuntimeError:  # the first process, which holds the store, has ended
        return True


def _store(rank: int, size: int) -> Any:
    store, *_ = next(iter(rendezvous("env://", rank, size, timeout=_TIMEOUT)))
    return store


def local_device(name: str | None) -> str | None:
    """The device of this process on its machine, where only the kind of device is named."""
    launch = detect_launch()
    return f"cuda:{launch.environment.local_rank()}" if launch is not None and name == "cuda" else name
