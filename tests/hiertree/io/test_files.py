"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    assert target.stat().st_mode & 0o777 == (tmp_path / "new").stat().st_mode & 0o666


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


@pytest.mark.parametrize("with_name", [True, False])
def test_an_error_of_the_disk_names_the_file_that_was_to_be_written(tmp_path, with_name):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*table\.csv'"),
        replacing(tmp_path / "table.csv") as path,
    ):
        raise OSError(28, "No space left on device", *([str(path)] if with_name else []))
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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed on Linux")
def test_nothing_is_open_when_it_is_renamed_and_flushed_files_are_open_for_writing(tmp_path, monkeypatch):
    renamed, flushed, replace, sync = [], [], os.replace, os.fsync

    def replace_closed(source, target):
        open_files = {os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir()}
        assert not {path for path in open_files if path.startswith((str(source), str(target)))}  # as on Windows
        renamed.append(Path(target).name)
        replace(source, target)

    def sync_writable(handle):
        fcntl = pytest.importorskip("fcntl")
        assert fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        flushed.append(handle)
        sync(handle)

    monkeypatch.setattr(os, "replace", replace_closed)
    monkeypatch.setattr(os, "fsync", sync_writable)
    write_text(tmp_path / "a.txt", "a")
    for _ in range(2):
        with replacing_folder(tmp_path / "folder") as temporary:
            (temporary / "b").write_text("b")
    assert renamed == ["a.txt", "folder", "earlier", "folder"]
    assert len(flushed) == 3


@pytest.mark.parametrize("name", ["n" * 251 + ".csv", "ü" * 125 + ".json", "earlier", ".hidden"])
def test_every_legal_name_is_written(tmp_path, name):
    write_text(tmp_path / name, "first")
    write_text(tmp_path / name, "second")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "second")]
    (tmp_path / name).unlink()
    for text in ("first", "second"):
        with replacing_folder(tmp_path / name) as temporary:
            (temporary / "a").write_text(text)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "a").read_text() == "second"


@pytest.mark.skipif(os.name == "nt", reason="pipes, devices and links of POSIX")
def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link.txt").symlink_to("far/a.txt")
    for text in ("first", "second"):
        write_text(tmp_path / "link.txt", text)
    assert (tmp_path / "link.txt").is_symlink()
    assert [(path.name, path.read_text()) for path in (tmp_path / "far").iterdir()] == [("a.txt", "second")]
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        write_text(tmp_path / "pipe", "through")
        assert reader.stdout.read() == "through"
    assert (tmp_path / "pipe").is_fifo()
    write_text("/dev/null", "nowhere")
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(os.name == "nt", reason="the mode of files of POSIX")
def test_the_mask_of_the_process_is_obeyed_and_never_changed(tmp_path, monkeypatch):
    mask = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda _: pytest.fail("for a moment, other threads would make open files"))
        write_text(tmp_path / "a.txt", "a")
        with replacing_folder(tmp_path / "folder") as temporary:
            (temporary / "b").write_text("b")
    finally:
        monkeypatch.undo()
        os.umask(mask)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "a.txt", tmp_path / "folder", tmp_path / "folder/b")]
    assert modes == [0o640, 0o750, 0o640]
