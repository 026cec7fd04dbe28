"""Of several processes one writes, and a killed one hinders nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hiertree.errors import OutputError
from hiertree.io.files import locked_file, locked_folder, remove_abandoned_lock

HOLDER = """
import os, sys, time
from hiertree.io.files import locked_folder
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


def test_a_folder_is_locked_once(tmp_path):
    folder = tmp_path / "new" / "out"
    message = "out is in use by another process.*wait until it ends"
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
    with pytest.raises(OutputError, match="in use by another"), locked_folder(tmp_path / "out", seconds=0.2):
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


def test_a_link_where_a_lock_belongs_is_never_followed(tmp_path):
    (tmp_path / "target").write_text("of somebody")
    for end in ("target", "absent"):
        (tmp_path / ".hiertree-lock").symlink_to(tmp_path / end)
        with pytest.raises(OutputError, match=r"its lock .*hiertree-lock is a link"), locked_folder(tmp_path):
            pass
        (tmp_path / ".hiertree-lock").unlink()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("target", "of somebody")]


AS_USER = """
import os, sys, tempfile, time
from hiertree.errors import OutputError
from hiertree.io.files import locked_folder
with tempfile.TemporaryDirectory() as folder, locked_folder(folder):
    pass  # everything is imported, which another user may not read
os.umask(0o077)
os.setuid(int(sys.argv[2]))
try:
    with locked_folder(sys.argv[1]):
        print("locked", flush=True)
        time.sleep(float(sys.argv[3]))
except OutputError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(os, "setuid") or os.geteuid() != 0, reason="acts as two users")
def test_another_users_dead_lock_does_not_block_and_a_live_one_does():
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is below folders of this user alone
        Path(folder).chmod(0o777)
        _check_locks_of_two_users(Path(folder))


def _check_locks_of_two_users(folder):
    def as_user(user, seconds):
        words = [sys.executable, "-c", AS_USER, str(folder), str(user), str(seconds)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    holder = as_user(12345, 60)
    assert holder.stdout.readline() == "locked\n"
    assert "in use by another process" in as_user(23456, 0).communicate()[0]
    holder.kill()
    holder.communicate()
    assert (folder / ".hiertree-lock").stat().st_uid == 12345
    assert as_user(23456, 0).communicate()[0] == "locked\n"
    assert list(folder.iterdir()) == []
    (folder / ".hiertree-lock").touch(0o600)  # of this user, by another program
    assert "is another user's" in as_user(23456, 0).communicate()[0]


def test_many_that_take_turns_never_meet(tmp_path):
    script = """
import sys, time
from pathlib import Path
from hiertree.io.files import locked_folder
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
