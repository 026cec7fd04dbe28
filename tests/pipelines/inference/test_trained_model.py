"""A trained model embeds new images as its run did, whatever form they come in, or refuses them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import hiertree as ht
from hiertree.datasets import load_synthetic
from hiertree.errors import CheckpointError, DeviceError, ImageError, InputError, ShapeError
from hiertree.pipelines.training.run.experiment import train

OVERRIDES = ("data.image_size=20", "images.resize=18", "evaluation.scales=[0.5, 1.0]", "training.epochs=1")


@pytest.fixture(scope="module")
def run(tiny_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(tiny_recipe(*OVERRIDES), folder)
    return folder


@pytest.fixture(scope="module")
def test_set(tiny_recipe):
    return load_synthetic("test", **tiny_recipe(*OVERRIDES).data.options())


@pytest.fixture(scope="module")
def embeddings(run):
    """What the run itself computed."""
    with np.load(run / "embeddings.npz") as arrays:
        return arrays["embeddings"]


@pytest.fixture(scope="module")
def model(run):
    return ht.load_model(run, device="cpu")


@pytest.fixture(scope="module")
def photos(test_set, tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    (folder / "inner").mkdir()
    for row in range(len(test_set)):
        test_set.images[row].save(folder / ("inner" if row >= 8 else ".") / f"{row:02d}.png")
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_text("no image")
    return folder


def assert_same(vectors, expected):
    assert vectors.shape == expected.shape
    assert vectors.dtype == np.float32
    assert (vectors * expected).sum(axis=1).min() >= 0.9999


def test_folder_files_decoded_images_and_tensors_give_the_runs_own_embeddings(model, test_set, photos, embeddings):
    files = [photos / ("inner" if row >= 8 else ".") / f"{row:02d}.png" for row in range(len(test_set))]
    decoded = [test_set.images[row] for row in range(len(test_set))]
    tensor = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in decoded])
    column = pd.DataFrame({"file": list(map(str, files))})["file"]
    for images in (photos, str(photos), files, column, decoded, test_set.images, tensor, tensor / 255):
        assert_same(model.embed(images, batch_size=5, progress=False), embeddings)
    assert_same(model.embed(files[3]), embeddings[3:4])
    assert_same(model.embed(decoded[3]), embeddings[3:4])


def test_the_type_that_torch_makes_by_default_changes_no_embedding(run, photos, embeddings):
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        vectors = ht.load_model(run, device="cpu").embed(photos, progress=False)
    finally:
        torch.set_default_dtype(dtype)
    assert_same(vectors, embeddings)


def test_images_in_memory_are_embedded_as_their_files_are(model, tmp_path):
    random = np.random.default_rng(0)
    sized = [random.integers(0, 256, (20 + row, 33 - row, 3), dtype=np.uint8) for row in range(5)]
    files = [tmp_path / f"{row}.png" for row in range(5)]
    for file, pixels in zip(files, sized, strict=True):
        Image.fromarray(pixels).save(file)
    expected = model.embed(files)
    assert len({row.tobytes() for row in expected}) == 5
    tensors = [torch.from_numpy(pixels).permute(2, 0, 1) for pixels in sized]
    floats = [(pixels / 255).astype(kind) for pixels, kind in zip(sized, 2 * ["f4", "f8"] + ["f2"], strict=True)]
    for images in (sized, tuple(tensors), pd.Series(sized, index=list("edcba")), pd.Series(tensors), floats):
        np.testing.assert_array_equal(model.embed(images), expected)
    for images in (pd.Series(files), np.array(list(map(str, files))), [Image.open(file) for file in files]):
        np.testing.assert_array_equal(model.embed(images), expected)
    for single in (sized[2], tensors[2], tensors[2].double() / 255, sized[2][:, ::-1][:, ::-1], files[2]):
        np.testing.assert_allclose(model.embed(single), expected[2:3], atol=1e-6)  # a batch of another size
    gray = sized[0][..., 0]
    (tmp_path / "gray").mkdir()
    Image.fromarray(gray).save(tmp_path / "gray" / "0.png")
    for single in (gray, gray[..., None], torch.from_numpy(gray)[None]):
        np.testing.assert_array_equal(model.embed(single), model.embed(tmp_path / "gray"))


class Squares(Dataset[tuple[torch.Tensor, int]]):
    """Drawn images (3, 20, 20) in [0, 1] with a label."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index]).permute(2, 0, 1) / 255, index


class Stream(IterableDataset[dict[str, object]]):
    """The same without a length, as dictionaries."""

    def __init__(self, squares):
        self.squares = squares

    def __iter__(self):
        return ({"label": label, "image": image} for image, label in map(self.squares.__getitem__, range(7)))


def test_loaders_are_embedded_in_their_order(model, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (7, 20, 20, 3), dtype=np.uint8)
    files = [tmp_path / f"{row}.png" for row in range(7)]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    expected, squares = model.embed(files, batch_size=3), Squares(pixels)
    np.testing.assert_array_equal(model.embed(pixels, batch_size=3), expected)
    names_and_rows = [(str(file), row) for row, file in enumerate(files)]
    loaders = [
        DataLoader(squares, batch_size=3),
        DataLoader(squares, batch_size=3, num_workers=1),
        DataLoader(TensorDataset(torch.from_numpy(pixels).permute(0, 3, 1, 2)), batch_size=3),
        DataLoader(Stream(squares), batch_size=3),
        DataLoader(names_and_rows, batch_size=3),
        DataLoader(files, batch_size=3, collate_fn=lambda batch: [Image.open(file) for file in batch]),
    ]
    for loader in loaders:
        np.testing.assert_array_equal(model.embed(loader), expected)
    with pytest.raises(InputError, match="DataLoader without batches"):
        model.embed(DataLoader(squares, sampler=[]))
    with pytest.raises(InputError, match=r"batches with picture: expected a folder, .* a DataLoader"):
        model.embed(DataLoader([{"picture": 1}]))
    normalized = DataLoader(TensorDataset(torch.randn(2, 3, 20, 20)))
    with pytest.raises(InputError, match="without normalization; the model normalizes images itself"):
        model.embed(normalized)


def test_model_knows_its_classes_and_its_preprocessing(model, run, tiny_recipe, test_set):
    assert model.tree == load_synthetic("train", **tiny_recipe(*OVERRIDES).data.options()).tree
    assert ht.LabelTree.from_json(run / "tree.json") == test_set.drop_absent_classes().tree
    assert model.embedding_size == 8
    metadata = json.loads((run / "model.json").read_text())["preprocessing"]
    assert metadata["size"] == 16
    assert metadata["resize"] == 18
    assert metadata["scales"] == [0.5, 1.0]


def test_results_carry_the_names_of_their_images(run, test_set):
    names = [test_set.images.name(row) for row in range(len(test_set))]
    with np.load(run / "embeddings.npz", allow_pickle=False) as arrays:
        assert arrays["names"].tolist() == names
    assert pd.read_parquet(run / "per_query.parquet").index.tolist() == names


@pytest.mark.parametrize(
    ("images", "error"),
    [
        (torch.rand(2, 3, 16, 16) * 255, InputError),
        (torch.rand(2, 3, 16, 16) - 0.5, InputError),
        (torch.full((1, 3, 16, 16), torch.nan), InputError),
        (torch.zeros(2, 3, 16, 16, dtype=torch.int64), InputError),
        (torch.zeros(2, 16, 16, 3), ShapeError),
        (torch.zeros(0, 3, 16, 16), InputError),
        (torch.zeros(2, 3, 0, 16), ShapeError),
        (np.zeros((2, 3, 16, 16), np.uint8), ShapeError),
        (np.zeros((16, 16, 3)) + 2, InputError),
        ([np.zeros((16, 16, 3), np.uint8), "a.png"], InputError),
        (np.array([1, None]), InputError),
        ([np.full((16, 16), "a")], InputError),
        ({"image": "a.png"}, InputError),
        (DataLoader([{"picture": 1}]), InputError),
        (DataLoader([(1, 2)]), InputError),
        (["a.png", 3], InputError),
        (pd.Series([1, 2]), InputError),
        (load_synthetic("test", families=2, kinds=2, instances=2, images=2), InputError),
        ([], InputError),
        (None, InputError),
        (iter(["a.png"]), InputError),
        ("nowhere", ImageError),
        (["nowhere.png"], ImageError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_image_is_refused(model, images, error):
    with pytest.raises(error):
        model.embed(images)


def test_folder_without_images_is_refused(model, tmp_path):
    with pytest.raises(ImageError, match="without images"):
        model.embed(tmp_path)


def test_unfinished_run_and_absent_device_are_refused(run, tmp_path):
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


def test_a_folder_without_a_run_is_refused_in_words(tmp_path):
    for folder, problem in ((tmp_path, "holds no model.json"), (tmp_path / "absent", "no folder .*absent")):
        with pytest.raises(CheckpointError, match=f"{problem}: expected the folder of a finished run"):
            ht.load_model(folder)


@pytest.mark.parametrize("workers", [0, 1])
def test_photos_of_16_bits_are_embedded_as_those_of_8_bits(model, test_set, tmp_path, workers):
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


def test_a_photo_above_the_limit_is_refused(model, photos):
    with pytest.raises(ImageError, match="20 × 20 pixels: expected at most 399 pixels"):
        model.embed(photos, max_pixels=399)
    with pytest.raises(ImageError, match=r"images\.max_pixels"):
        model.embed(photos, workers=1, max_pixels=399)


def test_an_image_that_workers_cannot_decode_ends_the_process(run, tmp_path):
    (tmp_path / "bad.png").write_text("no image")
    script = f"import hiertree; hiertree.load_model({str(run)!r}).embed({str(tmp_path)!r}, workers=1)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert "hiertree.errors.ImageError: image 'bad.png' does not decode" in ended.stderr
    assert ended.returncode == 1
