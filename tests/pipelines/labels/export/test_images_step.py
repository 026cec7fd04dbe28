"""From an exported tree and photos to a table that training reads: whole landmarks held out, of every supercategory."""

import re
import zipfile
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hiertree.datasets import load_table
from hiertree.errors import HiertreeError, ImageError, OptionError
from hiertree.io.tables import read_table
from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.labels import ImagesSettings, images_step, read_landmarks
from hiertree.pipelines.labels.export.images import _held_out


@pytest.fixture(scope="module")
def listing(washington, shared_data, tmp_path_factory):
    """The tree of Washington's landmarks, their photos unpacked, and the table of the photos."""
    photos, source = tmp_path_factory.mktemp("photos"), shared_data / "gldv2_washington"
    with zipfile.ZipFile(source / "gldv2_wa_112px.zip") as archive:
        archive.extractall(photos)
    return washington[0].folder, photos, source / "gldv2_wa_images.csv"


def test_washington_photos_become_two_splits_that_training_loads(listing, tmp_path):
    tree, photos, table = listing
    folder = images_step(tree, out=tmp_path / "listed", settings=ImagesSettings(images=photos, image_table=table))
    loaded = {
        split: load_table(
            folder.table, split, root=folder.root, image="image", levels=list(folder.levels), split_column="split"
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


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # of datasets
def test_the_library_datasets_loads_the_list_and_its_images(listing, tmp_path, monkeypatch):
    huggingface = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    tree, photos, table = listing
    settings = ImagesSettings(images=photos, image_table=table, min_images=60)
    listed = images_step(tree, out=tmp_path / "listed", settings=settings)
    rows = huggingface.load_dataset(str(tmp_path / "listed"), cache_dir=str(tmp_path / "cache"))["train"]
    images = read_table(listed.table)
    assert rows.column_names == ["image", *listed.levels, "split"]
    assert list(rows["image"]) == images["image"].tolist()
    (tmp_path / "photos").mkdir()
    for name in images["image"]:
        (tmp_path / "photos" / name).write_bytes((photos / name).read_bytes())
    images.rename(columns={"image": "file_name"}).to_csv(tmp_path / "photos" / "metadata.csv", index=False)
    pictures = huggingface.load_dataset("imagefolder", data_dir=str(tmp_path / "photos"), cache_dir=str(tmp_path / "c"))
    assert pictures["train"][0]["image"].size == (112, 112)
    assert sorted(pictures["train"]["hierarchical_label"]) == sorted(images["hierarchical_label"])


def test_another_seed_draws_other_landmarks_and_the_same_seed_the_same_bytes(listing, tmp_path):
    tree, photos, table = listing
    names = ("one", "again", "other")
    for name, seed in zip(names, (0, 0, 1), strict=True):
        images_step(tree, out=tmp_path / name, settings=ImagesSettings(images=photos, image_table=table, seed=seed))
    first, repeat, reseeded = ((tmp_path / name / "images.csv").read_bytes() for name in names)
    assert first == repeat != reseeded


@pytest.fixture
def small_export(tmp_path):
    """A table of three lakes, and a folder of photos with what lies in such folders."""
    rows = "".join(f"{landmark},C,lake,lake,natural\n" for landmark in (1, 2, 30000))
    header = "landmark_id,category,supercategory,hierarchical_label,natural_or_human_made\n"
    (tmp_path / "hierarchical.csv").write_text(header + rows)
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("1.jpg", "._1.jpg", "2.png", "elsewhere.jpg"):
        Image.new("RGB", (8, 8)).save(photos / name)
    (photos / "elsewhere.jpg").rename(tmp_path / "elsewhere.jpg")
    (photos / "30000").mkdir()
    (photos / "30000" / "._b.jpg").write_bytes(b"a resource fork")
    (photos / "30000" / "b.jpg").symlink_to(tmp_path / "elsewhere.jpg")
    return tmp_path / "hierarchical.csv", photos


def listed(export, photos, out, **options):
    images_step(export, out=out, settings=ImagesSettings(images=photos, min_images=1, **options))
    return sorted(read_table(out / "images.csv")["image"])


def test_hidden_files_are_no_photos_links_are_and_none_counts_twice(small_export, tmp_path):
    export, photos = small_export
    assert listed(export, photos, tmp_path / "a") == ["1.jpg", "2.png", "30000/b.jpg"]
    table = tmp_path / "images.csv"
    table.write_text("image_id,landmark_id\n1,1\n2,2\n1,1\n1.jpg,1\n")
    assert listed(export, photos, tmp_path / "b", image_table=table) == ["1.jpg", "2.png"]
    (photos / "1").mkdir()
    (photos / "1" / "1.jpg").symlink_to(photos / "1.jpg")
    table.write_text("landmark_id,images\n1,1 1.jpg 1\n../photos,2\n")
    assert listed(export, photos, tmp_path / "c", image_table=table) == ["1.jpg"]


@pytest.mark.parametrize("ids", ["1.0 2 3E+04", "001 2 30000.0"])
def test_ids_written_otherwise_are_counted_and_named(small_export, tmp_path, caplog, ids):
    export, photos = small_export
    first, second, third = ids.split()
    (tmp_path / "t.csv").write_text(f"image_id,landmark_id\n1,{first}\n2,{second}\n1,{third}\n")
    with caplog.at_level("INFO"):
        assert listed(export, photos, tmp_path / "a", image_table=tmp_path / "t.csv") == ["2.png"]
    (message,) = [record.getMessage() for record in caplog.records]
    assert f"2 ids of {tmp_path / 't.csv'} met none of the landmarks ({first!r}, {third!r})" in message
    assert "2 of the latter none of the former ('1', '30000')" in message
    caplog.clear()
    (tmp_path / "t.csv").write_text(f"image_id,landmark_id\n1,{first}\n1,{third}\n")
    with pytest.raises(ImageError, match=rf"2 ids of \S+t\.csv met none of the landmarks \('{re.escape(first)}', "):
        listed(export, photos, tmp_path / "b", image_table=tmp_path / "t.csv")
    (tmp_path / "scraped.csv").write_text(f"landmark_id,instance_of\n{first},lake\n{second},dam\n{third},pond\n")
    with caplog.at_level("INFO"):
        landmarks, num_unknown = read_landmarks(export, tmp_path / "scraped.csv")
    assert (num_unknown, sum(landmark.values is not None for landmark in landmarks)) == (2, 1)
    assert f"2 ids of the table of values met none of the table of landmarks ({first!r}, {third!r})" in caplog.text


@settings(max_examples=50)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), fraction=st.floats(0, 1), seed=st.integers(0, 5))
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
def test_bad_options_are_refused_and_nothing_is_written(listing, tmp_path, options, error):
    tree, photos, table = listing
    with pytest.raises(error):
        images_step(tree, out=tmp_path / "listed", settings=ImagesSettings(images=photos, image_table=table, **options))
    assert not (tmp_path / "listed").exists()


def test_the_command_prints_the_section_of_a_recipe(listing, tmp_path):
    tree, photos, table = listing
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
