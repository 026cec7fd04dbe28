"""From an exported tree and photos to a table that training reads: whole landmarks held out, of every supercategory."""

import zipfile
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from hiertree.datasets import load_table
from hiertree.errors import HiertreeError, ImageError, OptionError
from hiertree.io.tables import read_table
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.labels import ImagesSettings, build, images_step
from hiertree.pipelines.labels.export.images import _held_out


@pytest.fixture(scope="module")
def washington(shared_data, tmp_path_factory):
    """The tree of Washington's landmarks, their photos unpacked, and the table of the photos."""
    folder, source = tmp_path_factory.mktemp("washington"), shared_data / "gldv2_washington"
    plan = {"landmarks": source / "landmarks_washington_full.csv", "columns": {"instance_of": "supercategory"}}
    build(plan, out=folder / "built")
    with zipfile.ZipFile(source / "gldv2_wa_112px.zip") as archive:
        archive.extractall(folder / "photos")
    return folder / "built", folder / "photos", source / "gldv2_wa_images.csv"


def test_washington_photos_become_two_splits_that_training_loads(washington, tmp_path):
    tree, photos, table = washington
    folder = images_step(tree, out=tmp_path / "listed", settings=ImagesSettings(images=photos, image_table=table))
    loaded = {
        split: load_table(
            folder.table,
            split,
            root=folder.root,
            image="image",
            levels=list(folder.levels),
            split_column="split",
        )
        for split in ("train", "test")
    }
    assert {split: len(dataset) for split, dataset in loaded.items()} == folder.images
    landmarks = {split: set(dataset.drop_absent_classes().tree.leaves) for split, dataset in loaded.items()}
    assert not landmarks["train"] & landmarks["test"]
    assert {split: len(names) for split, names in landmarks.items()} == folder.landmarks
    assert abs(folder.landmarks["train"] - folder.landmarks["test"]) <= 1
    rows = read_table(folder.table)
    image_rows = read_table(table)
    landmark_of = dict(zip(image_rows["image_id"], image_rows["landmark_id"], strict=True))
    assert all(landmark_of[file[:-4]] == leaf for file, leaf in zip(rows["image"], rows["landmark_id"], strict=True))
    assert min(Counter(rows["landmark_id"]).values()) >= 2
    sizes = rows.groupby("hierarchical_label")[["landmark_id", "split"]].nunique()
    assert (sizes.loc[sizes["landmark_id"] >= 2, "split"] == 2).all()
    assert (sizes["split"] == 2).mean() > 0.75, "most supercategories have landmarks in both splits"


def test_another_seed_draws_other_landmarks_and_the_same_seed_the_same_bytes(washington, tmp_path):
    tree, photos, table = washington
    names = ("one", "again", "other")
    for name, seed in zip(names, (0, 0, 1), strict=True):
        images_step(tree, out=tmp_path / name, settings=ImagesSettings(images=photos, image_table=table, seed=seed))
    first, repeat, reseeded = ((tmp_path / name / "images.csv").read_bytes() for name in names)
    assert first == repeat != reseeded


@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    fraction=st.floats(0, 1),
    seed=st.integers(0, 5),
)
def test_every_supercategory_gives_its_fraction_but_for_rounding(sizes, fraction, seed):
    paths = np.array([(node, leaf) for node, size in enumerate(sizes) for leaf in range(size)], dtype=np.int32)
    mask = np.array(_held_out(paths, fraction, seed=seed))
    for node, size in enumerate(sizes):
        assert abs(mask[paths[:, 0] == node].sum() - fraction * size) <= 1
    assert abs(mask.sum() - fraction * len(paths)) <= 0.5


@pytest.mark.parametrize(
    ("options", "error"),
    [({"hold_out": 1.5}, OptionError), ({"min_images": 0}, OptionError), ({"min_images": 10**6}, ImageError)],
)
def test_bad_options_are_refused_and_nothing_is_written(washington, tmp_path, options, error):
    tree, photos, table = washington
    with pytest.raises(error):
        images_step(tree, out=tmp_path / "listed", settings=ImagesSettings(images=photos, image_table=table, **options))
    assert not (tmp_path / "listed").exists()


def test_the_command_prints_the_section_of_a_recipe(washington, tmp_path):
    tree, photos, table = washington
    call = ["labels", "images", str(tree), "--images", str(photos), "--image-table", str(table)]
    done = CliRunner().invoke(commands, [*call, "--out", str(tmp_path / "listed")])
    assert done.exit_code == 0, done.output
    assert f"  root: {photos}\n" in done.output
    assert "levels: [natural_or_human_made, hierarchical_label, landmark_id]" in done.output
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.tex").touch()
    refused = CliRunner().invoke(commands, [*call, "--out", str(folder)])
    assert isinstance(refused.exception, HiertreeError)
    assert (folder / "thesis.tex").exists()
