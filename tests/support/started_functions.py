"""What processes do that ``run_processes`` starts, in a module that a new process imports quickly."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from hiertree.errors import ImageError
from hiertree.pipelines.training.distributed.group import run_processes


def note_place(folder: str) -> None:
    """Write down the place that the environment gives this process."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    Path(folder, os.environ["RANK"]).write_text(" ".join(os.environ[name] for name in names))


def wait_for_sigterm(folder: str) -> None:
    """Write down the process id; end at SIGTERM as a run does, and after a minute in any case."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Path(folder, f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
    time.sleep(60)


def fail(folder: str, kind: str) -> None:
    """Let the second process end badly while the first one waits for it."""
    if os.environ["RANK"] == "0":
        wait_for_sigterm(folder)
    if kind == "typed":
        raise ImageError("one.png", expected="an image")
    if kind == "crash":
        raise RuntimeError("connection closed")
    if kind == "interrupted":
        raise KeyboardInterrupt
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
    run_processes(wait_for_sigterm, sys.argv[1], count=2)
