"""Several processes of one run: those that a launcher started, or started here, one for each device of this machine."""

from __future__ import annotations

import logging
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
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hiertree.errors import DeviceError, HiertreeError, TrainingError
from hiertree.pipelines.training.recipe import Recipe, Training

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

_SECONDS_TO_END = 10.0  # that the others have once one has failed
_UNTYPED, _TYPED, _INTERRUPTED = 1, 2, 130


class Started(NamedTuple):
    """Processes that a launcher started: so many on each of so many machines, and how Fabric finds this one's rank."""

    devices: int
    nodes: int
    environment: ClusterEnvironment


def started() -> Started | None:
    """The processes that torchrun, ``fabric run``, SLURM or :func:`run_processes` started; None for a process alone.

    Raises:
        DeviceError: SLURM was not told how many tasks a machine has.
    """
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    if "LOCAL_RANK" in os.environ and "LOCAL_WORLD_SIZE" in os.environ:
        local, size = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        elastic = TorchElasticEnvironment.detect()
        found = Started(local, size // local, TorchElasticEnvironment() if elastic else LightningEnvironment())
    elif "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        if "SLURM_NTASKS_PER_NODE" not in os.environ:
            raise DeviceError(
                f"{os.environ['SLURM_NTASKS']} SLURM tasks",
                expected="as many on each machine",
                remedy="pass --ntasks-per-node instead of --ntasks",
            )
        tasks, nodes = int(os.environ["SLURM_NTASKS_PER_NODE"]), int(os.environ.get("SLURM_NNODES", "1"))
        found = Started(tasks, nodes, SLURMEnvironment())
    else:
        return None
    return found if found.devices * found.nodes > 1 else None


def kind_of_device(training: Training) -> str:
    """``cuda`` or ``cpu``.

    Raises:
        DeviceError: there is no GPU, or the precision needs one.
    """
    import torch

    present = torch.cuda.is_available()
    if training.device == "cuda" and not present:
        raise DeviceError(
            "training.device=cuda", expected="a GPU that torch can use", remedy="set training.device=cpu or auto"
        )
    device = "cuda" if present and training.device != "cpu" else "cpu"
    if device == "cpu" and training.precision == "16-mixed":
        raise DeviceError(
            "training.precision=16-mixed on a CPU", expected="a GPU", remedy="set training.precision=bf16-mixed"
        )
    return device


def number_of_devices(training: Training) -> int:
    """How many devices of this machine a recipe asks for.

    Raises:
        DeviceError: there are fewer, or the precision needs others.
    """
    device = kind_of_device(training)
    if training.devices != "auto":
        _require_devices(device, training.devices)
        return training.devices
    import torch

    return torch.cuda.device_count() if device == "cuda" else 1


def _require_devices(device: str, count: int) -> None:
    import torch

    if device == "cuda" and count > torch.cuda.device_count():
        raise DeviceError(
            f"{count} processes on a machine, a GPU each",
            expected=f"at most {torch.cuda.device_count()}, as many as torch sees here",
            remedy="lower training.devices, or what the launcher was told",
        )


def launched_fabric(training: Training, group: Started) -> Fabric:
    """Lightning Fabric in one of several processes: the same network in each, gradients averaged.

    Raises:
        DeviceError: the devices asked for are absent.
    """
    from lightning.fabric import Fabric

    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)  # each process would announce itself
    device = kind_of_device(training)
    _require_devices(device, group.devices)
    fabric = Fabric(
        accelerator=device,
        devices=group.devices,
        num_nodes=group.nodes,
        strategy="ddp",
        precision=training.precision,
        plugins=[group.environment],
    )
    if os.environ.get("LT_CLI_USED") != "1":  # else ``fabric run`` has done it
        fabric.launch()
    if fabric.global_rank:
        os.environ["HIERTREE_PROGRESS"] = "0"  # the first process alone speaks
    return fabric


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
    for rank in range(devices):
        answer, theirs = context.Pipe(duplex=False)
        place = {**shared, "LOCAL_RANK": str(rank), "RANK": str(rank)}
        process = context.Process(target=_take_part, args=(place, recipe.as_dict(), os.fspath(out), fresh, theirs))
        process.start()
        theirs.close()
        processes.append(process)
        answers.append(answer)
    try:
        with _passing_sigterm_on(processes):
            _until_one_fails(processes)
    finally:
        killed = _ended(processes)
    _tell(processes, [_told(answer) for answer in answers], killed)


def _take_part(place: dict[str, str], recipe: dict[str, Any], out: str, fresh: bool, answer: Connection) -> None:
    """One process: its place among the others, and the run as any launcher's process does it."""
    from hiertree.pipelines.train import train
    from hiertree.pipelines.training.reading import check_recipe

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
