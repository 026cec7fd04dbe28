"""The processes of a command: devices, Fabric, a launcher or this one; stopped by a signal, ended with one message."""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from torch import distributed
from torch.distributed.rendezvous import rendezvous
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from hiertree.errors import DeviceError, HiertreeError, TrainingError
from hiertree.metrics.engine.blocks import ProcessGroup, current_group

from ..recipe.settings import TrainingSettings
from .processes import ALONE, Processes

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment


class Launch(NamedTuple):
    """Processes that a launcher started."""

    devices: int  # processes on each machine
    nodes: int  # machines
    environment: ClusterEnvironment  # from which Fabric reads this process's rank


def detect_launch() -> Launch | None:
    """Describe the processes that a launcher started; None for a single process."""
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    if "LOCAL_RANK" in os.environ and "LOCAL_WORLD_SIZE" in os.environ:
        local, size = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        elastic = TorchElasticEnvironment.detect()
        launch = Launch(local, size // local, TorchElasticEnvironment() if elastic else LightningEnvironment())
    elif "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        tasks_of_nodes = re.fullmatch(r"(\d+)(\(x\d+\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
        if tasks_of_nodes is not None:  # as with --ntasks-per-node, without which Fabric refuses the tasks
            os.environ.setdefault("SLURM_NTASKS_PER_NODE", tasks_of_nodes[1])
        if "SLURM_NTASKS_PER_NODE" not in os.environ:
            raise DeviceError(
                f"{os.environ['SLURM_NTASKS']} SLURM tasks without a number per machine",
                expected="the same number on each machine",
                remedy="pass --ntasks-per-node instead of --ntasks",
            )
        tasks, nodes = int(os.environ["SLURM_NTASKS_PER_NODE"]), int(os.environ.get("SLURM_NNODES", "1"))
        launch = Launch(tasks, nodes, SLURMEnvironment())
    else:
        return None
    return launch if launch.devices * launch.nodes > 1 else None


def number_of_devices(training: TrainingSettings) -> int:
    """Number of devices of this machine that a recipe asks for."""
    device = _device_type(training)
    if training.devices != "auto":
        _require_devices(device, training.devices)
        return training.devices
    import torch

    return torch.cuda.device_count() if device == "cuda" else 1


def build_fabric(training: TrainingSettings, launch: Launch | None = None) -> Fabric:
    """Set up Lightning Fabric on the device and with the precision that a recipe asks for."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    device, precision = _device_type(training), training.precision
    if launch is None:
        # else Fabric looks for SLURM's, and refuses a job script's tasks before srun
        environment = LightningEnvironment()
        return Fabric(accelerator=device, devices=1, precision=precision, plugins=[environment])
    _require_devices(device, launch.devices)
    shape: Any = {"devices": launch.devices, "num_nodes": launch.nodes, "plugins": [launch.environment]}
    fabric = Fabric(accelerator=device, strategy="ddp", precision=precision, **shape)
    if os.environ.get("LT_CLI_USED") != "1":  # ``fabric run`` has launched it already
        fabric.launch()
    if fabric.global_rank:
        os.environ["HIERTREE_PROGRESS"] = "0"  # only the first process reports
    return fabric


def _device_type(training: TrainingSettings) -> str:
    import torch

    has_gpu = torch.cuda.is_available()
    if training.device == "cuda" and not has_gpu:
        remedy = "set training.device=cpu or auto"
        raise DeviceError("training.device=cuda", expected="a GPU that torch can use", remedy=remedy)
    device = "cuda" if has_gpu and training.device != "cpu" else "cpu"
    if device == "cpu" and training.precision == "16-mixed":
        remedy = "set training.precision=bf16-mixed"
        raise DeviceError("training.precision=16-mixed on a CPU", expected="a GPU", remedy=remedy)
    return device


def _require_devices(device: str, count: int) -> None:
    import torch

    if device == "cuda" and count > torch.cuda.device_count():
        raise DeviceError(
            f"{count} processes on a machine, one GPU each",
            expected=f"at most {torch.cuda.device_count()}, the number of GPUs that torch finds",
            remedy="lower training.devices, or the launcher's number of processes",
        )


STOP_SIGNALS = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))  # the last: a closed terminal
STOPPED = 128 + signal.SIGTERM  # the status of what has obeyed either
STOPPED_EARLY = "stopped by {} before the first step; run the same command to start again"
_TIMEOUT = timedelta(days=7)
_SECONDS_TO_END = 10.0  # for the other processes once one has failed
_FAILED = 2


class _StoppedEarly(SystemExit):
    """A signal to stop before the first step."""


class StopRequest:
    """Whether this process, or another of the run, has been told to stop, by SIGTERM or SIGHUP."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self._processes, self._received = processes, 0  # the number of the signal

    @contextmanager
    def listening(self, *, before_steps: bool = False) -> Iterator[None]:
        """A block in which a signal is noted, or ends the process if there is nothing to save yet.

        Where a library swallows that end, the request remains.
        """

        def note(received: int, _frame: FrameType | None) -> None:
            self._received = received
            if before_steps:
                raise _StoppedEarly(STOPPED)

        try:
            with _handling(note):
                yield
        except _StoppedEarly:
            print(STOPPED_EARLY.format(self._name), file=sys.stderr)
            raise

    def requested(self) -> bool:
        """Whether any process has been told to stop; all call this together and get the same answer."""
        return self._processes.any(self._received > 0)

    def obey(self, progress: str) -> NoReturn:
        """Exit with status 143; ``progress``, "step 3" for instance, must have been saved."""
        if self._processes.is_first:
            print(
                f"stopped by {self._name} after {progress}; run the same command to go on from there", file=sys.stderr
            )
        raise SystemExit(STOPPED)

    @property
    def _name(self) -> str:
        return signal.Signals(self._received or signal.SIGTERM).name


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """A block in which the signals to stop have this handler; ``nohup``'s choice to ignore one stands.

    Only the main thread can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [code for code in STOP_SIGNALS if signal.getsignal(code) is not signal.SIG_IGN]
    previous_handlers = {code: signal.signal(code, handler) for code in handled}
    try:
        yield
    finally:
        for code, previous in previous_handlers.items():
            signal.signal(code, previous)


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

    def forward(_number: int, _frame: FrameType | None) -> None:
        for process in context.processes:
            process.terminate()

    try:
        with _handling(forward):
            while not context.join(grace_period=_SECONDS_TO_END):
                pass
    except KeyboardInterrupt:
        for process in context.processes:
            process.terminate()
        raise
    except ProcessExitedException as error:
        status = error.exit_code
        if status in (STOPPED, *(-code for code in STOP_SIGNALS)):
            if status != STOPPED:
                print(STOPPED_EARLY.format(signal.Signals.SIGTERM.name), file=sys.stderr)
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
