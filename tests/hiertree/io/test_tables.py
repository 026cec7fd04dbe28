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
from packing import pack

from hiertree.errors import TableError
from hiertree.io.tables import (
    LONGEST_CELL,
    PACKED_SUFFIXES,
    are_names,
    integer_column,
    is_empty,
    read_table,
    write_table,
)


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


@pytest.mark.parametrize("suffix", PACKED_SUFFIXES)
def test_a_packed_table_is_read_as_the_plain_one(tmp_path, suffix):
    content = b'\xef\xbb\xbfid,name\r\n1,"a, ""b"""\r\n\r\n2,"two\r\nlines"\r\n'
    pack(tmp_path / f"t.csv{suffix}", content)
    assert read_table(tmp_path / f"t.csv{suffix}").equals(read_table(write(tmp_path, content)))


def test_blank_lines_of_a_sheet_are_no_rows_and_a_number_names_a_column(tmp_path):
    frame = pd.DataFrame({"file": ["a.jpg", None, "b.jpg"], 2023: ["lake", " ", ""]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    table = read_table(tmp_path / "t.xlsx", required=["file", "2023"])
    assert (table.index.tolist(), table.to_numpy().tolist()) == ([2, 4], [["a.jpg", "lake"], ["b.jpg", ""]])


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "sep.csv", "end.csv", "t.PARQUET", "t.pq", "t.xlsx", "t.csv.zst"])
@pytest.mark.parametrize("index", ["none", "range", "filtered", "named", "text"])
def test_what_pandas_writes_is_read_without_its_index(tmp_path, name, index):
    """A frame's index is no column of data; one with a name comes first, as ``reset_index`` puts it."""
    frame = pd.DataFrame({"file": ["a.jpg", "b c.jpg", "d.jpg"], "kind": ["NA", "lake", "007"], "n": [3, 1, 2]})
    frame = frame if index in ("none", "range") else frame.iloc[[2, 0, 1]]
    frame = frame.set_index("file") if index == "named" else frame.set_index(pd.Index(["x1", "x2", "x3"]))
    if index not in ("named", "text"):
        frame = frame.reset_index(drop=True) if index in ("none", "range") else frame.set_axis([7, 3, 5])
    options = {"index": index != "none"}
    path = tmp_path / name
    if name.endswith(("PARQUET", "pq")):
        frame.to_parquet(path, **options)
    elif name == "t.xlsx":
        frame.to_excel(path, **options)
    else:
        delimiter = {"t.tsv": "\t", "sep.csv": ";"}.get(name, ",")
        text = ("sep=;\n" if name == "sep.csv" else "") + frame.to_csv(sep=delimiter, **options)
        text = text.replace("\n", ",,\n") if name == "end.csv" else text
        pack(path, text.encode()) if name.endswith("zst") else path.write_text(text)
    table = read_table(path)
    if index == "named" and options["index"]:
        frame = frame.reset_index()
    expected = frame.astype(str).to_numpy().tolist()
    columns = list(frame.columns)
    if index == "text":  # names of rows, perhaps
        assert table.iloc[:, 0].tolist() == ["x1", "x2", "x3"]
        table = table.iloc[:, 1:]
    assert (list(table.columns), table.to_numpy().tolist()) == (columns, expected)


def test_cells_in_a_column_without_a_name_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"t\.csv, line 3: '3': expected a name for each column"):
        read_table(write(tmp_path, "a,b,\n1,2,\n1,2,3\n"))


def test_lists_in_parquet_are_values_between_bars(tmp_path):
    pd.DataFrame({"id": [1, 2, 3], "values": [["lake", "dam"], [], None]}).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet")["values"].tolist() == ["lake|dam", "", ""]


def test_small_files_that_unpack_to_huge_ones_are_refused_at_once(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(b"a,b\n" + b"1,2\n" * 20_000_000)
    ones = np.zeros(2 * 10**8, np.int8)
    pq.write_table(pa.table({"a": ones}), tmp_path / "t.parquet", compression="zstd")
    for name in ("t.csv.gz", "t.parquet"):
        with pytest.raises(TableError, match=rf"{name}.* bytes unpack to more than"):
            read_table(tmp_path / name)


@pytest.mark.parametrize("cell", ["#N/A", "#REF!", "<NA>", "NaT", "[nan]", "\\N", "nan", " ", "\t"])
def test_what_programs_write_for_nothing_is_no_label(cell):
    assert is_empty(cell)
    assert not is_empty(f"{cell}x".strip())


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["a.jpg", "b c.PNG", "photos/d.tiff"], True),
        (["0a1b", "17f3"], True),
        ([3, 1, 2], True),
        (["a.jpg", "a.jpg"], False),
        (["lake", "peak"], False),
        (["Rhine 1", "Rhine 2"], False),
        (["17"], False),
    ],
)
def test_columns_of_files_or_ids_name_rows(cells, expected):
    assert are_names(cells) is expected


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
