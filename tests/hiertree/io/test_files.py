"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os

import pytest

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
