"""What launchers tell the processes that they start. Loads no torch."""

from __future__ import annotations

import os

_VARIABLES = (  # torchrun and fabric run; SLURM: those of the rank and the number of processes, and one more
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"),
)


def launched() -> tuple[int, int] | None:
    """The rank of this process and the number of processes that a launcher started; None for a single one."""
    for names in _VARIABLES:
        if all(name in os.environ for name in names):
            rank, size = (int(os.environ[name]) for name in names[:2])
            return (rank, size) if size > 1 else None
    return None


def leave_launch() -> None:
    """Make this process look as if no launcher had started it."""
    for name in (*(name for names in _VARIABLES for name in names), "LOCAL_WORLD_SIZE"):
        os.environ.pop(name, None)
