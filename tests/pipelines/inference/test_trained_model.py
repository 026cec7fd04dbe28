"""A trained model embeds new images as its run did, whatever form they come in, or refuses them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import hiertree as ht
from hiertree.datasets import ImageDataset, load_synthetic
from hiertree.errors import CheckpointError, DeviceError, HiertreeError, ImageError, InputError, ShapeError
from hiertree.pipelines.inference import TrainedModel
from hiertree.pipelines.training.recipe.schema import Recipe
from hiertree.pipelines.training.run.experiment import train

Tiny = Callable[..., Recipe]
OVERRIDES = ("data.image_size=20", "images.resize=18", "evaluation.scales=[0.5, 1.0]", "training.epochs=1")


@pytest.fixture(scope="module")
def run(tiny_recipe: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    train(tiny_recipe(*OVERRIDES), folder)
    return folder


@pytest.fixture(scope="module")
def test_set(tiny_recipe: Tiny) -> ImageDataset:
    return load_synthetic("test", **tiny_recipe(*OVERRIDES).data.options())


@pytest.fixture(scope="module")
def embeddings(run: Path) -> NDArray[np.float32]:
    """What the run itself computed."""
    with np.load(run / "embeddings.npz") as arrays:
        stored: NDArray[np.float32] = arrays["embeddings"]
    return stored


@pytest.fixture(scope="module")
def model(run: Path) -> TrainedModel:
    loaded: TrainedModel = ht.load_model(run, device="cpu")
    return loaded


@pytest.fixture(scope="module")
def photos(test_set: ImageDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "inner").mkdir()
    for row in range(len(test_set)):
        test_set.images[row].save(folder / ("inner" if row >= 8 else ".") / f"{row:02d}.png")
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_text("no image")
    return folder


def assert_same(one: NDArray[np.float32], other: NDArray[np.float32]) -> None:
    assert one.shape == other.shape
    assert one.dtype == np.float32
    assert (one * other).sum(axis=1).min() >= 0.9999


def test_folder_files_decoded_images_and_tensors_give_the_runs_own_embeddings(
    model: TrainedModel, test_set: ImageDataset, photos: Path, embeddings: NDArray[np.float32]
) -> None:
    files = [photos / ("inner" if row >= 8 else ".") / f"{row:02d}.png" for row in range(len(test_set))]
    decoded = [test_set.images[row] for row in range(len(test_set))]
    tensor = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in decoded])
    column = pd.DataFrame({"file": list(map(str, files))})["file"]
    for images in (photos, str(photos), files, column, decoded, test_set.images, tensor, tensor / 255):
        assert_same(model.embed(images, batch_size=5, progress=False), embeddings)
    assert_same(model.embed(files[3]), embeddings[3:4])
    assert_same(model.embed(decoded[3]), embeddings[3:4])


def test_model_knows_its_classes_and_its_preprocessing(
    model: TrainedModel, run: Path, tiny_recipe: Tiny, test_set: ImageDataset
) -> None:
    assert model.tree == load_synthetic("train", **tiny_recipe(*OVERRIDES).data.options()).tree
    assert ht.LabelTree.from_json(run / "tree.json") == test_set.tree
    assert model.embedding_size == 8
    written = json.loads((run / "model.json").read_text())["preprocessing"]
    assert written["size"] == 16
    assert written["resize"] == 18
    assert written["scales"] == [0.5, 1.0]


def test_results_carry_the_names_of_their_images(run: Path, test_set: ImageDataset) -> None:
    names = [test_set.images.name(row) for row in range(len(test_set))]
    with np.load(run / "embeddings.npz", allow_pickle=False) as arrays:
        assert arrays["names"].tolist() == names
    assert pd.read_parquet(run / "per_query.parquet").index.tolist() == names


def test_run_of_an_earlier_version_takes_its_preprocessing_from_the_recipe(
    run: Path, test_set: ImageDataset, embeddings: NDArray[np.float32], tmp_path: Path
) -> None:
    earlier = shutil.copytree(run, tmp_path / "run")
    content = json.loads((earlier / "model.json").read_text())
    del content["preprocessing"]
    (earlier / "model.json").write_text(json.dumps(content))
    (earlier / "tree-train.json").unlink()
    model = ht.load_model(earlier)
    assert model.tree is None
    assert_same(model.embed(test_set.images), embeddings)


@pytest.mark.parametrize(
    ("images", "error"),
    [
        (torch.rand(2, 3, 16, 16) * 255, InputError),
        (torch.rand(2, 3, 16, 16) - 0.5, InputError),
        (torch.full((1, 3, 16, 16), torch.nan), InputError),
        (torch.zeros(2, 3, 16, 16, dtype=torch.int64), InputError),
        (torch.zeros(2, 1, 16, 16), ShapeError),
        (torch.zeros(3, 16, 16), ShapeError),
        (torch.zeros(0, 3, 16, 16), ShapeError),
        (np.zeros((2, 3, 16, 16), np.uint8), InputError),
        (["a.png", 3], InputError),
        (pd.Series([1, 2]), InputError),
        (load_synthetic("test", families=2, kinds=2, instances=2, images=2), InputError),
        ([], InputError),
        (None, InputError),
        ("nowhere", ImageError),
        (["nowhere.png"], ImageError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_image_is_refused(model: TrainedModel, images: object, error: type[HiertreeError]) -> None:
    with pytest.raises(error):
        model.embed(images)


def test_folder_without_images_is_refused(model: TrainedModel, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="without images"):
        model.embed(tmp_path)


def test_unfinished_run_and_absent_device_are_refused(run: Path, tmp_path: Path) -> None:
    unfinished = shutil.copytree(run, tmp_path / "run")
    (unfinished / "model.json").unlink()
    with pytest.raises(CheckpointError, match=r"not finished.*hiertree train .* finishes it"):
        ht.load_model(unfinished)
    with pytest.raises(CheckpointError):
        ht.load_model(tmp_path / "nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError):
            ht.load_model(run, device="cuda")
    with pytest.raises(DeviceError):
        ht.load_model(run, device="gpu")


def test_a_folder_without_a_run_is_refused_in_words(tmp_path: Path) -> None:
    for folder, problem in ((tmp_path, "holds no model.json"), (tmp_path / "absent", "no folder .*absent")):
        with pytest.raises(CheckpointError, match=f"{problem}: expected the folder of a finished run"):
            ht.load_model(folder)


@pytest.mark.parametrize("workers", [0, 1])
def test_photos_of_16_bits_are_embedded_as_those_of_8_bits(
    model: TrainedModel, test_set: ImageDataset, tmp_path: Path, workers: int
) -> None:
    gray = [np.array(test_set.images[row].convert("L")) for row in range(8)]
    for bits, suffix, scale in ((8, "png", 1), (16, "png", 257), (16, "tif", 257)):
        (tmp_path / f"{suffix}{bits}").mkdir()
        for row, values in enumerate(gray):
            deep = Image.fromarray(values.astype(np.uint16) * scale if bits == 16 else values)
            deep.save(tmp_path / f"{suffix}{bits}" / f"{row}.{suffix}")
    expected = model.embed(tmp_path / "png8")
    for name in ("png16", "tif16"):
        np.testing.assert_array_equal(model.embed(tmp_path / name, workers=workers), expected)
    decoded = [Image.fromarray(values.astype(np.uint16) * 257) for values in gray]
    np.testing.assert_array_equal(model.embed(decoded), expected)


def test_a_photo_above_the_limit_is_refused(model: TrainedModel, photos: Path) -> None:
    with pytest.raises(ImageError, match="20 × 20 pixels: expected at most 399 pixels"):
        model.embed(photos, max_pixels=399)
    with pytest.raises(ImageError, match=r"images\.max_pixels"):
        model.embed(photos, workers=1, max_pixels=399)
