"""From images to batches: what an augmentation may do, and that no process holds state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Subset, TensorDataset
from torchvision.datasets import ImageFolder

from hiertree.datasets import ImageDataset, load_synthetic
from hiertree.datasets.readers.images import ArrayImages, FileImages
from hiertree.errors import InputError, MissingResourceError, RecipeError, TableError
from hiertree.pipelines.training.data.batches import BatchKey, EpochKeys, batch_loader, keys_in_order
from hiertree.pipelines.training.data.splits import as_image_dataset, check_apart
from hiertree.pipelines.training.data.views import DRAWS, ImageViews, batch_draws, crop_photo, move_glyphs
from hiertree.pipelines.training.recipe.settings import (
    GlyphAugmentation,
    ImageSettings,
    NoAugmentation,
    PhotoAugmentation,
)
from hiertree.samplers import ClassBalancedSampler
from hiertree.tree import LabelTree

STILL = np.full((4, DRAWS), 0.5, dtype=np.float32)


@pytest.fixture(scope="module")
def dataset():
    return load_synthetic("train", families=2, kinds=2, instances=2, images=4, image_size=16)


@pytest.fixture(scope="module")
def images(dataset):
    return ImageViews(dataset.images, ImageSettings(size=16))[BatchKey(0, 0, [0, 1, 2, 3])].images


def test_numbers_differ_between_seeds_epochs_and_batches():
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    draws = {batch_draws(3, seed=s, epoch=e, batch=b).tobytes() for s, e, b in keys}
    assert len(draws) == len(keys)


def test_middle_numbers_leave_glyphs_as_they_are(images):
    assert torch.equal(move_glyphs(images, STILL, GlyphAugmentation()), images)


def test_glyphs_shift_by_the_fraction_of_the_image_asked_for():
    dot = torch.zeros(1, 1, 20, 20, dtype=torch.uint8)
    dot[0, 0, 10, 10] = 255
    draws = STILL[:1].copy()
    draws[0, 3] = 1.0  # as far right as may be looked, so that content moves left
    shifted = move_glyphs(dot, draws, GlyphAugmentation(shift=0.1))
    assert shifted.nonzero().tolist() == [[0, 0, 10, 8]]


def test_glyphs_turn_without_changing_their_size():
    bar = torch.zeros(1, 1, 41, 41, dtype=torch.uint8)
    bar[0, 0, 19:22, 8:33] = 255
    draws = STILL[:1].copy()
    draws[0, 0] = 1.0
    turned = move_glyphs(bar, draws, GlyphAugmentation(degrees=90))
    assert torch.equal(turned, bar.transpose(2, 3))


def test_glyphs_are_never_mirrored():
    corner = torch.zeros(64, 1, 28, 28, dtype=torch.uint8)
    corner[:, :, 6:10, 6:22] = 255  # an "F" without its arm: top bar and left stem
    corner[:, :, 6:22, 6:10] = 255
    shifted = move_glyphs(corner, batch_draws(64, seed=0, epoch=0, batch=0), GlyphAugmentation()).float()
    left, right = shifted[..., :14].sum(dim=(1, 2, 3)), shifted[..., 14:].sum(dim=(1, 2, 3))
    assert bool((left > right).all())


def test_photo_crop_of_everything_is_the_image_itself(images):
    settings = PhotoAugmentation(smallest_area=1.0, flip=False)
    assert torch.equal(crop_photo(images[0], STILL[0], settings, size=16), images[0])


def test_photo_flip_mirrors_half_of_the_images(images):
    settings = PhotoAugmentation(smallest_area=1.0)
    low, high = STILL[0].copy(), STILL[0].copy()
    low[4], high[4] = 0.49, 0.51
    assert torch.equal(crop_photo(images[0], low, settings, size=16), images[0].flip(-1))
    assert torch.equal(crop_photo(images[0], high, settings, size=16), images[0])


@pytest.mark.parametrize("shape", [(3, 1, 300), (3, 300, 1), (1, 7, 5)])
def test_photo_crop_copes_with_any_shape(shape):
    photo = torch.randint(0, 256, shape, dtype=torch.uint8)
    for row in batch_draws(20, seed=0, epoch=0, batch=0):
        assert crop_photo(photo, row, PhotoAugmentation(), size=16).shape == (shape[0], 16, 16)


@pytest.mark.parametrize("augmentation", [GlyphAugmentation(), PhotoAugmentation(), NoAugmentation()])
def test_cache_changes_nothing(dataset, augmentation):
    key = BatchKey(3, 7, [5, 0, 5])
    batches = [
        ImageViews(dataset.images, ImageSettings(size=16, cache=cache, augmentation=augmentation), augment=0)[
            key
        ].images
        for cache in (True, False)
    ]
    assert torch.equal(*batches)


def test_same_image_twice_in_a_batch_is_seen_in_two_ways(dataset):
    first, second = ImageViews(dataset.images, ImageSettings(size=16), augment=0)[BatchKey(0, 0, [1, 1])].images
    assert not torch.equal(first, second)


def test_evaluation_sees_images_unchanged(dataset):
    views = ImageViews(dataset.images, ImageSettings(size=16, augmentation=PhotoAugmentation()))
    image = torch.from_numpy(np.array(dataset.images[2])).permute(2, 0, 1)
    assert torch.equal(views[BatchKey(9, 9, [2])].images[0], image)


def test_evaluation_can_crop_the_center_of_a_larger_image(dataset):
    view = ImageViews(dataset.images, ImageSettings(size=12, resize=16))[BatchKey(0, 0, [2])].images[0]
    image = torch.from_numpy(np.array(dataset.images[2])).permute(2, 0, 1)
    assert torch.equal(view, image[:, 2:14, 2:14])


def test_evaluation_can_squeeze_an_image_before_the_crop_as_pillow_does():
    """The authors' view of Stanford Online Products: 256 × 256 whatever the aspect ratio, of which the middle 224."""
    photo = np.random.default_rng(0).integers(0, 256, (40, 90, 3), dtype=np.uint8)
    settings = ImageSettings.model_validate({"size": 20, "resize": [24, 24], "cache": False})
    view = ImageViews(ArrayImages(photo[None], names=["wide"]), settings)[BatchKey(0, 0, [0])].images[0]
    squeezed = np.array(Image.fromarray(photo).resize((24, 24), Image.Resampling.BILINEAR))[2:22, 2:22]
    assert np.abs(view.permute(1, 2, 0).numpy().astype(int) - squeezed).max() <= 1


def test_gray_images_have_one_channel(dataset):
    assert ImageViews(dataset.images, ImageSettings(size=16, channels=1))[BatchKey(0, 0, [0])].images.shape == (
        1,
        1,
        16,
        16,
    )


def test_workers_see_the_same_batches_in_the_same_order(dataset):
    sampler = ClassBalancedSampler(dataset.paths, batch_size=4, images_per_class=2)
    views = ImageViews(dataset.images, ImageSettings(size=16, cache=False), augment=0)

    def batches(workers):
        keys = EpochKeys(sampler)
        loader = batch_loader(views, keys, workers=workers)
        keys.start(5, first=1)
        return [list(batch) for batch in loader]

    single_process, worker_batches = batches(0), batches(2)
    assert len(single_process) == len(sampler) - 1
    for expected, reference in zip(single_process, worker_batches, strict=True):
        assert torch.equal(expected[0], reference[0])
        assert torch.equal(expected[1], reference[1])


def test_epoch_begun_late_is_the_rest_of_the_whole_one(dataset):
    keys = EpochKeys(ClassBalancedSampler(dataset.paths, batch_size=4, images_per_class=2))
    keys.start(2)
    all_batches = list(keys)
    keys.start(2, first=3)
    assert list(keys) == all_batches[3:]
    assert len(keys) == len(all_batches) - 3


def test_more_pixels_than_memory_are_refused_before_any_image_is_decoded(dataset, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda _: 2**10)  # one MiB
    assert len(ImageViews(dataset.images, ImageSettings(size=16))) == len(dataset)
    with pytest.raises(
        MissingResourceError, match=r"than the 0\.0 GiB of this machine's memory; set images\.cache=false"
    ):
        ImageViews(dataset.images, ImageSettings(size=4096))


def test_loader_leaves_torchs_own_generator_alone(dataset):
    state = torch.get_rng_state()
    loader = batch_loader(ImageViews(dataset.images, ImageSettings(size=16)), keys_in_order(range(16), 8))
    assert sum(len(indices) for indices, _ in loader) == 16
    assert torch.equal(torch.get_rng_state(), state)


@pytest.fixture
def folders(tmp_path):
    """Eight classes of two images, as torchvision's ImageFolder reads them."""
    for label in range(8):
        for view in range(2):
            file = tmp_path / f"class{label}" / f"{view}.png"
            file.parent.mkdir(exist_ok=True)
            Image.new("RGB", (6, 6), (10 * label, 100 * view, 5)).save(file)
    return tmp_path


def read(dataset):
    return as_image_dataset(dataset, name="own", split="train")


def test_labels_are_those_of_the_items_where_targets_are_transformed(folders):
    def halved(label):
        return label // 2

    assert read(ImageFolder(folders)).tree.level_sizes == (8,)

    class Joint(ImageFolder):  # as torchvision's own data sets apply what changes images and targets together
        def __getitem__(self, index):
            self.transforms = lambda image, label: (image, halved(label))
            return self.transforms(*super().__getitem__(index))

    for items in (ImageFolder(folders, target_transform=halved), Joint(folders)):
        assert read(items).paths[:, 0].tolist() == np.repeat(range(4), 4).tolist()
    assert read(Subset(ImageFolder(folders, target_transform=halved), [0, 6, 7])).tree.leaves == (0, 1)
    assert read(ConcatDataset([ImageFolder(folders)] * 2)).paths[16:, 0].tolist() == np.repeat(range(8), 2).tolist()

    class Wrapper(ImageFolder):  # whose targets say something else than its items
        def __getitem__(self, index):
            return self.loader(self.samples[index][0]), 7 - self.targets[index]

    assert read(Wrapper(folders)).tree.leaves == tuple(range(7, -1, -1))


def test_texts_and_numbers_may_be_labels_of_one_item():
    pixels = torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    dataset = read([(image, name, index) for index, (image, name) in enumerate(zip(pixels, "aabb", strict=True))])
    assert (dataset.tree.level_sizes, dataset.tree.leaves) == ((2, 4), (0, 1, 2, 3))
    assert read(TensorDataset(pixels, torch.tensor([3.0, 3.0, 5.0, 5.0]))).tree.leaves == (3, 5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.eye(4), "4 columns with a single 1 in every row, which is one-hot.*argmax"),
        (torch.eye(4, dtype=torch.int64), "one-hot"),
        (torch.tensor([0.1, 0.9, 0.3, 0.4]), "floating labels such as 0.1"),
        (torch.tensor([0.0, torch.inf, 1.0, 2.0]), "floating labels such as inf"),
    ],
)
def test_what_is_no_class_is_refused(labels, message):
    with pytest.raises(RecipeError, match=rf"data: labels of own.*{message}"):
        read(TensorDataset(torch.zeros(4, 3, 2, 2), labels))


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (
            torch.full((3, 4, 4), -1.5),
            r"item 0 of the data set: an image with values from -1\.5 to -1\.5.*uint8 pixels",
        ),
        (torch.full((3, 4, 4), 255.0), r"values from 255 to 255.*convert pixels from 0 to 255 to uint8"),
        (np.full((4, 4, 3), 2.0), "values from 2 to 2"),
        (torch.full((3, 4, 4), torch.nan), "values from nan"),
        (torch.zeros(3, 4, 4, dtype=torch.int64), "of type int64"),
        (torch.zeros(5, 4, 4), r"of shape \(height, width, channels\) = \(4, 4, 5\)"),
        ("a.png", "a str"),
    ],
)
def test_pixels_outside_their_range_are_refused_before_training(pixels, message):
    with pytest.raises(InputError, match=message):
        read([(pixels, label) for label in (0, 1)])


def test_pixels_of_every_kind_are_the_same_image():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    kinds = [Image.fromarray(pixels), pixels, pixels / 255, tensor, tensor / 255, (tensor / 255).double()]
    images = read([(image, label) for label, image in enumerate(kinds)]).images
    for index in range(len(kinds)):
        assert np.array_equal(np.asarray(images[index]), pixels)


def test_a_test_image_that_was_trained_on_is_refused_by_its_name(tmp_path):
    def listing(folder, *names, split="test"):
        tree, paths = LabelTree.from_paths([("class",)]), np.zeros((len(names), 1), np.int32)
        return ImageDataset(name="own", split=split, tree=tree, paths=paths, images=FileImages(folder, names))

    train = listing(tmp_path, "a.png", "b.png", split="train")
    with pytest.raises(TableError, match=r"own: 1 of 2 images of the split 'test' are in 'train' .* '\./b\.png'"):
        check_apart(train, listing(tmp_path, "c.png", "./b.png"))
    check_apart(train, listing(tmp_path, "c.png", "d.png"))
    check_apart(train, listing(tmp_path / "other", "b.png"))
    in_memory = ArrayImages(np.zeros((1, 1, 1), np.uint8), names=["b.png"])
    check_apart(replace(train.select([1], split="train"), images=in_memory), listing(tmp_path, "b.png"))
