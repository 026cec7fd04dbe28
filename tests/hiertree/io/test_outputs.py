"""No output overwrites an input, another output, or a file that hiertree did not write."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hiertree.errors import OutputError
from hiertree.io.files import write_json, write_text
from hiertree.io.provenance import check_outputs, is_written_by_hiertree, manifest, manifest_beside, recording


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labels.csv").write_text("a\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def link(kind, target):
    """Another name of a file."""
    neighbor = target.with_name(f"{kind}.csv")
    if kind == "symbolic":
        neighbor.symlink_to(target)
    elif kind == "hard":
        os.link(target, neighbor)
    return {"relative": Path("data/../data/labels.csv"), "absolute": target}.get(kind, neighbor)


@pytest.mark.parametrize("output", ["data/labels.csv/out.json", "data/labels.csv/deep/out.json"])
def test_a_path_below_a_file_is_no_output(folder, output):
    with pytest.raises(OutputError, match=r"lies below labels\.csv, which is not a folder"):
        check_outputs([output])


@contextmanager
def as_an_ordinary_user():
    """Root may write everywhere: be nobody for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


@pytest.mark.skipif(not hasattr(os, "setresuid"), reason="users of Linux")
def test_an_output_in_a_read_only_folder_is_refused_before_the_work_begins():
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        closed, open_folder = Path(name) / "closed", Path(name) / "opened"
        for folder, mode in ((closed, 0o555), (open_folder, 0o777)):
            folder.mkdir()
            folder.chmod(mode)
        with as_an_ordinary_user():
            check_outputs([open_folder / "new" / "out.json"])
            for output in (closed / "out.json", closed / "new" / "out.json"):
                with pytest.raises(OutputError, match=r"closed is read-only"):
                    check_outputs([output])
                with pytest.raises(OutputError, match=r"closed is read-only"):
                    check_outputs([], folders=[output])
        closed.chmod(0o755)


@pytest.mark.parametrize("kind", ["relative", "absolute", "symbolic", "hard"])
def test_an_input_is_no_output_under_any_name(folder, kind):
    output = link(kind, folder / "data" / "labels.csv")
    with pytest.raises(OutputError, match="is also an input"):
        check_outputs([output], inputs=["data/labels.csv"], force=True)


def test_a_file_that_does_not_exist_yet_is_no_output_if_it_is_an_input(folder):
    (folder / "dangling.csv").symlink_to(folder / "new.csv")
    with pytest.raises(OutputError, match="also an input"):
        check_outputs(["dangling.csv"], inputs=["new.csv"])


def test_nothing_is_written_inside_an_input_folder(folder):
    (folder / "linked").symlink_to(folder / "data")
    for output in ("data/out.csv", "linked/deep/out.csv"):
        with pytest.raises(OutputError, match="inside the input folder data"):
            check_outputs([output], inputs=["data"], force=True)
    with pytest.raises(OutputError, match="inside the input folder"):
        check_outputs([], folders=["data/embedded"], inputs=["data"])
    check_outputs(["data2.csv"], inputs=["data"])


def test_a_folder_with_an_input_is_not_replaced_but_may_gain_files(folder):
    with pytest.raises(OutputError, match=r"labels\.csv, an input, inside"):
        check_outputs(["data"], inputs=["data/labels.csv"], force=True)
    check_outputs([], folders=["data"], inputs=["data/labels.csv"], force=True)


@pytest.mark.parametrize("second", ["same.csv", "./same.csv", "SAME.csv", "linked/same.csv"])
def test_two_outputs_are_two_files_on_every_disk(folder, second):
    (folder / "linked").symlink_to(folder)
    with pytest.raises(OutputError, match="named twice"):
        check_outputs(["same.csv", second])
    check_outputs(["same.csv", None, "different.csv"])


def test_a_foreign_file_is_replaced_only_by_force(folder):
    content = (folder / "data" / "labels.csv").read_bytes()
    with pytest.raises(OutputError, match=r"hiertree did not write it.*--force"):
        check_outputs(["data/labels.csv"])
    check_outputs(["data/labels.csv"], force=True)
    assert (folder / "data" / "labels.csv").read_bytes() == content


def test_an_own_file_is_replaced_until_somebody_edits_it(folder):
    table = folder / "table.csv"
    with recording([table], command="example", parameters={}, inputs=[]):
        write_text(table, "a,b\n")
    check_outputs([table])
    table.write_text("a,c\n")
    with pytest.raises(OutputError, match="as it is now"):
        check_outputs([table])


def test_json_with_a_manifest_and_files_of_a_manifest_are_own(folder):
    write_json(folder / "means.json", {"means": {}, "manifest": manifest(command="example", parameters={})})
    record = manifest(command="example", parameters={}, outputs=["data/labels.csv"])
    write_json(folder / "data" / "manifest.json", record)
    assert is_written_by_hiertree("means.json")
    assert is_written_by_hiertree("data/labels.csv")
    for foreign in ('{"manifest": 3}', "[", "[" * 100_000, '{"means": 1}'):
        (folder / "foreign.json").write_text(foreign)
        assert not is_written_by_hiertree("foreign.json")


def test_a_folder_is_new_empty_or_marked(folder):
    (folder / "empty").mkdir()
    check_outputs([], folders=["new", "empty"])
    with pytest.raises(OutputError, match="a folder of other files"):
        check_outputs([], folders=["data"])
    check_outputs([], folders=["data"], marks=("manifest.json", "labels.csv"))
    check_outputs(["data"], force=True)


def test_an_empty_file_may_be_replaced(folder):
    (folder / "empty.csv").touch()
    check_outputs(["empty.csv"])


@pytest.mark.skipif(os.name == "nt", reason="pipes and devices of POSIX")
def test_pipes_and_devices_are_outputs_and_the_name_of_an_open_file_is_not(folder):
    os.mkfifo(folder / "pipe")
    check_outputs(["pipe", "/dev/null"])
    with (folder / "result.json").open("w") as stream:
        descriptor = f"/dev/fd/{stream.fileno()}"
        (folder / "linked.json").symlink_to(descriptor)
        for output in (descriptor, "linked.json"):
            with pytest.raises(OutputError, match="leads to an open file: expected a file or a pipe; name the file it"):
                check_outputs([output], force=True)


def test_a_manifest_beside_an_output_is_an_output_too(folder):
    table = folder / "table.csv"
    (folder / "table.csv.manifest.json").write_text('{"mine": 1}')
    assert not is_written_by_hiertree(manifest_beside(table))
    with recording([table], command="example", parameters={}, inputs=["data/labels.csv"]):
        write_text(table, "a,b\n")
    assert is_written_by_hiertree(manifest_beside(table))


@pytest.mark.parametrize("old_content", [None, "a,b\n"])
def test_wherever_a_writer_stops_the_file_that_is_there_is_listed(folder, old_content):
    table, replace = folder / "table.csv", Path.replace
    if old_content is not None:
        with recording([table], command="example", parameters={}, inputs=[]):
            write_text(table, old_content)

    def stopped(source, target):
        if target == table:
            raise KeyboardInterrupt
        return replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", stopped)
        with pytest.raises(KeyboardInterrupt), recording([table], command="example", parameters={}, inputs=[]):
            write_text(table, "a,c\n")
    assert (table.read_text() if table.exists() else None) == old_content
    check_outputs([table])
    with recording([table], command="example", parameters={}, inputs=[]):
        write_text(table, "a,c\n")
    check_outputs([table])
    assert sorted(path.name for path in folder.iterdir()) == ["data", "table.csv", "table.csv.manifest.json"]
