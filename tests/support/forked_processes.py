"""Processes for tests of several: forked from one that has imported what they take seconds to import."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from torch.multiprocessing import start_processes

IMPORTED = (
    "hiertree.losses",
    "hiertree.metrics.retrieval_metric",
    "hiertree.pipelines.training.run.experiment",
)


def run_together(function: Callable[..., object], *arguments: object, count: int) -> None:
    """Call ``function(rank, *arguments)`` in new processes, and wait for all; their environment is the session's."""
    start_processes(function, arguments, nprocs=count, start_method=_method())


def started(function: Callable[..., object], *arguments: object) -> BaseProcess:
    """A new process that calls ``function(*arguments)``."""
    process = multiprocessing.get_context(_method()).Process(target=function, args=arguments)
    process.start()
    return process


def _method() -> str:
    multiprocessing.set_forkserver_preload(list(IMPORTED))
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
