"""Images of a folder, a table, archives or a data set of Hugging Face, with the labels that are there."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hiertree.datasets import load_archives, load_folder
from hiertree.datasets.input_images import load_input_images
from hiertree.errors import ImageError, OptionError, TableError

KINDS, PLACES = [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3]


def picture(index):
    encoded = io.BytesIO()
    Image.new("RGB", (6, 5), (index, 2 * index, 200)).save(encoded, "PNG")
    return encoded.getvalue()


def write_tar(path, members):
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, encoded in members:
            info = tarfile.TarInfo(name)
            info.size = len(encoded)
            archive.addfile(info, io.BytesIO(encoded))


def sample(index, name, *, kinds=("cls", "json")):
    """The members of a sample, the image last."""
    members = {"cls": str(KINDS[index]).encode(), "json": json.dumps(labels_of(index)).encode()}
    return [*((f"{name}.{kind}", members[kind]) for kind in kinds), (f"{name}.png", picture(index))]


def labels_of(index):
    return {"kind": f"k{KINDS[index]}", "place": PLACES[index], "text": "a lake"}


@pytest.fixture
def archives(tmp_path):
    """Two archives of four samples, whose names are the same in both."""
    for split in range(2):
        members = [member for row in range(4) for member in sample(4 * split + row, f"./photos/{row:03d}")]
        write_tar(tmp_path / "shards" / f"train-{split:03d}.tar", members)
    return tmp_path / "shards"


def shades(source):
    """What the images show, in their order."""
    return [source.dataset.images[row].getpixel((0, 0))[0] for row in range(len(source.dataset))]


def test_archives_keep_the_order_of_their_samples_and_the_class_of_each(archives):
    for source in (archives, str(archives / "train-{000..001}.tar"), archives / "train-00?.tar"):
        images = load_input_images(source)
        assert shades(images) == list(range(8))
        assert images.dataset.tree.level_names == ("cls",)
        assert images.dataset.paths[:, 0].tolist() == KINDS
        assert images.dataset.images.name(5) == "train-001.tar/photos/001.png"
    archive = load_input_images(archives / "train-001.tar", labeled=False)
    assert (shades(archive), archive.labeled, archive.about) == ([4, 5, 6, 7], False, "4 images without labels")
    assert load_archives(archives, "train", levels=["kind", "place"]).paths.tolist() == [
        list(path) for path in zip(KINDS, PLACES, strict=True)
    ]


def test_archives_of_a_split_are_those_whose_names_begin_with_it(archives):
    write_tar(archives / "test-000.tar", sample(7, "7"))
    assert shades(load_input_images(archives)) == [7]
    assert shades(load_input_images(archives, "train")) == list(range(8))
    with pytest.raises(ImageError, match="without archives of val"):
        load_archives(archives, "val")


def test_labels_that_a_sample_lacks_are_named(archives, tmp_path):
    with pytest.raises(TableError, match=r"train-000\.tar/photos/000 without 'color': expected kind, color"):
        load_input_images(archives, levels=["kind", "color"])
    bare = [member for row in range(3) for member in sample(row, f"{row}", kinds=["json"] if row else [])]
    write_tar(tmp_path / "bare.tar", bare)
    images = load_input_images(tmp_path / "bare.tar")
    assert (images.labeled, images.about.partition("(")[2]) == (
        False,
        "name the fields of their json members by levels)",
    )
    with pytest.raises(TableError, match=r"bare\.tar/0 without 'kind'"):
        load_input_images(tmp_path / "bare.tar", levels=["kind"])
    write_tar(tmp_path / "broken.tar", [("0.json", b"{"), ("0.png", picture(0))])
    with pytest.raises(TableError, match=r"broken\.tar/0"):
        load_input_images(tmp_path / "broken.tar", levels=["kind"])
    write_tar(tmp_path / "list.tar", [("0.json", b'{"kind": ["a", "b"]}'), ("0.png", picture(0))])
    with pytest.raises(TableError, match=r"list\.tar/0: .*several labels of one level"):
        load_input_images(tmp_path / "list.tar", levels=["kind"])
    write_tar(tmp_path / "null.tar", [("0.json", b'{"kind": null}'), ("0.png", picture(0))])
    with pytest.raises(TableError, match="without 'kind'"):
        load_input_images(tmp_path / "null.tar", levels=["kind"])


@pytest.mark.parametrize("damage", ["cut inside", "cut between members", "header", "empty", "gzip"])
def test_a_damaged_archive_is_one_error(archives, damage):
    file = archives / "train-001.tar"
    archive_bytes = file.read_bytes()
    with tarfile.open(file) as archive:
        third = archive.getmembers()[5]
    encoded = {
        "cut inside": archive_bytes[: third.offset_data + 20],
        "cut between members": archive_bytes[: third.offset],
        "header": archive_bytes[: third.offset] + b"\xff" * 512 + archive_bytes[third.offset_data :],
        "empty": b"",
        "gzip": b"\x1f\x8b\x08\x00" + archive_bytes,
    }[damage]
    file.write_bytes(encoded)
    with pytest.raises(ImageError, match=r"train-001\.tar cannot be read .*: expected a complete tar archive"):
        load_input_images(archives)


def test_a_range_with_a_gap_is_refused(archives):
    with pytest.raises(ImageError, match=r"1 of 3 archives are missing .*train-002\.tar"):
        load_input_images(archives / "train-{000..002}.tar")
    write_tar(archives / "texts.tar", [("a.txt", b"a")])
    with pytest.raises(ImageError, match="without images"):
        load_input_images(archives / "texts.tar")


def test_folders_are_labels_where_all_images_lie_at_one_depth(tmp_path):
    for index in range(8):
        folder = tmp_path / f"k{KINDS[index]}" / f"p{PLACES[index]}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{index}.png").write_bytes(picture(index))
    images = load_input_images(tmp_path)
    assert images.dataset.paths.tolist() == [list(path) for path in zip(KINDS, PLACES, strict=True)]
    assert load_input_images(tmp_path, levels=["kind", "place"]).dataset.tree.level_names == ("kind", "place")
    (tmp_path / "k0" / "loose.png").write_bytes(picture(9))
    uneven = load_input_images(tmp_path)
    assert (uneven.labeled, len(uneven.dataset)) == (False, 9)
    assert "'k0/loose.png' is 1 folders deep" in uneven.about
    with pytest.raises(ValueError, match="folders deep"):
        load_input_images(tmp_path, levels=["kind", "place"])


def test_columns_of_a_table_are_labels(tmp_path):
    names = [f"{index}.png" for index in range(8)]
    for index, name in enumerate(names):
        (tmp_path / name).write_bytes(picture(index))
    split = ["train", "test"] * 4
    table = pd.DataFrame({"kind": KINDS, "image": names, "place": PLACES, "split": split})
    table.to_csv(tmp_path / "photos.csv", index=False)
    images = load_input_images(tmp_path / "photos.csv")
    assert images.dataset.tree.level_names == ("kind", "place")
    assert shades(load_input_images(tmp_path / "photos.csv", "test")) == [1, 3, 5, 7]
    assert shades(load_input_images(tmp_path / "photos.csv", "test", labeled=False)) == [1, 3, 5, 7]
    with pytest.raises(TableError, match="'val'"):
        load_input_images(tmp_path / "photos.csv", "val", labeled=False)
    table.assign(color=[0, 1] * 4).to_csv(tmp_path / "colors.csv", index=False)
    crossed = load_input_images(tmp_path / "colors.csv", levels=["kind", "color"]).dataset  # the same color twice
    assert crossed.tree.level_sizes == (2, 4)
    (tmp_path / "tables").mkdir()
    for columns in (["image", "kind", "place"], ["image"]):
        table[columns].to_csv(tmp_path / "tables" / "elsewhere.csv", index=False)
        assert shades(load_input_images(tmp_path / "tables" / "elsewhere.csv", root=tmp_path)) == list(range(8))
    with pytest.raises(OptionError, match=r"root=.*: expected a table of files that lie below that folder"):
        load_input_images(tmp_path, root=tmp_path)
    table[["image", "split"]].to_parquet(tmp_path / "bare.parquet")
    assert not load_input_images(tmp_path / "bare.parquet").labeled


def test_the_column_of_files_is_found_as_everywhere_else(tmp_path):
    names = [f"{index}.PNG" for index in range(8)]
    for index, name in enumerate(names):
        (tmp_path / name).write_bytes(picture(index))
    table = pd.DataFrame({"id": [f"Q{index}" for index in range(8)], "kind": KINDS, "file": names, "place": PLACES})
    table.iloc[::-1].to_csv(tmp_path / "t.csv")  # with the index
    images = load_input_images(tmp_path / "t.csv")
    assert shades(images) == list(range(8))[::-1]
    assert images.dataset.tree.level_names == ("kind", "place")
    assert images.about == "8 images with labels kind, place from the table's columns, files from file"
    table[["id", "kind"]].to_csv(tmp_path / "none.csv", index=False)
    with pytest.raises(
        TableError, match=r"none\.csv: no column of image files among id, kind: expected a column image"
    ):
        load_input_images(tmp_path / "none.csv")
    table.assign(file=names[0]).to_csv(tmp_path / "same.csv", index=False)
    with pytest.raises(TableError, match="no column of image files"):
        load_input_images(tmp_path / "same.csv")
    assert shades(load_input_images(tmp_path / "same.csv", image="file", levels=["kind"])) == [0] * 8


def test_data_sets_of_hugging_face_are_read_with_their_class_labels(tmp_path):
    huggingface = pytest.importorskip("datasets", reason="datasets is not installed")
    features = {
        "photo": huggingface.Image(),
        "kind": huggingface.ClassLabel(names=["lake", "peak"]),
        "place": huggingface.Value("int64"),
    }
    columns = {"photo": [{"bytes": picture(n), "path": None} for n in range(8)], "kind": KINDS, "place": PLACES}
    rows = huggingface.Dataset.from_dict(columns, features=huggingface.Features(features))
    rows.save_to_disk(str(tmp_path / "one"))
    huggingface.DatasetDict({"train": rows, "test": rows.select([1, 6])}).save_to_disk(str(tmp_path / "several"))
    rows.to_parquet(str(tmp_path / "rows.parquet"))
    for source in ("one", "rows.parquet"):
        images = load_input_images(tmp_path / source)
        assert shades(images) == list(range(8))
        assert [images.dataset.tree.labels_of(path)[0] for path in images.dataset.paths.tolist()][3:5] == [
            "lake",
            "peak",
        ]
        frame = load_input_images(tmp_path / source, levels=["kind", "place"])
        assert frame.dataset.paths[:, 1].tolist() == PLACES
        assert frame.dataset.images.stamp(0) != frame.dataset.images.stamp(1)
        assert not load_input_images(tmp_path / source, labeled=False).labeled
    assert shades(load_input_images(tmp_path / "several")) == [1, 6]
    assert shades(load_input_images(tmp_path / "several", "train")) == list(range(8))
    with pytest.raises(OptionError, match="one of train, test"):
        load_input_images(tmp_path / "several", "val")
    two = rows.cast_column("place", huggingface.ClassLabel(num_classes=4))
    two.save_to_disk(str(tmp_path / "two"))
    with pytest.raises(OptionError, match=r"labels kind, place: expected one column.*--levels"):
        load_input_images(tmp_path / "two")
    assert np.unique(load_input_images(tmp_path / "two", levels=["place"]).dataset.paths).tolist() == [0, 1, 2, 3]


def test_a_name_with_dots_takes_the_labels_of_its_own_members(tmp_path):
    names = ["track 2.0", "track 2.1", "track"]
    members = [(f"{name}.cls", str(index).encode()) for index, name in enumerate(names)]
    write_tar(
        tmp_path / "a.tar",
        [*members, *((f"{name}.png", picture(row)) for row, name in enumerate(names)), ("track.seg.png", picture(9))],
    )
    dataset = load_archives(tmp_path / "a.tar")
    labels = [dataset.tree.labels_of(path) for path in dataset.paths.tolist()]
    assert labels == [("0",), ("1",), ("2",), ("2",)]
    write_tar(tmp_path / "b.tar", [("track 2.1.cls", b"1"), ("track 2.0.png", picture(0))])
    with pytest.raises(TableError, match=r"b\.tar/track 2 without 'cls'"):
        load_archives(tmp_path / "b.tar")


def test_members_that_macos_adds_are_left_out(tmp_path):
    added = [
        ("./._000.png", b"\0\5\x16\7"),
        ("._000.cls", b"\0\5"),
        ("a/.hidden/1.png", picture(1)),
        ("a/..b.png", b""),
    ]
    write_tar(tmp_path / "a.tar", [*added, *sample(0, "000"), *sample(7, "a/001")])
    (tmp_path / "._a.jpg").write_bytes(b"\0\5\x16\7")
    for source in (tmp_path / "a.tar", tmp_path):
        assert shades(load_input_images(source)) == [0, 7]


def test_a_range_of_too_many_archives_is_refused_at_once(tmp_path):
    for name in ("a-{0..99999999}.tar", "a-{000..999}-{000..999}.tar"):
        with pytest.raises(ImageError, match="archives: expected at most 100000"):
            load_archives(tmp_path / name)
    for folder in "xy":
        write_tar(tmp_path / folder / "a.tar", sample(0, "0"))
    with pytest.raises(OptionError, match="archives in several folders"):
        load_archives(tmp_path / "*" / "a.tar")


@pytest.mark.parametrize("kind", ["folder", "archives", "table"])
def test_a_split_is_known_by_all_of_its_names_everywhere(tmp_path, kind):
    rows_of, table = {"training": (1, 2), "validation": (3,)}, ["image,kind,split"]
    for split, rows in rows_of.items():
        write_tar(tmp_path / "shards" / f"{split}-0.tar", [member for row in rows for member in sample(row, f"{row}")])
        for row in rows:
            (tmp_path / split / "lake").mkdir(parents=True, exist_ok=True)
            (tmp_path / split / "lake" / f"{row}.png").write_bytes(picture(row))
            table.append(f"{split}/lake/{row}.png,lake,{split}")
    (tmp_path / "images.csv").write_text("\n".join(table))
    (tmp_path / "shards").rename(tmp_path.parent / f"{tmp_path.name}-shards")
    source = {
        "folder": tmp_path,
        "archives": tmp_path.parent / f"{tmp_path.name}-shards",
        "table": tmp_path / "images.csv",
    }[kind]
    for split, expected in (("val", [3]), ("valid", [3]), ("validation", [3]), ("train", [1, 2]), ("training", [1, 2])):
        assert shades(load_input_images(source, split)) == expected
    assert shades(load_input_images(source)) == ([1, 2, 3] if kind == "table" else [3])  # what was not trained on


def test_folders_of_splits_are_no_labels(tmp_path):
    for name in ("train/lake/0.png", "val/lake/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(picture(3))
    for options in ({}, {"split": "test", "holdout": 0.5}):
        with pytest.raises(OptionError, match="which holds splits: expected one of them, such as 'train' or 'val'"):
            load_folder(tmp_path, **options)
    with pytest.raises(
        OptionError, match=r"split='test' of .*, which holds train, val: expected a folder test or testing"
    ):
        load_folder(tmp_path, "test")
