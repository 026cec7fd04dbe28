"""The process group of a command that a launcher started several times, and one message where it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from torch import distributed
from torch.distributed.rendezvous import rendezvous

from hiertree.errors import DeviceError, HiertreeError
from hiertree.metrics.engine.processes import Share, share_of_group

from .devices import detect_launch

_TIMEOUT = timedelta(days=7)
_ERRORS, _FAILED = "hiertree errors", 2


@contextmanager
def launched_group() -> Iterator[Share | None]:
    """A block in which the processes of torchrun or srun can talk, over gloo; None for a single process.

    Of an error that several processes have, one tells; where a process has ended, the others end too.
    """
    launch = detect_launch()
    if launch is None:
        yield None
        return
    environment = launch.environment
    os.environ.setdefault("MASTER_ADDR", environment.main_address)
    os.environ.setdefault("MASTER_PORT", str(environment.main_port))
    rank, size = environment.global_rank(), environment.world_size()
    store, *_ = next(iter(rendezvous("env://", rank, size, timeout=_TIMEOUT)))
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_TIMEOUT)
    if rank:
        os.environ["HIERTREE_PROGRESS"] = "0"  # only the first process reports
    try:
        yield share_of_group()
        distributed.barrier()  # none ends while others still wait for it
    except (HiertreeError, OSError):
        if not _is_first(store):
            raise SystemExit(_FAILED) from None
        raise
    except RuntimeError as error:
        if "gloo" not in str(error) and "onnection" not in str(error):
            raise
        if not _is_first(store):
            raise SystemExit(_FAILED) from None
        given, expected = f"one of {size} processes has ended", "all of them until the work is done"
        raise DeviceError(given, expected=expected, remedy="run the same command again") from error
    finally:
        distributed.destroy_process_group()


def local_device(name: str | None) -> str | None:
    """The device of this process on its machine, where only the kind of device is named."""
    launch = detect_launch()
    return f"cuda:{launch.environment.local_rank()}" if launch is not None and name == "cuda" else name


def _is_first(store: Any) -> bool:
    """Whether no other process has told of an error."""
    try:
        return bool(store.add(_ERRORS, 1) == 1)
    except RuntimeError:  # the first process, which holds the store, has ended
        return True
