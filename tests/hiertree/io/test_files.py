"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hiertree.io import files
from hiertree.io.files import replacing, replacing_folder, write_json, write_text


def test_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "new" / "a.txt"
    write_text(target, "first")
    with pytest.raises(ZeroDivisionError), replacing(target) as temporary:
        temporary.write_text(str(1 / 0))
    assert target.read_text() == "first"
    assert [entry.name for entry in target.parent.iterdir()] == ["a.txt"]
    assert target.stat().st_mode & 0o444 == 0o444 & ~_umask()


def test_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out"
    with replacing_folder(target) as temporary:
        (temporary / "a").write_text("1")
    with pytest.raises(ZeroDivisionError), replacing_folder(target) as temporary:
        (temporary / "b").write_text(str((temporary / "c").write_text("2") // 0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert [entry.name for entry in target.iterdir()] == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_folder_behind_a_link_is_replaced_where_it_lies(tmp_path):
    disk, link = tmp_path / "disk" / "run", tmp_path / "link"
    disk.parent.mkdir()
    link.symlink_to(disk)
    for name in ("first", "second"):  # the link leads nowhere, then to the first folder
        with replacing_folder(link) as temporary:
            (temporary / name).touch()
        assert link.is_symlink()
        assert [entry.name for entry in disk.iterdir()] == [name]
    assert [entry.name for entry in disk.parent.iterdir()] == ["run"]


def test_json_with_nan_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("named", [True, False])
def test_an_error_of_the_disk_names_the_file_that_was_to_be_written(tmp_path, named):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*table\.csv'"),
        replacing(tmp_path / "table.csv") as path,
    ):
        raise OSError(28, "No space left on device", *([str(path)] if named else []))
    with pytest.raises(OSError, match="other"), replacing_folder(tmp_path / "folder"):
        raise OSError(2, "No such file", "other")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from hiertree.io import files
with files.{function}(sys.argv[1]) as temporary:
    (temporary / "part" if temporary.is_dir() else temporary).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("function", ["replacing", "replacing_folder"])
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path, function):
    target = tmp_path / "model.json"
    subprocess.run([sys.executable, "-c", KILLED.format(function=function), target], check=False)
    assert [entry.name.startswith(".model") for entry in tmp_path.iterdir()] == [True]
    with getattr(files, function)(target) as temporary:
        (temporary / "whole" if temporary.is_dir() else temporary).write_text("whole")
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.json"]


@pytest.mark.parametrize("function", [files.replacing, files.replacing_folder])
def test_what_a_living_writer_or_somebody_else_writes_stays(tmp_path, function):
    target, foreign = tmp_path / "model.json", tmp_path / ".model-20240101.json"
    foreign.write_text("mine")
    with function(target) as first:
        (first / "a" if first.is_dir() else first).write_text("first")
        with function(target) as second:
            assert first.exists()
            (second / "a" if second.is_dir() else second).write_text("second")
    assert foreign.read_text() == "mine"
    assert (target / "a" if target.is_dir() else target).read_text() == "first"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_set_aside_by_a_killed_writer_comes_back(tmp_path):
    target = tmp_path / "out"
    write_text(tmp_path / ".out.hiertree-abcdefgh" / "earlier" / "a", "earlier")
    write_text(tmp_path / ".out.hiertree-abcdefgh" / "out" / "b", "never renamed")
    with pytest.raises(ZeroDivisionError), replacing_folder(target) as temporary:
        (temporary / "c").write_text(str(1 / 0))
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert [entry.name for entry in target.iterdir()] == ["a"]


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_text(tmp_path / "file" / "a.txt", "")
