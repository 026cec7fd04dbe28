"""Fetch the data of docs and benchmarks, so that any clone can repeat their numbers.

``python benchmarks/fetch.py data`` makes three folders, or those that are named after it:

* ``omniglot``: the official archives, as ``hiertree datasets download omniglot`` has them; at 28 pixels their drawings
  are those of the docs, pixel by pixel;
* ``gldv2_washington``: 844 landmarks of Google Landmarks v2 in Washington State with their first "instance of", and
  4,625 photos of 296 of them at 112 pixels, of a public repository at a commit. Photos have licenses of their own;
* ``gldv2_hierarchical``: raw types and hierarchical labels of H-GLDv2's human-made landmarks, from Google's released
  table; the docs read a part of them.

Downloads are checked by MD5 or SHA-256.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from pathlib import Path

from PIL import Image

from hiertree import datasets
from hiertree.errors import HiertreeError, MissingResourceError

REPOSITORY, COMMIT = "Ivaldivi/DATA515-Image-Classification", "ef76217a2949e0a9808e823a0f5d762a047bf5aa"
WASHINGTON = f"https://codeload.github.com/{REPOSITORY}/tar.gz/{COMMIT}"
DIGESTS = {
    "landmarks_washington_full.csv": "2aaf89a807d533e3a99abc53773ccc7e889f2213332765b44bad13249fb32202",
    "landmarks_washington_clean_images.csv": "e6a80449a319499ff163fead48e0ca7672c8d6dd1e76ce5d4801b61ff422553b",
}
PHOTOS = 4_625
RELEASED = "https://s3.amazonaws.com/google-landmark/metadata/train_label_to_hierarchical.csv"


def read(url: str) -> bytes:
    """The bytes at an address; without a connection one error that names it."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        remedy = "run this on a connected machine and copy its folder"
        raise MissingResourceError(f"{url} ({error})", expected="a connection to it", remedy=remedy) from error


def fetch_omniglot(folder: Path) -> None:
    datasets.download(datasets.describe("omniglot"), folder)


def fetch_washington(folder: Path) -> None:
    """The table of landmarks, a table of photos with their landmarks, and the photos, 112 × 112 pixels."""
    tables: dict[str, bytes] = {}
    photos: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(read(WASHINGTON)), mode="r:*") as archive:
        for member in archive:
            path = Path(member.name)
            file = archive.extractfile(member) if member.isreg() and "data" in path.parts else None
            if file is not None and path.name in DIGESTS:
                tables[path.name] = file.read()
            elif file is not None and path.suffix == ".jpg":
                photos[path.name] = small(file.read())
    for name, digest in DIGESTS.items():
        if hashlib.sha256(tables.get(name, b"")).hexdigest() != digest:
            raise MissingResourceError(f"{WASHINGTON}: {name}", expected=f"SHA-256 {digest}")
    if len(photos) != PHOTOS:
        raise MissingResourceError(f"{WASHINGTON}: {len(photos)} photos", expected=str(PHOTOS))
    full, clean = (rows(tables[name]) for name in DIGESTS)
    landmarks = {row["landmark_id"]: row for row in full}
    with (folder / "gldv2_wa_images.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["image_id", "landmark_id", "name", "instance_of", "category", "image_url"])
        for row in sorted(clean, key=lambda row: row["image_id"]):
            if f"{row['image_id']}.jpg" in photos:
                landmark = landmarks[row["landmark_id"]]
                cells = (landmark["name"], landmark["supercategory"], landmark["category"], row["url"])
                writer.writerow([row["image_id"], row["landmark_id"], *cells])
    (folder / "landmarks_washington_full.csv").write_bytes(tables["landmarks_washington_full.csv"])
    with zipfile.ZipFile(folder / "gldv2_wa_112px.zip", "w") as packed:
        for name in sorted(photos):
            packed.writestr(zipfile.ZipInfo(name), photos[name])


def small(photo: bytes) -> bytes:
    """A photo of 112 × 112 pixels."""
    file = io.BytesIO()
    Image.open(io.BytesIO(photo)).convert("RGB").resize((112, 112), Image.Resampling.LANCZOS).save(
        file, "JPEG", quality=82
    )
    return file.getvalue()


def rows(table: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.decode("utf-8-sig"))))


def fetch_pairs(folder: Path) -> None:
    """How many human-made landmarks have each raw type and hierarchical label, frequent pairs first."""
    labeled = [row for row in rows(read(RELEASED)) if row["natural_or_human_made"] == "human-made"]
    counts = Counter((row["supercategory"], row["hierarchical_label"]) for row in labeled)
    examples = {(row["supercategory"], row["hierarchical_label"]): row["landmark_id"] for row in reversed(labeled)}
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["supercategory", "hierarchical_label", "seen", "example_landmark_id"])
        writer.writerows([*pair, count, examples[pair]] for pair, count in counts.most_common())


FETCHERS = {
    "omniglot": fetch_omniglot,
    "gldv2_washington": fetch_washington,
    "gldv2_hierarchical": fetch_pairs,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="Folder to make.")
    parser.add_argument("names", nargs="*", help=f"Some of {', '.join(FETCHERS)}; all unless given.")
    arguments = parser.parse_args()
    for name in arguments.names or FETCHERS:
        if name not in FETCHERS:
            parser.error(f"{name}: expected some of {', '.join(FETCHERS)}")
        folder = arguments.data / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            FETCHERS[name](folder)
        except HiertreeError as error:
            sys.exit(f"error: {error}")
        print(f"{folder}: {', '.join(sorted(file.name for file in folder.iterdir()))}")


if __name__ == "__main__":
    main()
