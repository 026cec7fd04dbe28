"""The drawn data set: the same every time, and its tree says what the images show."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import hiertree as ht
from hiertree.datasets import load_synthetic
from hiertree.datasets.synthetic import SILHOUETTES, TEXTURES, coverage, oklch
from hiertree.errors import OptionError


def pixels(dataset):
    return np.stack([np.asarray(dataset.images[index]) for index in range(len(dataset))])


def digest(**options):
    return hashlib.sha256(pixels(load_synthetic("train", families=3, instances=2, **options)).tobytes()).hexdigest()


def test_the_same_seed_draws_the_same_pixels_and_another_seed_others():
    assert digest() == digest()
    assert digest() != digest(seed=1)


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_defaults_are_what_the_documentation_says(split):
    dataset = load_synthetic(split).drop_absent_classes()
    kinds = 3 if split == "train" else 4
    assert dataset.tree.level_sizes == (8, 8 * kinds, 8 * kinds * 8)
    assert dataset.tree.level_names == ("family", "kind", "instance")
    assert len(dataset) == 8 * kinds * 8 * 12
    assert dataset.paths.dtype == np.int32
    image = dataset.images[0]
    assert (image.size, image.mode) == ((32, 32), "RGB")


def test_test_instances_are_new_and_each_family_shows_one_kind_never_trained_on():
    train, test = load_synthetic("train", images=1), load_synthetic("test", images=1)
    test = test.drop_absent_classes()
    assert not set(train.tree.leaves) & set(test.tree.leaves)

    def kinds(dataset):
        kinds_by_family = {}
        for leaf in dataset.tree.leaves:
            family, kind, _ = str(leaf).split("/")
            kinds_by_family.setdefault(family, set()).add(kind)
        return kinds_by_family

    train_kinds = kinds(train)
    for family, test_kinds in kinds(test).items():
        (fresh,) = test_kinds - train_kinds[family]
        assert any(fresh in kinds_of_family for kinds_of_family in train_kinds.values())


def test_images_of_one_family_share_their_outline_and_families_do_not():
    dataset = load_synthetic("test", instances=4)
    values = pixels(dataset).astype(float)
    colorful = values.max(axis=3) - values.min(axis=3) > 60  # more than any backdrop
    means = {}
    for family in range(8):
        masks = colorful[dataset.paths[:, 0] == family]
        means[family] = (masks[::2].mean(axis=0), masks[1::2].mean(axis=0))
    for family, (first, _) in means.items():
        nearest = min(means, key=lambda other: float(np.abs(first - means[other][1]).sum()))
        assert nearest == family


def test_raw_pixels_neither_fail_nor_solve_it():
    test = load_synthetic("test", instances=3)
    vectors = pixels(test).reshape(len(test), -1).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    nearest = scores.argmax(axis=1)
    depth = ht.levels(test.paths, test.paths)[np.arange(len(test)), nearest]
    assert 0.4 < (depth >= 1).mean() < 0.95
    assert 0.2 < (depth == 3).mean() < 0.8


@pytest.mark.parametrize("size", [8, 33, 64])
def test_any_size_shows_the_same_figure(size):
    small = load_synthetic("train", families=1, kinds=1, instances=1, images=1, image_size=size)
    assert small.images[0].size == (size, size)
    large = load_synthetic("train", families=1, kinds=1, instances=1, images=1, image_size=128)
    assert np.abs(np.mean(pixels(small), axis=(0, 1, 2)) - np.mean(pixels(large), axis=(0, 1, 2))).max() < 6


@pytest.mark.parametrize("name", SILHOUETTES)
def test_every_silhouette_fills_a_fair_part_of_its_disc_and_stays_within_the_image(name):
    y, x = np.mgrid[-1.3:1.3:261j, -1.3:1.3:261j].astype(np.float32)
    mask = SILHOUETTES[name](x[None], y[None])[0] < 0
    assert 0.15 < mask.mean() * 2.6**2 / np.pi < 1
    assert np.hypot(x, y)[mask].max() < 1.11


@pytest.mark.parametrize("name", TEXTURES)
def test_every_texture_has_two_tones(name):
    y, x = np.mgrid[-3:3:200j, -3:3:200j].astype(np.float32)
    assert 0.1 < (TEXTURES[name](x[None], y[None]) > 0).mean() < 0.6


def test_coverage_is_a_half_on_the_edge_and_whole_a_pixel_inside():
    edge = coverage(np.array([-1.0, -0.1, 0.0, 0.1, 1.0]), pixel=np.float32(0.2))
    assert np.allclose(edge, [1, 1, 0.5, 0, 0])


def test_oklch_gives_published_colors():
    red = oklch(np.float32(0.62796), np.float32(0.25768), np.float32(29.2339 / 360))
    assert np.allclose(red, [1, 0, 0], atol=0.01)


@pytest.mark.parametrize(
    "options",
    [
        {"split": "validation"},
        {"families": 9},
        {"families": 0},
        {"kinds": 5},
        {"instances": 0},
        {"images": 0},
        {"image_size": 4},
        {"seed": -1},
    ],
)
def test_options_out_of_range_are_refused_by_name(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        load_synthetic(**options)
