"""What every data set promises, and loading one by its name."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from hiertree import datasets
from hiertree.datasets import ImageDataset, load_synthetic
from hiertree.datasets.readers.images import ArrayImages, FileImages, NamedImages
from hiertree.errors import ImageError, OptionError, ShapeError
from hiertree.tree import LabelTree


@pytest.mark.parametrize(
    ("name", "root", "message"),
    [
        ("omnigolt", "data", "one of 'sop',.*'synthetic'.*did you mean 'omniglot'"),
        ("omniglot", None, "no root for 'omniglot'"),
        ("synthetic", "data", "no root, since its images are drawn"),
        ("table", "data", "load_table"),
    ],
)
def test_a_name_or_root_that_cannot_be_says_what_can(name, root, message):
    with pytest.raises(OptionError, match=message):
        datasets.load(name, root)


def test_paths_must_fit_images_and_tree():
    tree = LabelTree.from_paths([("a", "x"), ("b", "y")])
    images = ArrayImages(np.zeros((2, 4, 4), np.uint8), names=["one", "two"])
    options = {"name": "mine", "split": "all", "tree": tree, "images": images}
    assert len(ImageDataset(paths=tree.paths(["x", "y"]), **options)) == 2
    with pytest.raises(ShapeError, match="2 rows"):
        ImageDataset(paths=tree.paths(["x"]), **options)
    with pytest.raises(ShapeError, match="the tree's 2"):
        ImageDataset(paths=tree.paths(["x", "y"])[:, :1], **options)


def test_a_data_set_survives_the_way_to_a_worker():
    dataset = load_synthetic(families=1, kinds=1, instances=2, images=2)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.tree == dataset.tree
    assert np.array_equal(copy.paths, dataset.paths)
    assert copy.images[3].tobytes() == dataset.images[3].tobytes()
    assert copy.images.name(3) == dataset.images.name(3)


def test_a_million_file_names_cost_a_worker_little_more_than_their_letters():
    source = FileImages(Path("photos"), (f"{index:07d}.jpg" for index in range(1_000_000)))
    shipped = pickle.dumps(source)
    assert len(shipped) < 20_000_000
    assert pickle.loads(shipped).name(999_999) == "0999999.jpg"


def test_names_keep_bytes_that_are_no_utf_8_and_refuse_places_beyond_them():
    file_name = b"caf\xe9.png".decode("utf-8", "surrogateescape")
    images = NamedImages(["", file_name, "z"])
    assert [images.name(0), images.name(1), images.name(-1)] == ["", file_name, "z"]
    for index in (3, -4):
        with pytest.raises(IndexError):
            images.name(index)


def test_names_and_pixels_must_be_as_many():
    with pytest.raises(ShapeError, match="1 names"):
        ArrayImages(np.zeros((2, 4, 4), np.uint8), names=["one"])


@pytest.mark.parametrize("encoded", [None, b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_whatever_does_not_decode_is_an_image_error_with_its_name(tmp_path, encoded):
    if encoded is not None:
        (tmp_path / "bad.png").write_bytes(encoded)
    with pytest.raises(ImageError, match=r"no image 'bad\.png'|'bad\.png' does not decode"):
        FileImages(tmp_path, ["bad.png"])[0]


def test_it_is_a_data_set_of_torch():
    torch_data = pytest.importorskip("torch.utils.data")
    train = load_synthetic("train", families=2, kinds=2, instances=3, images=4)
    image, path = train[-1]
    assert (image.size, path.tolist()) == ((32, 32), [1, 1, 5])
    arrays = train.with_transform(lambda image: np.array(image))
    images, paths = next(iter(torch_data.DataLoader(arrays, batch_size=5)))
    assert (tuple(images.shape), tuple(paths.shape), str(paths.dtype)) == ((5, 32, 32, 3), (5, 3), "torch.int64")
    assert len(list(train)) == 24
    assert arrays.select([3], split="one")[0][0].shape == (32, 32, 3)
    with pytest.raises(IndexError, match="image 24 of 24"):
        _ = train[24]
    with pytest.raises(OptionError, match="transform"):
        train.with_transform(3)
