"""Folders of folders as data sets, from Python and from a recipe."""

from __future__ import annotations

import os
import unicodedata
from contextlib import suppress

import pytest
from benchmark_files import write_image

from hiertree import datasets
from hiertree.errors import HiertreeError, ImageError, OptionError, UnevenDepthError
from hiertree.pipelines.training.data.splits import load_split
from hiertree.pipelines.training.recipe.reading import load_recipe


def write(root, *names):
    for index, name in enumerate(names):
        write_image(root / name, index)
    return root


@pytest.fixture
def photos(tmp_path):
    classes = ("natural/lake", "natural/peak", "built/church", "built/lake")
    return write(tmp_path / "photos", *(f"{name}/{view}.jpg" for name in classes for view in range(2)))


def test_nested_folders_are_levels(photos):
    (photos / "natural" / "lake" / "notes.txt").write_text("no image")
    write_image(photos / ".thumbnails" / "natural" / "lake" / "0.jpg")
    dataset = datasets.load("folder", photos, None)
    assert (len(dataset), dataset.tree.level_names, dataset.tree.level_sizes) == (8, ("level_1", "level_2"), (2, 4))
    assert dataset.tree.labels_of(dataset.paths[0].tolist()) == ("built", "church")
    photo_set = datasets.load_folder(photos, levels=["kind", "type"])
    assert photo_set.tree.level_names == ("kind", "type")
    assert photo_set.images[0].size == (8, 6)


def test_a_name_that_is_not_utf_8_is_refused_before_the_work(photos):
    with suppress(OSError):  # a file system that has no such names
        (photos / "natural" / os.fsdecode(b"caf\xe9")).mkdir()
        write_image(photos / "natural" / os.fsdecode(b"caf\xe9") / "0.jpg")
        with pytest.raises(ImageError, match=r"natural/caf\\udce9/0\.jpg.*names in UTF-8"):
            datasets.load_folder(photos)


def test_splits_are_top_level_folders(tmp_path):
    root = write(tmp_path, "train/a/x/1.jpg", "train/a/y/1.jpg", "validation/b/z/1.jpg", "test/c/w/1.JPG")
    sizes = {split: len(datasets.load("folder", root, split)) for split in ("train", "val", "test")}
    assert sizes == {"train": 2, "val": 1, "test": 1}
    with pytest.raises(OptionError, match=r"split='dev' of .*test, train, validation.*name one of these"):
        datasets.load("folder", root, "dev")
    with pytest.raises(OptionError, match=r"split='\.\.'"):
        datasets.load("folder", root / "train", "..")


def test_a_class_whose_letters_one_machine_composes_has_one_id(tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "château") for form in ("NFC", "NFD"))
    root = write(tmp_path, f"train/{composed}/1.jpg", "train/lac/1.jpg", "test/lac/2.jpg", f"test/{decomposed}/2.jpg")
    train, test = (datasets.load_folder(root, split) for split in ("train", "test"))
    assert train.tree == test.tree
    assert sorted(test.paths[:, 0].tolist()) == [0, 1]
    assert [image.size for image in test.images] == [(8, 6)] * 2
    mixed = write(tmp_path / "mixed", f"{composed}/1.jpg", f"{decomposed}/1.jpg", "lac/1.jpg")
    assert datasets.load_folder(mixed).tree.level_sizes == (2,)
    splits = [datasets.load_folder(mixed, split, holdout=0.5) for split in ("train", "test")]
    assert sorted(len(split) for split in splits) == [1, 2]


def test_a_share_of_the_classes_is_held_out(photos):
    splits = {split: datasets.load_folder(photos, split, holdout=0.5, seed=3) for split in ("train", "test")}
    classes = {split: set(dataset.drop_absent_classes().tree.leaves) for split, dataset in splits.items()}
    assert (len(classes["train"]), len(classes["test"]), classes["train"] & classes["test"]) == (2, 2, set())
    repeat = datasets.load_folder(photos, "test", holdout=0.5, seed=3)
    assert set(repeat.drop_absent_classes().tree.leaves) == classes["test"]
    for fraction in (0.01, 1.0, 0.0, "half"):
        with pytest.raises(OptionError, match="holdout"):
            datasets.load_folder(photos, "train", holdout=fraction)
    with pytest.raises(OptionError, match="'train' or 'test'"):
        datasets.load_folder(photos, "val", holdout=0.5)


def test_a_share_of_the_images_of_each_class_is_held_out(photos):
    splits = [datasets.load_folder(photos, split, holdout=0.5, holdout_by="images") for split in ("train", "test")]
    names = [{split.images.name(row) for row in range(len(split))} for split in splits]
    assert [split.tree.leaves for split in splits] == [datasets.load_folder(photos).tree.leaves] * 2
    assert [len(split_names) for split_names in names] == [4, 4]
    assert not names[0] & names[1]
    write_image(photos / "built" / "tower" / "only.jpg")
    assert len(datasets.load_folder(photos, "train", holdout=0.9, holdout_by="images").tree) == 5
    with pytest.raises(OptionError, match=r"holdout=0\.1 of the images of each of 5 classes"):
        datasets.load_folder(photos, "test", holdout=0.1, holdout_by="images")


def test_images_at_different_depths_need_a_policy(photos):
    write_image(photos / "sky" / "1.jpg")
    with pytest.raises(UnevenDepthError, match=r"'sky/1\.jpg' is 1 folders deep"):
        datasets.load_folder(photos)
    padded = datasets.load_folder(photos, uneven="pad")
    assert padded.tree.labels_of(padded.paths[-1].tolist()) == ("sky", "sky")
    assert datasets.load_folder(photos, uneven="truncate").tree.level_sizes == (3,)
    short_paths = datasets.load_folder(photos, uneven="unknown")
    assert (short_paths.tree.level_sizes, short_paths.paths[-1].tolist()) == ((3, 4), [2, -1])
    write_image(photos / "stray.jpg")
    with pytest.raises(UnevenDepthError, match=r"stray\.jpg lies in no folder"):
        datasets.load_folder(photos, uneven="pad")


def test_classes_of_which_no_image_is_known_are_dropped(photos):
    write(photos, "sky/1.jpg", "built/2.jpg", "natural/3.jpg", "natural/sea/4.jpg")
    all_images = datasets.load_folder(photos, uneven="unknown")
    names = [all_images.images.name(row) for row in range(len(all_images))]
    rows = [names.index(name) for name in ("sky/1.jpg", "natural/3.jpg", "natural/sea/4.jpg", "natural/lake/0.jpg")]
    split = all_images.select(rows, split="some").drop_absent_classes()
    assert split.tree.level_sizes == (2, 2)
    assert [split.tree.labels_of(path) for path in split.paths] == [
        all_images.tree.labels_of(all_images.paths[row]) for row in rows
    ]


def test_bad_images_are_errors_or_left_out(photos):
    (photos / "built" / "church" / "0.jpg").write_bytes(b"no image")
    assert len(datasets.load_folder(photos)) == 8
    dataset = datasets.load_folder(photos).drop_unreadable_images()
    assert (len(dataset), dataset.left_out) == (7, ("built/church/0.jpg",))


@pytest.mark.parametrize("options", [{"levels": ["kind"]}, {"levels": "kind"}, {"uneven": "cut"}, {"seed": -1}])
def test_options_that_cannot_be_are_refused(photos, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        datasets.load_folder(photos, **options)


def test_folders_without_images_are_refused(tmp_path):
    for root in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ImageError):
            datasets.load_folder(root)
    with pytest.raises(HiertreeError):
        datasets.load("folder", tmp_path / "absent", "train")


def test_a_recipe_reads_folders(photos, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        f"extends: synthetic-happier\ndata: {{name: folder, root: {photos}, holdout: 0.5, levels: [kind, type]}}\n"
    )
    recipe = load_recipe(tmp_path / "mine.yaml")
    assert [len(load_split(recipe, split)) for split in ("train", "test")] == [4, 4]


def test_gldv2_means_the_same_in_a_recipe_and_by_name(tmp_path):
    from benchmark_files import write_benchmark

    write_benchmark("gldv2", tmp_path)
    by_name = datasets.load("gldv2", tmp_path, verify="structure")
    (tmp_path / "mine.yaml").write_text(
        f"extends: synthetic-happier\ndata: {{name: gldv2, root: {tmp_path}, verify: structure}}\n"
    )
    by_recipe = load_split(load_recipe(tmp_path / "mine.yaml"), "train")
    assert (by_recipe.name, by_recipe.tree) == (by_name.name, by_name.tree)
    assert by_name.tree.level_names == ("landmark_id",)
