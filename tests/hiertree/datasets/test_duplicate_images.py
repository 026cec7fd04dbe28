"""An image that a split lists twice is found, by its path and, if asked for, by its content."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import write_benchmark
from PIL import Image

from hiertree import datasets
from hiertree.datasets import ImageDataset, check_duplicates, duplicates, load_synthetic, load_table
from hiertree.datasets.duplicate_images import check_apart
from hiertree.datasets.readers.images import ArrayImages, FileImages, JoinedImages
from hiertree.errors import OptionError, TableError
from hiertree.tree import LabelTree


def listing(folder: Path, names: list[str], **options: Any) -> ImageDataset:
    """A data set of the named files, each of which holds one image of its first letter's color."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            Image.new("L", (4, 4), 10 * ord(Path(name).name[0]) % 256).save(folder / name)
    tree = LabelTree.from_paths([("class",)])
    paths = np.zeros((len(names), 1), np.int32)
    return ImageDataset(name="own", split="test", tree=tree, paths=paths, images=FileImages(folder, names), **options)


def test_the_same_path_is_found_however_it_is_written(tmp_path: Path) -> None:
    dataset = listing(tmp_path, ["a.png", "b.png", "./a.png", "sub/../c.png", "c.png", "sub/a.png", "sub//a.png"])
    assert duplicates(dataset) == {"a.png": [0, 2], "sub/../c.png": [3, 4], "sub/a.png": [5, 6]}


def test_copies_under_other_names_are_found_by_content_alone(tmp_path: Path) -> None:
    dataset = listing(tmp_path, ["a1.png", "b.png", "a2.png"])
    assert duplicates(dataset) == {}
    assert duplicates(dataset, content=True) == {"a1.png": [0, 2]}
    pixels = np.array([[[1]], [[2]], [[1]]], np.uint8)
    in_memory = replace(dataset, images=ArrayImages(pixels, names=["x", "x", "y"]))
    assert duplicates(in_memory) == {}
    assert duplicates(in_memory, content=True) == {"x": [0, 2]}


def test_files_of_one_name_in_two_folders_are_two_images(tmp_path: Path) -> None:
    first, second = listing(tmp_path / "one", ["a.png"]), listing(tmp_path / "two", ["a.png"])
    pair = listing(tmp_path / "one", ["a.png", "b.png"])
    assert duplicates(replace(pair, images=JoinedImages(first.images, second.images))) == {}
    assert duplicates(replace(pair, images=JoinedImages(first.images, first.images))) == {"a.png": [0, 1]}


def test_a_query_in_its_gallery_is_a_duplicate_unless_ids_keep_them_apart(tmp_path: Path) -> None:
    parts = {"queries": np.array([0]), "gallery": np.array([1, 2])}
    dataset = listing(tmp_path, ["a.png", "a.png", "b.png"], **parts)
    assert duplicates(dataset) == {"a.png": [0, 1]}
    assert duplicates(replace(dataset, ids=np.array(["a", "a", "b"]))) == {}
    assert duplicates(replace(dataset, ids=np.array(["a", "other", "b"]))) == {"a.png": [0, 1]}
    triple = listing(tmp_path, ["a.png", "a.png", "a.png"], **parts, ids=np.array(["a", "a", "a"]))
    assert duplicates(triple) == {"a.png": [1, 2]}


def test_a_part_of_a_split_is_judged_by_its_own_rows(tmp_path: Path) -> None:
    dataset = listing(tmp_path, ["a.png", "b.png", "a.png"])
    assert duplicates(dataset.select([1, 2], split="part")) == {}
    assert duplicates(dataset.select([2, 0, 1], split="part")) == {"a.png": [0, 1]}


def test_duplicates_are_an_error_or_a_counted_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = listing(tmp_path, ["a.png", "a.png", "a.png", "b.png"])
    with pytest.raises(TableError, match=r"own, test: 2 of 4 rows repeat an image \('a.png' in rows 0 and 1\)"):
        check_duplicates(dataset)
    with caplog.at_level(logging.WARNING):
        assert check_duplicates(dataset, on_duplicates="warn") == 2
    assert "2 of 4 rows repeat an image" in caplog.text
    with pytest.raises(OptionError, match="on_duplicates='skip'"):
        check_duplicates(dataset, on_duplicates="skip")  # type: ignore[arg-type]
    assert check_duplicates(load_synthetic("test", families=1, kinds=1, instances=1, images=3)) == 0


def test_a_test_image_that_was_trained_on_is_refused_by_its_name(tmp_path: Path) -> None:
    train = replace(listing(tmp_path, ["a.png", "b.png"]), split="train")
    with pytest.raises(TableError, match=r"own: 1 of 2 images of the split 'test' are in 'train' .* '\./b\.png'"):
        check_apart(train, listing(tmp_path, ["c.png", "./b.png"]))
    check_apart(train, listing(tmp_path, ["c.png", "d.png"]))
    check_apart(train, listing(tmp_path / "other", ["b.png"]))
    in_memory = replace(
        listing(tmp_path, ["b.png"]), images=ArrayImages(np.zeros((1, 1, 1), np.uint8), names=["b.png"])
    )
    check_apart(train, in_memory)


def test_a_table_that_lists_a_file_twice_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listing(tmp_path, ["a.png", "b.png"])
    (tmp_path / "t.csv").write_text("file,kind\na.png,x\nb.png,x\na.png,x\n")
    with caplog.at_level(logging.WARNING):
        load_table(tmp_path / "t.csv", root=tmp_path, image="file", levels=["kind"])
    assert "1 of 3 rows repeat an image ('a.png' in rows 0 and 2)" in caplog.text


def test_the_check_of_a_benchmark_finds_them(tmp_path: Path) -> None:
    folder = tmp_path / "sop"
    listing(folder, ["bicycle_final/a.jpg", "bicycle_final/b.jpg"])
    lines = ["image_id class_id super_class_id path", "1 1 1 bicycle_final/a.jpg", "2 1 1 bicycle_final/b.jpg"]
    (folder / "Ebay_train.txt").write_text("\n".join([*lines, "3 2 1 bicycle_final/a.jpg"]))
    (report,) = datasets.check("sop", folder, splits=["train"], verify="structure")
    assert report.duplicates == ("bicycle_final/a.jpg",)
    assert not report.sound


def test_a_check_reports_a_list_that_is_missing_and_drawings_in_memory(tmp_path: Path, shared_data: Path) -> None:
    write_benchmark("sop", tmp_path)
    (tmp_path / "Ebay_test.txt").unlink()
    train, test = datasets.check("sop", tmp_path, splits=["train", "test"], verify="structure")
    assert (train.sound, test.sound) == (True, False)
    assert "Ebay_test.txt not in" in str(test.problem)
    (drawings,) = datasets.check("omniglot", shared_data / "omniglot" / "omniglot_28x28.npz", splits=["test"])
    assert (drawings.images, drawings.sound) == (13_180, True)
