"""The process group of a command that a launcher started several times, and one message where it fails."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from hiertree.errors import DeviceError, HiertreeError
from hiertree.metrics.engine.processes import Share, share_of_group

from .devices import detect_launch
from .processes import Processes

_TIMEOUT, _TIME_TO_END, _SECONDS_TO_TELL = timedelta(days=7), timedelta(minutes=1), 1.0
_ERRORS, _PLACES, _ENDED, _FAILED = "hiertree errors", "hiertree places", "ended", 2


@contextmanager
def launched_group() -> Iterator[Share | None]:
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
        with _ending_together(store, rank, size):
            yield share_of_group()
            distributed.barrier()  # none ends while others still wait for it
    finally:
        distributed.destroy_process_group()


@contextmanager
def ending_together(processes: Processes) -> Iterator[None]:
    """A block in which the processes of a run end together."""
    if processes.size == 1 or multiprocessing.parent_process() is not None:  # which looks after the others itself
        yield
        return
    with _ending_together(_store(processes.rank, processes.size), processes.rank, processes.size):
        yield


@contextmanager
def _ending_together(store: Any, rank: int, size: int) -> Iterator[None]:
    """Of an error that several processes have, one tells; where one has vanished, one says which, and all end."""
    turn = (store.add(_PLACES, 1) - 1) // size  # of several blocks after each other
    store = PrefixStore(f"{_PLACES} {turn}", store)
    exit_event = threading.Event()
    _watch(store, rank, size, exit_event)
    try:
        with _terminating_last(store, rank, exit_event):
            yield
        store.set(f"{_ENDED} {rank}", "")
        if rank == 0:  # it may hold the store
            with suppress(RuntimeError):
                store.wait([f"{_ENDED} {peer}" for peer in range(size)], _TIME_TO_END)
    except (HiertreeError, OSError):
        if not _is_first(store):
            raise SystemExit(_FAILED) from None
        raise
    except RuntimeError as error:
        if "gloo" not in str(error) and "onnection" not in str(error):
            raise
        time.sleep(_SECONDS_TO_TELL)  # until the watch has ended this process, if another of this machine has vanished
        if not _is_first(store):
            raise SystemExit(_FAILED) from None
        problem, expected = f"one of {size} processes has ended", "all of them until the work is done"
        raise DeviceError(problem, expected=expected, remedy="run the same command again") from error
    finally:
        exit_event.set()
        with suppress(RuntimeError):
            store.set(f"{_ENDED} {rank}", "")


@contextmanager
def _terminating_last(store: Any, rank: int, exit_event: threading.Event) -> Iterator[None]:
    """SIGTERM, which launchers send when a process has vanished, ends this one after the watch had time to tell."""

    def end(*_: object) -> None:
        time.sleep(_SECONDS_TO_TELL)
        exit_event.set()
        with suppress(RuntimeError):
            store.set(f"{_ENDED} {rank}", "")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    is_handled = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    if is_handled or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def local_device(name: str | None) -> str | None:
    """The device of this process on its machine, where only the kind of device is named."""
    launch = detect_launch()
    return f"cuda:{launch.environment.local_rank()}" if launch is not None and name == "cuda" else name


def _store(rank: int, size: int) -> Any:
    store, *_ = next(iter(rendezvous("env://", rank, size, timeout=_TIMEOUT)))
    return store


def _is_first(store: Any) -> bool:
    """Whether no other process has told of an error."""
    try:
        return bool(store.add(_ERRORS, 1) == 1)
    except RuntimeError:  # the first process, which holds the store, has ended
        return True


def _watch(store: Any, rank: int, size: int, exit_event: threading.Event) -> None:
    """Watch the other processes of this machine, where the system can."""
    if not hasattr(os, "pidfd_open"):
        return
    machine = f"{socket.gethostname()} {Path('/proc/self/ns/pid').stat().st_ino}"  # numbers of processes mean the same
    store.set(f"{rank}", f"{machine} {os.getpid()}")
    places = [store.get(f"{peer}").decode().rsplit(" ", 1) for peer in range(size)]
    running = {}
    for peer, (peer_machine, process) in enumerate(places):
        if peer_machine == machine and peer != rank:
            with suppress(OSError):  # ended by now
                running[os.pidfd_open(int(process))] = peer
    if running:
        threading.Thread(target=_end_with, args=(store, rank, size, running, exit_event), daemon=True).start()


def _end_with(store: Any, rank: int, size: int, running: dict[int, int], exit_event: threading.Event) -> None:
    """End this process when another has vanished; the first of those left says which."""
    events = select.poll()
    for handle in running:
        events.register(handle, select.POLLIN)
    while running:
        handles = [handle for handle, _ in events.poll()]
        for handle in handles:
            events.unregister(handle)
        for peer in sorted(running.pop(handle) for handle in handles):
            try:
                knew = store.check([f"{_ENDED} {peer}"])
            except RuntimeError:  # the first process, which holds the store, has ended, and perhaps well
                knew = exit_event.wait(_SECONDS_TO_TELL)
            if not knew and not exit_event.is_set():
                if rank < min(running.values(), default=size):
                    problem = f"error: process {peer} of {size} has ended before the work was done"
                    print(f"{problem}; run the same command again", file=sys.stderr, flush=True)
                with suppress(RuntimeError):
                    store.set(f"{_ENDED} {rank}", "")  # for those that see this process end before the other
                os._exit(_FAILED)
