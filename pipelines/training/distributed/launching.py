"""Where a run computes: in a process alone, or in one of several that a launcher started, one for each device."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from hiertree.errors import DeviceError

from ..recipe.settings import TrainingSettings

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment


class Started(NamedTuple):
    """Processes that a launcher started: so many on each of so many machines, and how Fabric finds this one's rank."""

    devices: int
    nodes: int
    environment: ClusterEnvironment


def started() -> Started | None:
    """The processes that torchrun, ``fabric run``, SLURM or this package started; None for a process alone.

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


def kind_of_device(training: TrainingSettings) -> str:
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


def number_of_devices(training: TrainingSettings) -> int:
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


def launched_fabric(training: TrainingSettings, group: Started) -> Fabric:
    """Lightning Fabric in one of several processes: the same network in each, gradients averaged.

    Raises:
        DeviceError: the devices asked for are absent.
    """
    from lightning.fabric import Fabric

    for announcing in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(announcing).setLevel(logging.WARNING)
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
