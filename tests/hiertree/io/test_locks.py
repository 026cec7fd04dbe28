"""Of several processes one writes, and a killed one hinders nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from hiertree.errors import OutputError
from hiertree.io.locks import locked_file, locked_folder, remove_abandoned_lock

HOLDER = """
import os, sys, time
from hiertree.io.locks import locked_folder
with locked_folder(sys.argv[1]):
    child = os.fork() if sys.argv[2] == "with a child" else -1
    if child:
        print(child, flush=True)
    time.sleep(60)
"""


def hold(folder, child=""):
    """A process that holds the lock of a folder, and the id of the child that it has forked."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, folder, child], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_a_folder_is_locked_once_and_the_message_says_by_whom(tmp_path):
    folder = tmp_path / "new" / "out"
    message = rf"out is in use by process {os.getpid()} on "
    with locked_folder(folder), pytest.raises(OutputError, match=message), locked_folder(folder):
        pass
    assert not folder.exists()  # nothing was written
    with locked_folder(folder):
        (folder / "a").touch()
    assert [path.name for path in folder.iterdir()] == ["a"]


def test_a_file_has_its_lock_beside_it_and_a_folder_in_the_way_of_none(tmp_path):
    with locked_file(tmp_path / "store.sqlite"):
        assert [path.name for path in tmp_path.iterdir()] == [".store.sqlite.hiertree-lock"]
        second = locked_file(tmp_path / "store.sqlite")
        with locked_file(tmp_path / "other.sqlite"), pytest.raises(OutputError, match="in use"), second:
            pass
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file"), locked_folder(tmp_path / "file"):
        pass


def test_what_a_killed_process_left_is_removed_and_what_another_holds_is_not(tmp_path):
    process, _ = hold(tmp_path)
    remove_abandoned_lock(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".hiertree-lock"]
    process.kill()
    process.communicate()
    remove_abandoned_lock(tmp_path)
    assert list(tmp_path.iterdir()) == []
    remove_abandoned_lock(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_one_that_waits_goes_on_when_the_other_ends(tmp_path):
    process, _ = hold(tmp_path / "out")
    with pytest.raises(OutputError, match=f"by process {process.pid} on"), locked_folder(tmp_path / "out", seconds=0.2):
        pass
    process.kill()
    process.communicate()
    with locked_folder(tmp_path / "out", seconds=30):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_lock_ends_with_its_process_though_a_forked_child_lives_on(tmp_path):
    process, child = hold(tmp_path / "out", "with a child")
    assert child > 0
    try:
        process.kill()
        process.wait()
        with locked_folder(tmp_path / "out", seconds=5):
            os.kill(child, 0)  # it is alive
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_many_that_take_turns_never_meet(tmp_path):
    script = """
import sys, time
from pathlib import Path
from hiertree.io.locks import locked_folder
for _ in range(20):
    with locked_folder(sys.argv[1], seconds=60):
        inside = Path(sys.argv[2])
        inside.mkdir()
        time.sleep(0.002)
        inside.rmdir()
"""
    words = [sys.executable, "-c", script, str(tmp_path / "out"), str(tmp_path / "inside")]
    processes = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
