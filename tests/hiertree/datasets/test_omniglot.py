"""Omniglot from each of its published forms, on the real files."""

from __future__ import annotations

import zipfile
from collections import Counter

import numpy as np
import pytest

from hiertree.datasets import load_omniglot
from hiertree.errors import ImageError, MissingResourceError, OptionError


@pytest.fixture(scope="module")
def omniglot(shared_data):
    return shared_data / "omniglot"


def alphabets(dataset):
    return {str(leaf).split("/")[0] for leaf in dataset.drop_absent_classes().tree.leaves}


@pytest.fixture(scope="module")
def unpacked(omniglot, tmp_path_factory):
    """torchvision's layout with two characters of three alphabets, one of them for evaluation."""
    root = tmp_path_factory.mktemp("data")
    folders = ["images_background/Greek", "images_background/Latin", "images_evaluation/Oriya"]
    with zipfile.ZipFile(omniglot / "omniglot_full.zip") as archive:
        for member in archive.namelist():
            subset, alphabet, character = [*member.split("/"), "", "", ""][1:4]
            if (
                f"{subset}/{alphabet}" in folders
                and character in ("character01", "character02")
                and member.endswith(".png")
            ):
                target = root / "omniglot-py" / "/".join(member.split("/")[1:])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
    return root


def test_the_npz_holds_the_official_split(omniglot):
    train = load_omniglot(omniglot / "omniglot_28x28.npz", "train")
    test = load_omniglot(omniglot / "omniglot_28x28.npz", "test")
    assert (train.tree.level_sizes, len(train)) == ((30, 964), 19_280)
    assert (test.drop_absent_classes().tree.level_sizes, len(test)) == ((20, 659), 13_180)
    assert not alphabets(train) & alphabets(test)
    assert set(Counter(train.paths[:, 1].tolist()).values()) == {20}


def test_torchvisions_folder_keeps_the_official_split(unpacked):
    train, test = load_omniglot(unpacked, "train"), load_omniglot(unpacked, "test")
    assert (alphabets(train), alphabets(test)) == ({"Greek", "Latin"}, {"Oriya"})
    assert (len(train), len(test)) == (80, 40)
    assert train.tree.leaves == ("Greek/character01", "Greek/character02", "Latin/character01", "Latin/character02")
    assert train.images.name(0) == "Greek/character01/01"


@pytest.mark.parametrize("inner", ["omniglot-py", "omniglot-py/images_background"])
def test_folders_inside_torchvisions_are_found_too(unpacked, inner):
    assert "Greek" in alphabets(load_omniglot(unpacked / inner, "train", holdout="characters"))


def test_the_published_size_is_left_as_it_is(unpacked):
    image = np.asarray(load_omniglot(unpacked, "train", image_size=105).images[0])
    assert image.shape == (105, 105)
    assert set(np.unique(image)) == {0, 255}
    assert image.mean() < 60  # ink is bright and rare


def test_characters_held_out_are_half_of_every_alphabet_whatever_else_is_present(omniglot):
    full_dataset = load_omniglot(omniglot / "omniglot_28x28.npz", "test", holdout="characters")
    rest = load_omniglot(omniglot / "omniglot_28x28.npz", "train", holdout="characters")
    held_out = Counter(str(leaf).split("/")[0] for leaf in full_dataset.drop_absent_classes().tree.leaves)
    train_counts = Counter(str(leaf).split("/")[0] for leaf in rest.tree.leaves)
    assert len(held_out) == len(train_counts) == 50
    assert all(train_counts[alphabet] - held_out[alphabet] in (0, 1) for alphabet in train_counts)
    subset = load_omniglot(omniglot / "images_background_small1.zip", "test", holdout="characters")
    subset, full_dataset = (part_dataset.drop_absent_classes() for part_dataset in (subset, full_dataset))
    assert set(subset.tree.leaves) < set(full_dataset.tree.leaves)


def test_another_seed_holds_out_others(omniglot):
    first, second = (
        load_omniglot(omniglot / "images_background_small1.zip", "test", seed=seed, image_size=7) for seed in (0, 2)
    )
    assert len(alphabets(first)) == len(alphabets(second)) == 2
    assert alphabets(first) != alphabets(second)


def test_what_is_missing_is_said_with_where_it_was_looked_for_and_where_to_get_it(tmp_path):
    with pytest.raises(MissingResourceError, match=r"images_background\.zip.*github\.com/brendenlake/omniglot") as info:
        load_omniglot(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(info.value)
    with zipfile.ZipFile(tmp_path / "images_background.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(MissingResourceError, match="no drawing in"):
        load_omniglot(tmp_path)


@pytest.mark.parametrize(("name", "kind"), [("images_background.zip", "zip archive"), ("omniglot_28x28.npz", "npz")])
def test_a_truncated_download_is_named(omniglot, tmp_path, name, kind):
    (tmp_path / name).write_bytes((omniglot / "images_background_small1.zip").read_bytes()[:50_000])
    with pytest.raises(ImageError, match=f"{name} cannot be read.*{kind}"):
        load_omniglot(tmp_path)


@pytest.mark.parametrize("save", [np.save, lambda file, array: np.savez(file, images=array), lambda *_: None])
def test_an_npz_that_holds_something_else_is_named(tmp_path, save):
    with (tmp_path / "omniglot_28x28.npz").open("wb") as file:
        save(file, np.zeros((1, 28, 28), np.uint8))
    with pytest.raises(ImageError, match="expected an npz of images, split, alphabet, character and drawer"):
        load_omniglot(tmp_path)


def test_a_broken_drawing_and_an_enormous_one_are_named(tmp_path):
    member = "images_background/Greek/character01/0394_01.png"
    for encoded, message in ((b"no image", "does not decode"), (b"\0" * (2 << 20), "2097152 bytes")):
        path = tmp_path / "images_background.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, encoded)
        with pytest.raises(ImageError, match=message) as info:
            load_omniglot(path)
        assert member in str(info.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "val"}, "split='val'"),
        ({"holdout": "drawers"}, "holdout='drawers'"),
        ({"image_size": 2}, "image_size=2"),
        ({"image_size": 32}, "image_size=32 from omniglot_28x28.npz.*zip archives"),
    ],
)
def test_impossible_options_say_what_is_possible(omniglot, options, message):
    with pytest.raises(OptionError, match=message):
        load_omniglot(omniglot / "omniglot_28x28.npz", **options)


def test_one_alphabet_cannot_be_held_out_from_itself(unpacked):
    with pytest.raises(OptionError, match=r"one alphabet, .*Oriya.*holdout='characters'"):
        load_omniglot(unpacked / "omniglot-py" / "images_evaluation")
