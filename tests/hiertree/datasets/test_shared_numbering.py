"""An id means one class in all splits of a data set, so that queries of one may search a gallery of another."""

from __future__ import annotations

import io
import tarfile
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from benchmark_files import NAMES, write_benchmark
from PIL import Image

from hiertree import datasets
from hiertree.errors import NotATreeError
from hiertree.metrics import evaluate

UNRELATED = ("dyml", "sfm120k")  # whose lists number the classes of each split apart
CLASSES = [("natural", "lake"), ("natural", "peak"), ("built", "church"), ("built", "dam"), ("built", "bridge")]
ORDERS = {"train": [3, 0, 1], "val": [1, 4], "test": [4, 2, 1, 0, 3]}  # by which the classes appear in each split


def labels_of(dataset):
    return [tuple(map(str, dataset.tree.labels_of(path))) for path in dataset.paths.tolist()]


def check_shared(first, second):
    """Images of one class have one id at each level, images of two classes have two."""
    pairs_of_split = [(labels_of(dataset), dataset.paths) for dataset in (first, second)]
    for level in range(1, first.paths.shape[1] + 1):
        texts = np.array([["/".join(label[:level])] for labels, _ in pairs_of_split for label in labels])
        ids = np.concatenate([paths[:, level - 1 : level] for _, paths in pairs_of_split])
        np.testing.assert_array_equal(texts == texts.T, ids == ids.T)


def check_splits(load):
    train, val, test = (load(split) for split in ORDERS)
    for first, second in combinations((train, val, test), 2):
        check_shared(first, second)
    for level, size in enumerate(train.tree.level_sizes):
        assert sorted(set(train.paths[:, level].tolist())) == list(range(size))
    codes = [np.eye(5)[[CLASSES.index(label[-2:]) for label in labels_of(dataset)]] for dataset in (test, train)]
    in_training = np.isin(test.paths[:, -1], train.paths[:, -1])
    result = evaluate(codes[0][in_training], test.paths[in_training], codes[1], train.paths, metrics=["R@1", "R@1[1]"])
    assert result.summary().tolist() == [1.0, 1.0]
    pruned = test.drop_absent_classes()
    assert pruned.tree.level_sizes == (2, 5)
    assert labels_of(pruned) == labels_of(test)
    assert (pruned.paths.max(axis=0) + 1).tolist() == [2, 5]


def picture(index):
    encoded = io.BytesIO()
    Image.new("RGB", (6, 5), (index, 0, 0)).save(encoded, "PNG")
    return encoded.getvalue()


@pytest.fixture
def folders(tmp_path):
    """Images of the splits in folders, all of them in one table, and an archive of each split."""
    rows = []
    for split, order in ORDERS.items():
        with tarfile.open(tmp_path / f"{split}-000.tar", "w") as archive:
            for rank, index in enumerate(order):
                kind, name = CLASSES[index]
                file = tmp_path / "photos" / split / kind / name / f"{rank}.png"
                file.parent.mkdir(parents=True)
                file.write_bytes(picture(index))
                rows.append((f"{split}/{kind}/{name}/{rank}.png", kind, name, split))
                for ending, encoded in (("png", picture(index)), ("json", f'{{"kind": "{kind}", "name": "{name}"}}')):
                    info = tarfile.TarInfo(f"{rank}.{ending}")
                    info.size = len(encoded)
                    archive.addfile(info, io.BytesIO(encoded if isinstance(encoded, bytes) else encoded.encode()))
    table = pd.DataFrame(rows, columns=["file", "kind", "name", "part"])
    pd.concat([table[table["part"] != "train"], table[table["part"] == "train"]]).to_csv(
        tmp_path / "t.csv", index=False
    )
    return tmp_path


def of_table(folders, split):
    options = {"root": folders / "photos", "image": "file", "levels": ["kind", "name"], "split_column": "part"}
    return datasets.load_table(folders / "t.csv", split, **options)


def test_splits_of_a_folder_share_their_ids(folders):
    (folders / "photos" / "notes").mkdir()
    check_splits(lambda split: datasets.load_folder(folders / "photos", split))
    train = datasets.load_folder(folders / "photos", "train")
    (folders / "photos" / "gallery" / "built" / "dam").mkdir(parents=True)
    (folders / "photos" / "gallery" / "built" / "dam" / "9.png").write_bytes(picture(3))
    check_shared(train, datasets.load_folder(folders / "photos", "gallery"))
    (folders / "photos" / "test" / "natural" / "peak" / "2.png").write_bytes(b"no image")
    skipped = datasets.load_folder(folders / "photos", "test").drop_unreadable_images()
    assert skipped.left_out == ("natural/peak/2.png",)
    check_shared(train, skipped)


def test_splits_of_a_table_share_their_ids(folders):
    check_splits(lambda split: of_table(folders, split))
    check_shared(of_table(folders, None), of_table(folders, "train"))
    check_shared(of_table(folders, None), of_table(folders, "test"))


def test_splits_of_archives_share_their_ids(folders):
    check_splits(lambda split: datasets.load_archives(folders, split, levels=["kind", "name"]))


@pytest.mark.parametrize("by", ["classes", "images"])
def test_what_is_held_out_shares_its_ids(folders, by):
    (folders / "photos" / "test" / "natural" / "lake" / "7.png").write_bytes(picture(0))
    (folders / "photos" / "test" / "built" / "dam" / "7.png").write_bytes(picture(0))
    options = {"holdout": 0.5, "holdout_by": by, "seed": 3}
    by_split = [datasets.load_folder(folders / "photos" / "test", split, **options) for split in ("train", "test")]
    check_shared(*by_split)
    assert len(by_split[0]) + len(by_split[1]) == 7
    assert set(by_split[0].paths[:, 1].tolist()) == set(range(by_split[0].tree.level_sizes[1]))
    options |= {"root": folders / "photos", "image": "file", "levels": ["kind", "name"]}
    if by == "classes":
        check_shared(*(datasets.load_table(folders / "t.csv", split, **options) for split in ("train", "test")))


@pytest.mark.parametrize("kind", ["text", "class labels"])
def test_splits_of_hugging_face_share_their_ids(folders, kind, monkeypatch):
    huggingface = pytest.importorskip("datasets")
    monkeypatch.setattr(huggingface.config, "HF_DATASETS_CACHE", folders / "cache")
    by_split = {}
    for split, order in ORDERS.items():
        kinds, names = zip(*(CLASSES[index] for index in order), strict=True)
        images = [{"bytes": picture(index), "path": None} for index in order]
        rows = huggingface.Dataset.from_dict({"image": images, "kind": kinds, "name": names})
        rows = rows.cast_column("image", huggingface.Image())
        if kind == "class labels":
            for level in (0, 1):
                column = ("kind", "name")[level]
                texts = list(dict.fromkeys(row[level] for row in CLASSES))
                rows = rows.cast_column(column, huggingface.ClassLabel(names=texts))
        by_split[split] = rows
    splits = huggingface.DatasetDict(by_split)
    check_splits(lambda split: datasets.from_huggingface(splits, levels=["kind", "name"], split=split))
    splits.save_to_disk(folders / "saved")
    check_splits(lambda split: datasets.load_huggingface(folders / "saved", split, levels=["kind", "name"]))
    test = datasets.from_huggingface(splits["test"], levels=["kind", "name"])
    shuffled = datasets.from_huggingface(splits["test"].select([2, 0, 4, 3, 1]), levels=["kind", "name"])
    check_shared(test, shuffled)
    if kind == "class labels":
        train, test = (datasets.from_huggingface(splits[split], levels=["name"]) for split in ("train", "test"))
        check_shared(train, test)


def test_splits_of_the_drawn_images_share_their_ids():
    options = {"families": 3, "kinds": 2, "instances": 2, "images": 1}
    train, test = (datasets.load_synthetic(split, **options) for split in ("train", "test"))
    check_shared(train, test)
    assert train.tree.level_sizes == (3, 3, 6)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(UNRELATED)])
def test_splits_of_a_benchmark_share_their_ids(tmp_path, name):
    write_benchmark(name, tmp_path)
    card = datasets.describe(name)
    loaded = {split: datasets.load(name, tmp_path, split, verify="structure") for split in card.splits}
    pairs = [
        pair
        for pair in combinations(loaded, 2)
        if not ("gldv2" in name and sum("train" in split for split in pair) == 1)
    ]
    assert pairs or len(loaded) == 1
    for pair in pairs:
        check_shared(*(loaded[split] for split in pair))
    if train := loaded.get("train"):
        assert train.drop_absent_classes() is train


def test_a_class_with_two_parents_in_two_splits_is_named(folders):
    table = pd.read_csv(folders / "t.csv")
    table.loc[table["part"].eq("val") & table["name"].eq("peak"), "kind"] = "built"
    table.to_csv(folders / "t.csv", index=False)
    with pytest.raises(NotATreeError, match=r"'peak' has the path .*t\.csv, line"):
        of_table(folders, "test")
    assert len(of_table(folders, "train")) == 3  # whose classes are numbered first


def test_rows_without_labels_in_another_split_are_no_matter(folders):
    table = pd.read_csv(folders / "t.csv")
    table.loc[table["part"].eq("val"), "kind"] = None
    table.to_csv(folders / "t.csv", index=False)
    check_shared(of_table(folders, "train"), of_table(folders, "test"))
