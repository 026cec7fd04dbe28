"""Which files are images: formats and their endings, links, pipes, and turned photographs of Hugging Face data sets."""

from __future__ import annotations

import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from hiertree import datasets
from hiertree.datasets.readers.images import decode, image_files, readable_formats
from hiertree.errors import ImageError
from hiertree.io.files import IMAGE_FORMATS

PICTURE = Image.fromarray(np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3))
ENDINGS = [
    (kind, ending) for kind in readable_formats() for ending in IMAGE_FORMATS[kind] if ending not in (".pbm", ".pfm")
]


@pytest.mark.parametrize(("kind", "ending"), ENDINGS)
def test_every_format_is_found_by_its_endings_and_decoded(tmp_path, kind, ending):
    (tmp_path / "a").mkdir()
    PICTURE.convert("L" if ending == ".pgm" else "RGB").save(tmp_path / "a" / f"b{ending.upper()}", format=kind)
    dataset = datasets.load_folder(tmp_path)
    assert (len(dataset), dataset.images[0].size) == (1, (12, 8))
    assert Image.registered_extensions().get(ending, kind) == kind


def test_postscript_under_another_name_starts_no_program(tmp_path, monkeypatch):
    encoded = io.BytesIO()
    PICTURE.save(encoded, "EPS")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.jpg").write_bytes(encoded.getvalue())
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ImageError, match=r"a/b\.jpg"):
        _ = datasets.load_folder(tmp_path).images[0]
    assert not (tmp_path / "started").exists()


def test_class_folders_may_be_links_and_links_upward_end(tmp_path):
    (tmp_path / "elsewhere" / "lake").mkdir(parents=True)
    PICTURE.save(tmp_path / "elsewhere" / "lake" / "1.png")
    for name in ("train/natural", "train/built"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copytree(tmp_path / "elsewhere" / "lake", tmp_path / "train" / "built" / "dam")
    (tmp_path / "train" / "natural" / "lake").symlink_to(tmp_path / "elsewhere" / "lake")
    (tmp_path / "train" / "natural" / "up").symlink_to(tmp_path / "train")
    (tmp_path / "elsewhere" / "lake" / "back").symlink_to(tmp_path / "train" / "natural")
    assert image_files(tmp_path / "train") == ["built/dam/1.png", "natural/lake/1.png"]
    train = datasets.load_folder(tmp_path, "train")
    assert train.tree.labels_of(train.paths[1].tolist()) == ("natural", "lake")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
@pytest.mark.parametrize("in_list", [True, False])
def test_a_pipe_among_images_is_named_and_not_waited_for(tmp_path, in_list):
    (tmp_path / "a").mkdir()
    PICTURE.save(tmp_path / "a" / "0.jpg")
    os.mkfifo(tmp_path / "a" / "1.jpg")
    dataset = datasets.load_folder(tmp_path)
    if in_list:
        with pytest.raises(ImageError, match=r"a/1\.jpg.*pipe"):
            _ = dataset.images[1]
    else:
        assert datasets.load_folder(tmp_path).drop_unreadable_images().left_out == ("a/1.jpg",)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("deep", [False, True])
def test_photographs_are_turned_as_their_library_turns_them(tmp_path, orientation, deep):
    huggingface = pytest.importorskip("datasets")
    exif = Image.Exif()
    exif[274] = orientation
    picture = Image.fromarray(np.arange(96, dtype=np.uint16).reshape(8, 12) * 600) if deep else PICTURE
    picture.save(tmp_path / "a.png", exif=exif)
    columns = {"image": [str(tmp_path / "a.png")], "label": ["a"]}
    rows = huggingface.Dataset.from_dict(columns).cast_column("image", huggingface.Image())
    image = datasets.from_huggingface(rows, levels=["label"]).images[0]
    expected = rows[0]["image"]
    assert image.size == ((8, 12) if orientation > 4 else (12, 8))
    np.testing.assert_array_equal(np.asarray(image), np.asarray(expected) >> 8 if deep else np.asarray(expected))
    assert decode(tmp_path / "a.png", name="a").size == (12, 8)  # of folders, as torchvision reads them
