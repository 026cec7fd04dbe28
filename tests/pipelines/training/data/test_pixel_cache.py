"""Images decoded once into files: the same views as without, kept through an interruption, never those of others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from hiertree.datasets import load_table
from hiertree.datasets.readers.images import FileImages
from hiertree.errors import ImageError, MissingResourceError
from hiertree.pipelines.training.data import views
from hiertree.pipelines.training.data.batches import BatchKey, batch_loader
from hiertree.pipelines.training.data.views import ImageViews
from hiertree.pipelines.training.recipe.settings import ImageSettings, NoAugmentation, PhotoAugmentation

EVERYTHING = [BatchKey(0, 0, [0, 1, 2]), BatchKey(1, 7, [9, 3, 3])]


def save_photo(path, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((60, 40)).save(path)


@pytest.fixture
def photos(tmp_path):
    """Ten photos of 60 × 40 pixels, five of each label."""
    for index in range(10):
        save_photo(tmp_path / f"{index}.png", index)
    rows = [f"{index}.png,{index % 2}" for index in range(10)]
    (tmp_path / "images.csv").write_text("\n".join(["file,label", *rows]))
    return load_table(tmp_path / "images.csv", root=tmp_path, image="file", levels=["label"])


def settings(**options):
    return ImageSettings.model_validate({"size": 16, "augmentation": PhotoAugmentation(), **options})


@pytest.mark.parametrize("resize", [None, 20, (20, 24)])
@pytest.mark.parametrize("augment", [None, 3])
def test_files_give_the_views_that_memory_gives(photos, tmp_path, resize, augment):
    in_memory = ImageViews(photos.images, settings(cache=True, resize=resize), augment=augment)
    in_files = ImageViews(
        photos.images, settings(cache=True, resize=resize, cache_folder=str(tmp_path / "kept")), augment=augment
    )
    for key in EVERYTHING:
        assert torch.equal(in_files[key].images, in_memory[key].images)


def test_evaluation_view_through_a_larger_cache_is_near_that_of_the_photo(photos):
    for resize in (None, 20, (20, 20)):
        views = ImageViews(photos.images, settings(cache=False, resize=resize))[EVERYTHING[0]].images.float()
        through = ImageViews(photos.images, settings(cache=True, cache_size=32, resize=resize))[
            EVERYTHING[0]
        ].images.float()
        assert views.shape == through.shape
        assert (views - through).abs().mean() < 4, "of 255"


def test_crops_of_a_larger_cache_have_more_detail(photos):
    small = PhotoAugmentation(smallest_area=0.05)
    detail = [
        ImageViews(photos.images, settings(cache=True, cache_size=size, augmentation=small), augment=0)[EVERYTHING[0]]
        .images.float()
        .diff(dim=3)
        .abs()
        .mean()
        for size in (8, 40)
    ]
    assert detail[0] < detail[1]


def test_second_run_decodes_nothing_and_workers_share_the_files(photos, tmp_path, decoded_count):
    cached = settings(cache=True, cache_folder=str(tmp_path / "kept"), augmentation=NoAugmentation())
    first = ImageViews(photos.images, cached)
    assert decoded_count() == 10
    views = ImageViews(photos.images, cached)
    assert decoded_count() == 10
    assert len(pickle.dumps(views._cache)) < 1_000
    loaded = list(batch_loader(views, EVERYTHING, workers=2))
    assert all(torch.equal(batch.images, first[key].images) for batch, key in zip(loaded, EVERYTHING, strict=True))


@pytest.fixture
def decoded_count(monkeypatch):
    """How many images have been decoded."""
    rows = []
    decode = ImageViews._square

    def noting(views, index, size):
        rows.append(index)
        return decode(views, index, size)

    monkeypatch.setattr(ImageViews, "_square", noting)
    return lambda: len(rows)


def test_an_interrupted_decoding_goes_on_after_the_last_whole_part(photos, tmp_path, monkeypatch, decoded_count):
    monkeypatch.setattr(views, "_ROWS_PER_FILE", 4)
    cached = settings(cache=True, cache_folder=str(tmp_path / "kept"))
    (tmp_path / "6.png").write_bytes(b"no image")
    with pytest.raises(ImageError, match=r"6\.png"):
        ImageViews(photos.images, cached)
    decoded = decoded_count()
    save_photo(tmp_path / "6.png", 6)
    views_after = ImageViews(photos.images, cached)
    assert decoded_count() - decoded == 6, "all but the first four"
    assert torch.equal(
        views_after[EVERYTHING[1]].images, ImageViews(photos.images, settings(cache=True))[EVERYTHING[1]].images
    )


def test_an_image_that_has_changed_is_decoded_again_with_those_of_its_file(
    photos, tmp_path, monkeypatch, decoded_count
):
    monkeypatch.setattr(views, "_ROWS_PER_FILE", 4)
    cached = settings(cache=True, cache_folder=str(tmp_path / "kept"), augmentation=NoAugmentation())
    views_before = ImageViews(photos.images, cached)
    save_photo(tmp_path / "5.png", 99)
    changed = ImageViews(photos.images, cached)
    assert decoded_count() == 10 + 4
    key = BatchKey(0, 0, list(range(10)))
    fresh = ImageViews(photos.images, settings(cache=False, augmentation=NoAugmentation()))
    assert torch.equal(changed[key].images, fresh[key].images)
    differs = (changed[key].images != views_before[key].images).flatten(1).any(1)
    assert differs.tolist() == [row == 5 for row in range(10)], "a run at work keeps the images that it began with"


def test_a_disk_without_room_is_reported_before_anything_is_decoded(photos, tmp_path, decoded_count, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(MissingResourceError, match=r"0\.0 GiB on the disk of .*kept; lower images\.cache_size"):
        ImageViews(photos.images, settings(cache=True, cache_folder=str(tmp_path / "kept")))
    assert decoded_count() == 0


@pytest.mark.parametrize("augment", [None, 3])
@pytest.mark.parametrize("cache", [False, True, "kept"])
def test_views_of_16_bits_are_those_of_8_bits(tmp_path, cache, augment):
    values = np.random.default_rng(0).integers(0, 256, (10, 40, 60), dtype=np.uint16)
    views = []
    for name, scaled in (("deep", values * 257), ("plain", values.astype(np.uint8))):
        (tmp_path / name).mkdir()
        for index, image in enumerate(scaled):
            Image.fromarray(image).save(tmp_path / name / f"{index}.png")
        folder = (
            {"cache": True, "cache_folder": str(tmp_path / f"kept {name}")} if cache == "kept" else {"cache": cache}
        )
        source = FileImages(tmp_path / name, [f"{index}.png" for index in range(10)])
        views.append(ImageViews(source, settings(**folder), augment=augment))
    for key in EVERYTHING:
        assert torch.equal(views[0][key].images, views[1][key].images)
        assert views[0][key].images.float().std() > 10
