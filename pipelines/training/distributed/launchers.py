"""Detect the launcher that started this process as one of several: torchrun, ``fabric run``, SLURM or hiertree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from hiertree.errors import DeviceError

if TYPE_CHECKING:
    from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment


class Launch(NamedTuple):
    """Processes that a launcher started.

    Attributes:
        devices: processes on each machine.
        nodes: machines.
        environment: from which Fabric reads this process's rank.
    """

    devices: int
    nodes: int
    environment: ClusterEnvironment


def detect_launch() -> Launch | None:
    """Describe the processes that a launcher started; None for a single process.

    Raises:
        DeviceError: SLURM does not say how many tasks run on each machine.
    """
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    if "LOCAL_RANK" in os.environ and "LOCAL_WORLD_SIZE" in os.environ:
        local, size = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        elastic = TorchElasticEnvironment.detect()
        found = Launch(local, size // local, TorchElasticEnvironment() if elastic else LightningEnvironment())
    elif "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        if "SLURM_NTASKS_PER_NODE" not in os.environ:
            raise DeviceError(
                f"{os.environ['SLURM_NTASKS']} SLURM tasks without a number per machine",
                expected="the same number on each machine",
                remedy="pass --ntasks-per-node instead of --ntasks",
            )
        tasks, nodes = int(os.environ["SLURM_NTASKS_PER_NODE"]), int(os.environ.get("SLURM_NNODES", "1"))
        found = Launch(tasks, nodes, SLURMEnvironment())
    else:
        return None
    return found if found.devices * found.nodes > 1 else None
