"""Loaders with workers where shared memory is small or full, or where no more files can be opened."""

from __future__ import annotations

import subprocess
import sys

import pytest
import small_machine

_MOUNT = "mount -t tmpfs -o size={size} tmpfs /dev/shm"


def answer(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def with_shared_memory(size):
    """What the script prints where /dev/shm has this size, in a mount namespace of its own."""
    if (
        sys.platform != "linux"
        or subprocess.run(
            ["unshare", "-m", "sh", "-c", _MOUNT.format(size=size)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("no permission to mount")
    script = f'{_MOUNT.format(size=size)} && exec "$@"'
    return answer("unshare", "-m", "sh", "-c", script, "sh", sys.executable, small_machine.__file__, "memory")


def test_batches_larger_than_shared_memory_arrive_whole():
    assert with_shared_memory("256k") == "[0, 1, 2, 3]\n"


def test_full_shared_memory_is_one_error_that_says_what_to_do():
    assert with_shared_memory("4k").startswith(
        "images.workers=1: processes that decode images do not start ([Errno 28] No space left on device): expected "
        "room for them, in /dev/shm too; set images.workers=0, or raise the limit"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="counts the open files in /proc")
def test_worker_that_cannot_send_ends_with_an_error_instead_of_being_waited_for():
    assert answer(sys.executable, small_machine.__file__, "files").startswith(
        "a process that decodes images has ended (DataLoader worker (pid"
    )
