"""Data sets of Hugging Face's library, made here without a download."""

from __future__ import annotations

import pickle

import pytest
from PIL import Image

import hiertree as ht
from hiertree.errors import HierarchyError, ImageError, InputError, MissingResourceError, OptionError
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.reading import load_recipe

huggingface = pytest.importorskip("datasets")


@pytest.fixture
def rows(tmp_path):
    Image.new("RGB", (8, 6), "red").save(tmp_path / "lake.png")
    images = [Image.new("RGB", (8, 6), "blue"), Image.new("L", (4, 4)), str(tmp_path / "lake.png")]
    columns = {"photo": images, "kind": [0, 1, 0], "name": ["lake", "church", "lake"]}
    kinds = huggingface.ClassLabel(names=["natural", "built"])
    features = huggingface.Features({"photo": huggingface.Image(), "kind": kinds, "name": huggingface.Value("string")})
    return huggingface.Dataset.from_dict(columns, features=features)


def test_columns_are_levels_and_class_labels_have_names(rows):
    dataset = ht.datasets.from_huggingface(rows, levels=["kind", "name"], image="photo", split="train")
    assert (len(dataset), dataset.split, dataset.tree.level_names) == (3, "train", ("kind", "name"))
    assert dataset.tree.labels_of(dataset.paths[1].tolist()) == ("built", "church")
    assert [dataset.images[row].size for row in range(3)] == [(8, 6), (4, 4), (8, 6)]
    assert dataset.images[2].getpixel((0, 0)) == (255, 0, 0)
    image, path = dataset.with_transform(lambda image: image.size)[2]
    assert (image, path.tolist()) == ((8, 6), [0, 0])
    assert pickle.loads(pickle.dumps(dataset.images))[0].tobytes() == dataset.images[0].tobytes()


def test_what_is_no_split_with_images_and_labels_is_refused(rows):
    for bad, message in [
        (huggingface.DatasetDict({"train": rows, "test": rows}), "train, test"),
        (rows.to_iterable_dataset(), "streaming"),
        ([1], "a list"),
        (rows.select([]), "without rows"),
    ]:
        with pytest.raises(InputError, match=message):
            ht.datasets.from_huggingface(bad, levels=["kind", "name"], image="photo")
    with pytest.raises(OptionError, match="no column 'image'"):
        ht.datasets.from_huggingface(rows, levels=["kind"])
    with pytest.raises(OptionError, match="image='photo'"):
        ht.datasets.from_huggingface(rows, levels=["kind"], image="name")
    with pytest.raises(OptionError, match="levels"):
        ht.datasets.from_huggingface(rows, levels="kind", image="photo")
    lists = rows.add_column("path", [["natural", "lake"], ["built"], ["natural"]])
    sequences = lists.cast_column("path", huggingface.Sequence(huggingface.Value("string")))
    for several in (lists, sequences, lists.map(lambda row: {"path": {"kind": row["name"]}})):
        with pytest.raises(OptionError, match=r"column 'path' holds .*: expected one label in every row"):
            ht.datasets.from_huggingface(several, levels=["kind", "path"], image="photo")
    with pytest.raises(OptionError, match="column 'photo' holds Image"):
        ht.datasets.from_huggingface(rows, levels=["photo"], image="photo")


def test_rows_without_label_or_image_are_named(rows):
    unlabeled = rows.add_item({"photo": None, "kind": -1, "name": "dam"})
    with pytest.raises(HierarchyError, match="row 3"):
        ht.datasets.from_huggingface(unlabeled, levels=["kind", "name"], image="photo")
    dataset = ht.datasets.from_huggingface(unlabeled, levels=["name"], image="photo")
    with pytest.raises(ImageError, match="image 3"):
        _ = dataset.images[3]


def test_a_class_with_two_parents_in_two_splits_is_named(rows):
    columns = {"photo": [Image.new("L", (4, 4))], "kind": [1], "name": ["lake"]}
    test = huggingface.Dataset.from_dict(columns, features=rows.features)
    splits = huggingface.DatasetDict({"train": rows, "test": test})
    with pytest.raises(HierarchyError, match=r"row 0: 'lake' has the path .* but row 0 of the data set gave"):
        ht.datasets.from_huggingface(splits, levels=["kind", "name"], image="photo", split="test")


def test_a_recipe_names_a_folder_of_a_data_set_and_its_columns(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    huggingface.disable_progress_bars()
    for split, split_rows in (("train", [0, 1, 2]), ("test", [2, 1])):
        rows.select(split_rows).to_parquet(tmp_path / "stored" / f"{split}.parquet")
    data = f"data={{name: huggingface, path: {tmp_path / 'stored'}, levels: [kind, name], image: photo}}"
    recipe = load_recipe("synthetic-happier", [data])
    train, test = (load_split(recipe, split) for split in ("train", "test"))
    assert (len(train), len(test), test.split) == (3, 2, "test")
    assert [test.tree.labels_of(path) for path in test.paths.tolist()] == [("natural", "lake"), ("built", "church")]
    assert test.images[0].getpixel((0, 0)) == (255, 0, 0)
    with pytest.raises(InputError, match=r"split='val': expected the name of a split; pass split=, one of train, test"):
        load_split(recipe, "val")
    with pytest.raises(MissingResourceError, match=r"absent \("):
        ht.datasets.load_huggingface(tmp_path / "absent", "train", levels=["kind"])
