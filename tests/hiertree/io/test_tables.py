"""Reading tables: every cell as text, every broken file named."""

import csv
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiertree.errors import TableError
from hiertree.io.tables import LONGEST_CELL, integer_column, read_table, write_table


def write(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_byte_order_mark_crlf_quotes_and_line_breaks_are_read_as_published(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbfid,name\r\n1,"a, ""b"""\r\n\r\n2,"two\r\nlines"\r\n3,NA\r\n')
    table = read_table(path, required=["id"])
    assert table["name"].tolist() == ['a, "b"', "two\r\nlines", "NA"]
    assert table.index.tolist() == [2, 4, 6]


def test_cells_stay_text(tmp_path):
    table = read_table(write(tmp_path, "a,b,c\n007,,null\n1e3,nan,NaN\n"))
    assert table.to_numpy().tolist() == [["007", "", "null"], ["1e3", "nan", "NaN"]]


def test_a_packed_table_is_read_as_the_plain_one(tmp_path):
    content = b'\xef\xbb\xbfid,name\r\n1,"a, ""b"""\r\n\r\n2,"two\r\nlines"\r\n'
    expected, packed = write(tmp_path, content), write(tmp_path, gzip.compress(content), "t.csv.gz")
    assert read_table(packed).equals(read_table(expected))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,name\n1,a\n", "gzip"),
        (gzip.compress(b"id,name\n1,a\n" * 999)[:-9], "gzip"),
        (gzip.compress(b"id,name\n1,a\n")[:-8] + bytes(8), "gzip"),
        (gzip.compress(b"id,name\n1,\xff\n"), "line 1: bytes that are not UTF-8"),
        (gzip.compress(b"id,name\n" + bytes(1 << 27)), "130,491 bytes unpack to more than"),
    ],
    ids=["plain", "cut", "checksum", "encoding", "one line"],
)
def test_a_damaged_packed_table_is_named(tmp_path, content, message):
    with pytest.raises(TableError, match=rf"t\.csv\.gz.*{message}"):
        read_table(write(tmp_path, content, "t.csv.gz"))


def test_a_header_alone_gives_an_empty_table(tmp_path):
    table = read_table(write(tmp_path, "a,b\n"))
    assert table.shape == (0, 2)
    assert list(table.columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n3\n", r"line 3: 1 cells, '3': expected 2"),
        ('a,b\n1,"two\nlines"\n1,2,3\n', r"line 4: 3 cells"),
        ('a,b\n1,"open\n', r"line 2: unexpected end of data"),
        ('a,b\n1,"x"y\n', r"line 2: ',' expected after '\"'"),
        (b"a,b\n1,2\n\xff,3\n", r"line 3: bytes that are not UTF-8"),
        ("a,a\n1,2\n", r"several columns named 'a'"),
        ("a,b\n" + "x" * (LONGEST_CELL + 1) + ",1\n", r"line 2: field larger"),
    ],
    ids=["empty", "short row", "long row", "open quote", "stray quote", "encoding", "twice", "long cell"],
)
def test_broken_files_are_named_with_their_line(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_a_missing_column_lists_those_present_and_the_closest(tmp_path):
    path = write(tmp_path, "landmark,category\n1,x\n")
    with pytest.raises(TableError, match=r"no column 'landmark_id'.*'landmark', 'category'.*did you mean 'landmark'"):
        read_table(path, required=["landmark_id", "category"])


def test_a_missing_file_is_a_table_error(tmp_path):
    with pytest.raises(TableError, match="existing CSV or Parquet"):
        read_table(tmp_path / "absent.csv")


def test_the_process_wide_cell_limit_is_put_back(tmp_path):
    limit = csv.field_size_limit()
    with pytest.raises(TableError):
        read_table(write(tmp_path, "a,b\n1\n"))
    assert csv.field_size_limit() == limit


def test_parquet_gives_the_same_text_with_nulls_empty(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"id": pd.array([1, None], dtype="Int64"), "name": ["NA", None]}).to_parquet(path)
    table = read_table(path, required=["id"])
    assert table.to_numpy().tolist() == [["1", "NA"], ["", ""]]
    assert table.index.tolist() == [1, 2]
    pq.write_table(pa.table({"id": [1.0, float("nan")], "name": pa.array(["a", None]).dictionary_encode()}), path)
    assert read_table(path).to_numpy().tolist() == [["1", "a"], ["", ""]]


def test_a_file_that_is_not_parquet_is_refused(tmp_path):
    with pytest.raises(TableError, match="Parquet"):
        read_table(write(tmp_path, "a,b\n", name="t.parquet"))


def test_integers_keep_their_order(tmp_path):
    path = write(tmp_path, "id\n17\n-4\n 5\n")
    assert np.array_equal(integer_column(read_table(path), "id", path=path), [17, -4, 5])


@pytest.mark.parametrize("cell", ["x", "1.0", "1_000", "٣", '""', "9" * 19])
def test_an_id_that_is_not_an_integer_is_named(tmp_path, cell):
    path = write(tmp_path, f"id\n1\n{cell}\n")
    with pytest.raises(TableError, match=r"t\.csv, line 3: id .*expected an integer"):
        integer_column(read_table(path), "id", path=path)


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)] * 2),
        max_size=8,
    )
)
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    assert [tuple(row) for row in read_table(path).to_numpy().tolist()] == rows
    write_table(path, ["a", "b"], rows)
    assert [tuple(row) for row in read_table(path).to_numpy().tolist()] == rows


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_a_table_that_other_signs_divide_says_so_even_if_no_column_is_asked_for(tmp_path, sign):
    file = tmp_path / "t.csv"
    file.write_text(f"kind{sign}leaf\nlake{sign}Chelan\n")
    with pytest.raises(TableError, match=r"has one column.*separate the cells by commas"):
        read_table(file)
    file.write_text(f"a{sign}note\nof one column, with a sign in its name\n".replace(",", ""))
    assert read_table(file).shape == (1, 1)
