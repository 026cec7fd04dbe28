"""The devices of a run: their number, the launcher of its processes, and Lightning Fabric."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hiertree.errors import DeviceError

from ..recipe.settings import TrainingSettings

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
