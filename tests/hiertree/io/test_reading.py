"""What fails while a file is read is one typed error that names it."""

from __future__ import annotations

import io
import json
import zipfile
import zlib

import numpy as np
import pytest

from hiertree.errors import CheckpointError, ImageError, MissingPackageError, OptionError, TableError
from hiertree.io.array_files import read_array, reading_arrays
from hiertree.io.reading import read_json, read_json_object, read_text, reading_file

EXPECTED = "an array"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("first\nsecond"), "first"),
        (EOFError(), "EOFError"),
        (KeyError("paths"), "'paths'"),
        (zlib.error("bad block"), "bad block"),
        (MemoryError(), "MemoryError"),
        (UnboundLocalError("name"), "name"),
        (FileNotFoundError(2, "No such file or directory", "/elsewhere"), "No such file or directory"),
        (RecursionError("maximum recursion depth exceeded"), "nested too deeply"),
        (ValueError("x" * 60_000), "x" * 200 + "…"),
    ],
)
def test_any_failure_is_one_error_that_names_the_file(error, reason):
    door = reading_file("folder/a.npz", expected="rows", remedy="look again", kind=CheckpointError)
    with pytest.raises(CheckpointError) as caught, door:
        raise error
    assert str(caught.value) == f"folder/a.npz cannot be read ({reason}): expected rows; look again"
    assert caught.value.__cause__ is error


def test_errors_of_hiertree_gain_the_name():
    door, message = reading_file("folder/a.csv", expected="rows"), r"^folder/a\.csv: bad: expected x$"
    with pytest.raises(TableError, match=message), door:
        raise ImageError("bad", expected="x")
    with pytest.raises(ImageError, match=r"^line 3 of a\.csv$"), reading_file("folder/a.csv", expected="rows"):
        raise ImageError("line 3 of a.csv")


@pytest.mark.parametrize("error", [MissingPackageError("no x"), ImportError("no y"), KeyboardInterrupt()])
def test_what_is_not_the_files_fault_passes(error):
    with pytest.raises(type(error)) as caught, reading_file("a.csv", expected="rows"):
        raise error
    assert caught.value is error


def test_text_that_is_not_utf8_names_its_line(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\ntwo\n\xe9\n")
    with pytest.raises(OptionError, match=r"a\.txt, line 3: bytes that are not UTF-8"):
        read_text(file, kind=OptionError)
    with pytest.raises(TableError, match=r"missing\.txt cannot be read \(No such file"):
        read_text(tmp_path / "missing.txt")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is listed twice"),
        ('{"a": NaN}', "the number NaN"),
        ("[1, -Infinity]", "the number -Infinity"),
        ("[" * 100_000, "nested too deeply"),
        ("", "Expecting value"),
        ("9" * 5000, "Exceeds the limit"),
    ],
)
def test_json_loses_no_value(tmp_path, text, reason):
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(TableError, match=rf"a\.json cannot be read \({reason}"):
        read_json(file, expected="JSON")


def test_json_may_hold_other_kinds_where_asked(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("\ufeff[1, Infinity]", encoding="utf-8")
    assert read_json(file, expected="JSON", finite=False) == [1, float("inf")]
    file.write_text(json.dumps([1]))
    with pytest.raises(TableError, match=r"a\.json cannot be read \(a list instead of an object\)"):
        read_json_object(file, expected="JSON")


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("values", [np.arange(6.0).reshape(2, 3), np.zeros((0, 4)), np.asfortranarray(np.eye(3))])
def test_array_is_the_one_that_numpy_wrote(tmp_path, values, mapped):
    np.save(tmp_path / "a.npy", values)
    array = read_array(tmp_path / "a.npy", expected=EXPECTED, mapped=mapped)
    assert array.dtype == values.dtype
    np.testing.assert_array_equal(array, values)


def _damages():
    buffer = io.BytesIO()
    np.save(buffer, np.arange(120, dtype=np.float32).reshape(40, 3))
    content = buffer.getvalue()
    objects = io.BytesIO()
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, a=np.zeros(3))
    return {
        "fewer rows": content.replace(b"(40, 3)", b"(20, 3)"),
        "more rows than any memory": content.replace(b"(40, 3), }        ", b"(4000000000000000000, 3), }"[:17]),
        "negative": content.replace(b"(40, 3)", b"(-4, 3)"),
        "cut": content[:-1],
        "twice": content + content,
        "empty": b"",
        "objects": objects.getvalue(),
        "an archive": archive.getvalue(),
        "a header that is no Python": content.replace(b"'shape'", b"'shape("),
    }


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("damage", _damages())
def test_array_of_another_size_than_its_file_is_refused(tmp_path, damage, mapped):
    file = tmp_path / "a.npy"
    file.write_bytes(_damages()[damage])
    with pytest.raises(TableError, match=r"a\.npy cannot be read \(.*\): expected an array"):
        read_array(file, expected=EXPECTED, mapped=mapped)


def test_arrays_of_an_archive_are_read_when_asked_for(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", small=np.arange(3), large=np.zeros(1 << 28, np.uint8))
    with reading_arrays(tmp_path / "a.npz", expected=EXPECTED) as arrays:
        assert arrays.headers["large"].shape == (1 << 28,)
        assert arrays.headers["large"].empty().shape == (1 << 28,)
        np.testing.assert_array_equal(arrays["small"], [0, 1, 2])
    error = pytest.raises(TableError, match=r"a\.npz cannot be read \('absent'\)")
    with error, reading_arrays(tmp_path / "a.npz", expected=EXPECTED) as arrays:
        arrays["absent"]


def test_archive_with_a_name_twice_or_fewer_rows_than_bytes_is_refused(tmp_path):
    file, buffer = tmp_path / "a.npz", io.BytesIO()
    np.save(buffer, np.arange(40))
    for names, content, reason in (
        (["paths.npy", "paths"], buffer.getvalue(), "two arrays named 'paths'"),
        (["paths.npy"], buffer.getvalue().replace(b"(40,)", b"(20,)"), "448 bytes for an array of shape"),
    ):
        with zipfile.ZipFile(file, "w") as archive:
            for name in names:
                archive.writestr(name, content)
        with (
            pytest.raises(TableError, match=rf"a\.npz cannot be read \({reason}"),
            reading_arrays(file, expected=EXPECTED),
        ):
            pass


def test_flipped_bit_in_an_archive_is_noticed(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, values=np.arange(1000.0))
    content = bytearray(file.read_bytes())
    content[4000] ^= 1
    file.write_bytes(content)
    with (
        pytest.raises(TableError, match=r"a\.npz cannot be read \(Bad CRC-32"),
        reading_arrays(file, expected=EXPECTED) as arrays,
    ):
        arrays["values"]
