"""Tables of images as people write them, and what is wrong with them named by line."""

from __future__ import annotations

import logging
import unicodedata

import pandas as pd
import pytest
from PIL import Image

from hiertree.datasets import load_table
from hiertree.errors import EmptyLabelError, ImageError, NotATreeError, OptionError, TableError

LEVELS = ["kind", "landmark"]
ROWS = [
    ("a.png", "lake", "Blue, Lake", "train"),
    ("b.png", "lake", "Blue, Lake", "test"),
    ("sub/c.jpg", "church", 'St. "Mary"', "test"),
    ("été.png", "church", "St. Paul's", "test"),
]


@pytest.fixture
def photos(tmp_path):
    for index, (name, *_) in enumerate(ROWS):
        file = tmp_path / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + index, 5), (40 * index, 0, 0)).save(file)
    return tmp_path / "photos"


def write(path, rows=ROWS, **options):
    pd.DataFrame(rows, columns=["file", *LEVELS, "split"]).to_csv(path, index=False, **options)
    return path


def load(path, split, photos, **options):
    settings = {"root": photos, "image": "file", "levels": LEVELS, "split_column": "split", **options}
    return load_table(path, split, **settings)


@pytest.mark.parametrize("options", [{}, {"encoding": "utf-8-sig", "lineterminator": "\r\n"}, {"quoting": 1}])
def test_byte_order_marks_crlf_and_quoted_commas_are_read(tmp_path, photos, options):
    dataset = load(write(tmp_path / "images.csv", **options), "test", photos)
    assert dataset.tree.leaves == ("Blue, Lake", 'St. "Mary"', "St. Paul's")
    assert dataset.paths.tolist() == [[0, 0], [1, 1], [1, 2]]
    assert [dataset.images[index].size for index in range(3)] == [(9, 5), (10, 5), (11, 5)]
    assert dataset.images.name(2) == "été.png"
    assert (dataset.name, dataset.split, dataset.left_out) == ("images", "test", ())


def test_a_table_that_lists_a_file_twice_is_logged(tmp_path, photos, caplog):
    with caplog.at_level(logging.WARNING):
        load(write(tmp_path / "t.csv", [*ROWS, ROWS[1]]), "test", photos)
    assert "t.csv: 1 of 4 rows repeat a file" in caplog.text


def test_paths_with_backslashes_are_those_of_windows(tmp_path, photos):
    Image.new("L", (4, 4)).save(photos / "odd\\name.png")
    rows = [*ROWS[:2], ("sub\\c.jpg", "church", "St. Mary", "test"), ("odd\\name.png", "church", "St. Paul", "test")]
    dataset = load(write(tmp_path / "t.csv", rows), "test", photos)
    assert [dataset.images.name(row) for row in range(3)] == ["b.png", "sub/c.jpg", "odd\\name.png"]
    for name in ("..\\c.jpg", "sub\\..\\..\\c.jpg", "C:\\c.jpg", "\\c.jpg"):
        with pytest.raises(TableError, match=r"line 2: image .*a file below root"):
            load(write(tmp_path / "t.csv", [(name, "a", "b", "test")]), "test", photos)


def test_composed_and_decomposed_letters_are_one_class(tmp_path, photos):
    rows = [
        (name, "ville", unicodedata.normalize(form, "été"), split)
        for (name, *_), form, split in zip(ROWS, ("NFC", "NFD", "NFD", "NFC"), ["train", "test"] * 2, strict=True)
    ]
    table = write(tmp_path / "t.csv", rows)
    test = load(table, "test", photos)
    assert (test.tree.leaves, test.paths.tolist()) == (("été",), [[0, 0], [0, 0]])
    with pytest.raises(OptionError, match="of 1 classes"):
        load(table, "test", photos, split_column=None, holdout=0.5)


def test_without_a_split_all_rows_are_taken(tmp_path, photos):
    dataset = load(write(tmp_path / "images.csv"), None, photos, split_column=None)
    assert (len(dataset), dataset.split) == (4, "all")


def test_a_split_that_no_row_has_lists_those_there_are(tmp_path, photos):
    with pytest.raises(TableError, match=r"'val' in column 'split'.*'test' \(3 rows\), 'train' \(1 rows\)"):
        load(write(tmp_path / "images.csv"), "val", photos)


def test_names_of_splits_are_known_in_any_case_and_others_left_out(tmp_path, photos):
    for spelling, test_name, count in (("Test", "test", 3), (" TESTING ", "Train", 1), ("test_fine", "test", 2)):
        rows = [(*row[:3], spelling if row[0] == "b.png" else row[3].replace("test", test_name)) for row in ROWS]
        assert len(load(write(tmp_path / "images.csv", rows), "test", photos)) == count


@pytest.mark.parametrize(
    "name", ["../secret.png", "sub/../../secret.png", "/etc/passwd", "C:\\secret.png", "..\\secret.png", "", "  "]
)
def test_an_image_outside_root_is_refused_by_line(tmp_path, photos, name):
    (tmp_path / "secret.png").write_bytes((photos / "a.png").read_bytes())
    path = write(tmp_path / "images.csv", [ROWS[1], (name, "lake", "Blue, Lake", "test")])
    with pytest.raises(TableError, match=r"images\.csv, line 3: image"):
        load(path, "test", photos, on_bad_image="skip")


def test_names_with_two_dots_that_stay_inside_are_fine(tmp_path, photos):
    (photos / "a.png").rename(photos / "..a...png")
    rows = [("..a...png", "lake", "Blue, Lake", "test")]
    assert len(load(write(tmp_path / "images.csv", rows), "test", photos)) == 1


def test_missing_files_are_named_at_once(tmp_path, photos):
    (photos / "b.png").unlink()
    path = write(tmp_path / "images.csv")
    with pytest.raises(ImageError, match=r"1 of 3 images are not in .*'b\.png'.*on_bad_image='skip'"):
        load(path, "test", photos)
    assert len(load(path, "train", photos)) == 1


def test_skipping_leaves_bad_images_out_counts_and_names_them(tmp_path, photos, caplog):
    image = photos / "sub/c.jpg"
    image.write_bytes(image.read_bytes()[: len(image.read_bytes()) - 20])
    (photos / "b.png").unlink()
    with caplog.at_level(logging.WARNING):
        dataset = load(write(tmp_path / "images.csv"), "test", photos, on_bad_image="skip")
    assert dataset.left_out == ("b.png", "sub/c.jpg")
    pruned = dataset.drop_absent_classes()
    assert (pruned.tree.leaves, pruned.paths.tolist()) == (("St. Paul's",), [[0, 0]])
    assert "2 of 3 images" in caplog.text
    assert "'b.png', 'sub/c.jpg'" in caplog.text


def test_nothing_left_after_skipping_is_an_error(tmp_path, photos):
    (photos / "a.png").write_text("no image")
    with pytest.raises(ImageError, match="none of 1 images"):
        load(write(tmp_path / "images.csv"), "train", photos, on_bad_image="skip")


def test_a_missing_column_is_named(tmp_path, photos):
    with pytest.raises(TableError, match="species"):
        load(write(tmp_path / "images.csv"), "test", photos, levels=["kind", "species"])


def test_one_leaf_text_under_two_parents_needs_to_be_asked_for(tmp_path, photos):
    rows = [("a.png", "Greek", "character01", "train"), ("b.png", "Latin", "character01", "train")]
    path = write(tmp_path / "images.csv", rows)
    with pytest.raises(NotATreeError, match=r"images\.csv, line 3.*leaf='path'"):
        load(path, "train", photos)
    dataset = load(path, "train", photos, leaf="path")
    assert dataset.tree.leaves == (("Greek", "character01"), ("Latin", "character01"))
    assert dataset.paths.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_bad_image": "ignore"}, "'error' or 'skip'"),
        ({"levels": []}, "levels=\\[\\]"),
        ({"levels": "kind"}, "levels='kind'"),
        ({"levels": ["kind", "kind"]}, "different columns"),
        ({"split_column": None}, r"split='test' without split_column.*holdout=0\.5"),
        ({"split_column": None, "holdout": 0.5, "seed": -1}, "seed=-1"),
    ],
)
def test_impossible_options_are_refused(tmp_path, photos, options, message):
    with pytest.raises(OptionError, match=message):
        load(write(tmp_path / "images.csv"), "test", photos, **options)


def test_an_empty_split_and_a_table_without_rows_are_refused(tmp_path, photos):
    table = write(tmp_path / "images.csv", [("a.png", "lake", "Blue", "")])
    with pytest.raises(OptionError, match="split=''"):
        load(table, "", photos)
    with pytest.raises(TableError, match=r"none\.csv has no rows"):
        load(write(tmp_path / "none.csv", []), None, photos)


def test_a_path_that_ends_early_or_has_a_gap_is_read_by_the_policy_that_the_error_names(tmp_path):
    for name in "abc":
        Image.new("L", (4, 4)).save(tmp_path / f"{name}.png")
    (tmp_path / "t.csv").write_text("file,kind,type,id\na.png,n,lake,1\nb.png,n,,2\nc.png,h,dam,\n")
    options = {"root": tmp_path, "image": "file", "levels": ["kind", "type", "id"]}
    with pytest.raises(EmptyLabelError, match=r"t\.csv, line 3.*gaps='above'"):
        load_table(tmp_path / "t.csv", **options)
    table = load_table(tmp_path / "t.csv", **options, uneven="pad", gaps="above")
    expected = [("n", "lake", "1"), ("n", "n", "2"), ("h", "dam", "dam")]
    assert [table.tree.labels_of(path) for path in table.paths] == expected


def test_a_table_without_a_column_of_splits_holds_out_a_share_as_a_folder_does(tmp_path, photos):
    table = write(tmp_path / "images.csv")
    splits = [load(table, split, photos, split_column=None, holdout=0.34, seed=1) for split in ("train", "test")]
    splits = [held_out.drop_absent_classes() for held_out in splits]
    assert [len(held_out.tree) for held_out in splits] == [2, 1]
    assert not set(splits[0].tree.leaves) & set(splits[1].tree.leaves)
    by_image = load(table, "test", photos, split_column=None, holdout=0.5, holdout_by="images")
    assert by_image.drop_absent_classes().tree.leaves == ("Blue, Lake",)  # the only class of two images
    with pytest.raises(OptionError, match=r"holdout=0\.5 with the split column 'split'"):
        load(table, "test", photos, holdout=0.5)
