"""Images of 16 and 32 bits, and very large ones: scaled, reduced or refused, never silently wrong."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from hiertree.datasets import load_table
from hiertree.datasets.readers.images import LARGE, FileImages, reading
from hiertree.errors import ImageError

GENERATOR = np.random.default_rng(0)
SHORT = GENERATOR.integers(0, 1 << 16, (7, 5), dtype=np.uint16)
LONG = GENERATOR.integers(0, 1 << 32, (7, 5), dtype=np.uint32)
COLORS = GENERATOR.integers(0, 1 << 16, (7, 5, 4), dtype=np.uint16)
UNIT = GENERATOR.random((7, 5), dtype=np.float32)


def png(values):
    """A PNG of 16 bits a channel, written by its specification."""
    height, width, channels = (*values.shape, 1)[:3]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    bodies = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)), (b"IDAT", zlib.compress(rows))]
    chunks = [struct.pack(">I", len(body)) + name + body for name, body in [*bodies, (b"IEND", b"")]]
    return b"\x89PNG\r\n\x1a\n" + b"".join(c + struct.pack(">I", zlib.crc32(c[4:])) for c in chunks)


def tiff(values, *, photometric=1):
    """A gray TIFF of one strip, little-endian, written by its specification."""
    height, width = values.shape
    body = values.astype(values.dtype.newbyteorder("<")).tobytes()
    sample = {"u": 1, "i": 2, "f": 3}[values.dtype.kind]
    tags = {256: width, 257: height, 258: 8 * values.dtype.itemsize, 259: 1, 262: photometric, 277: 1, 278: height}
    tags |= {279: len(body), 339: sample}
    tags[273] = 8 + 2 + 12 * (len(tags) + 1) + 4  # where the pixels begin
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + b"\0" * 4 + body


def decoded(folder, name, encoded):
    (folder / name).write_bytes(encoded)
    image = FileImages(folder, [name])[0]
    return np.asarray(image.convert("RGB")) if len(image.getbands()) > 1 else np.asarray(image)


@pytest.mark.parametrize(
    ("name", "encoded", "expected"),
    [
        ("gray.png", png(SHORT), SHORT >> 8),
        ("gray-alpha.png", png(COLORS[..., :2]), np.repeat(COLORS[..., :1] >> 8, 3, axis=2)),
        ("rgb.png", png(COLORS[..., :3]), COLORS[..., :3] >> 8),
        ("rgba.png", png(COLORS), COLORS[..., :3] >> 8),
        ("gray.tif", tiff(SHORT), SHORT >> 8),
        ("white-is-zero.tif", tiff(SHORT, photometric=0), 255 - (SHORT >> 8)),
    ],
)
def test_deep_pixels_are_scaled_by_the_range_of_their_type(tmp_path, name, encoded, expected):
    np.testing.assert_array_equal(decoded(tmp_path, name, encoded), expected)


@pytest.mark.parametrize(
    "values", [UNIT, UNIT * 255, (SHORT >> 1).astype(np.int16), SHORT >> 8, LONG, (SHORT >> 1).astype(np.int32)]
)
def test_values_of_no_known_range_are_refused(tmp_path, values):
    with pytest.raises(ImageError, match=r"'bad\.tif' with values from .*expected gray of 16 bits, .*0 to 65535"):
        decoded(tmp_path, "bad.tif", tiff(values))


def test_a_photo_is_reduced_while_it_is_decoded_only_if_it_is_very_large(tmp_path):
    ramp = np.broadcast_to(np.linspace(0, 255, 6000).astype(np.uint8), (3000, 6000))
    for name in ("a.jpg", "a.png"):
        Image.fromarray(np.ascontiguousarray(ramp)).save(tmp_path / name)
        source = FileImages(tmp_path, [name])
        assert source[0].size == (6000, 3000)
        with reading(view_size=100):
            small = source[0]
        assert 400 <= min(small.size) <= 800
        full_image = np.asarray(source[0].resize((64, 32), Image.Resampling.BOX), dtype=float)
        assert np.abs(np.asarray(small.resize((64, 32), Image.Resampling.BOX), dtype=float) - full_image).max() <= 2
    Image.new("L", (LARGE >> 12, 1 << 12)).save(tmp_path / "b.png")
    with reading(view_size=10):
        assert FileImages(tmp_path, ["b.png"])[0].size == (4096, 4096)


def test_an_image_of_more_pixels_than_the_limit_is_refused_by_name_and_the_limit_can_be_raised(tmp_path, monkeypatch):
    Image.new("1", (13_000, 13_000)).save(tmp_path / "bomb.png")
    Image.new("L", (20, 20)).save(tmp_path / "small.png")
    source = FileImages(tmp_path, ["bomb.png", "small.png"])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ImageError, match=r"'bomb\.png' does not decode"):
        source[0]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100_000_000)
    message = r"'small\.png' of 20 × 20 pixels: expected at most 399"
    with reading(max_pixels=399), pytest.raises(ImageError, match=message):
        source[1]
    with reading(max_pixels=400):
        assert source[1].size == (20, 20)
    with reading(max_pixels=1 << 28, view_size=100):
        assert source[0].size == (407, 407)


def test_images_that_are_skipped_are_those_that_the_limit_refuses(tmp_path):
    for length in (10, 20, 30):
        Image.new("L", (length, length)).save(tmp_path / f"{length}.png")
    (tmp_path / "t.csv").write_text("file,label\n10.png,a\n20.png,a\n30.png,b\n")
    with reading(max_pixels=400):
        dataset = load_table(tmp_path / "t.csv", root=tmp_path, image="file", levels=["label"], on_bad_image="skip")
    assert dataset.left_out == ("30.png",)
