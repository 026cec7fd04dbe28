"""Fetch the data of docs and benchmarks, so that any clone can repeat their numbers.

``python benchmarks/fetch.py data`` makes five folders, or those that are named after it:

* ``omniglot``: the official archives, as ``hiertree datasets download omniglot`` has them; at 28 pixels their drawings
  are those of the docs, pixel by pixel;
* ``gldv2_washington``: 844 landmarks of Google Landmarks v2 in Washington State with their first "instance of", and
  4,625 photos of 296 of them at 112 pixels, of a public repository at a commit. Photos have licenses of their own;
* ``gldv2_hierarchical``: raw types and hierarchical labels of H-GLDv2's human-made landmarks, from Google's released
  table; the docs read a part of them;
* ``place_labels``: place types of GeoNames (CC BY), OpenStreetMap's presets (ISC), Places365 (MIT), Wikidata and
  Commons (CC0), and WordNet's edges, of public repositories at a commit;
* ``wikidata_p279``: 22,147 "subclass of" edges of Wikidata (CC0) of about 2021. Newer ones of your own labels:
  ``hiertree labels hypernyms``.

Downloads, or the files made of them, are checked by MD5 or SHA-256.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
EARLIER_COMMIT = "c740500727b7985cc83a48e2338f19e2b598a99f"
GEONAMES = "LibraryOfCongress/gazetteer/34c7f368c5ae51a167d698dbd3a092644eee4c0c/data/featureCodes_en.txt"
PRESETS = "openstreetmap/id-tagging-schema/44eff2b82b8bc3e8a2e1d2135a7c58c9b9a08dcf/dist"
PLACES = "CSAILVision/places365/06218620d593de09ac4f9f39b72ea0d175990a24"
PLACE_TYPES = "osm-search/wikipedia-wikidata/331e89be2f4435d02391c99982ca25e8f27a18be/config/wikidata_place_types.txt"
NOUNS = "cvjena/semantic-embeddings/0d4177422bafbba685fb6a0f976675864f31e09f/ILSVRC/wordnet.parent-child.txt"
EDGES = "usc-isi-i2/kgtk-notebooks/e654c8f2162169623cf0228e6efc1bd58276f8d5/datasets"
VIEWS, SPACES = {"1": "indoor", "2": "outdoor"}, str.maketrans("_/", "  ")
EDGE_FOLDERS = ("arnold", "arnold-profiled", "wikidata-dwd-v2")
RELEASED = "https://s3.amazonaws.com/google-landmark/metadata/train_label_to_hierarchical.csv"


def read(url: str) -> bytes:
    """The bytes at an address; without a connection one error that names it."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        remedy = "run this on a connected machine and copy its folder"
        raise MissingResourceError(
            f"{url} ({getattr(error, 'reason', error)})", expected="a connection to it", remedy=remedy
        ) from error


def read_text(path: str) -> str:
    """A text of a public repository: owner/name/commit/file."""
    content = read(f"https://raw.githubusercontent.com/{path}")
    return (gzip.decompress(content) if path.endswith(".gz") else content).decode("utf-8-sig")


def write_checked(file: Path, digest: str, columns: Sequence[str], cells: Iterable[Sequence[str]]) -> None:
    """A CSV file with the SHA-256 of the one that the docs measure."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(cells)
    check(file.name, text.getvalue().encode(), digest)
    file.write_bytes(text.getvalue().encode())


def check(name: str, content: bytes, digest: str) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise MissingResourceError(name, expected=f"SHA-256 {digest}")


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
        check(f"{WASHINGTON}: {name}", tables.get(name, b""), digest)
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


def fetch_place_labels(folder: Path) -> None:
    """Five lists of place types with the classes that their makers gave them, and WordNet's parents and children."""
    codes = [line.split("\t") for line in read_text(GEONAMES).splitlines()]
    write_checked(
        folder / "geonames_feature_codes.csv",
        "64d0540711b8bf997533386b24bd47fde6c78009b31d2eb80fdf6d440a6ee756",
        ("code", "class", "label", "description"),
        ((code, code[0], *texts) for code, *texts in codes if code[0] in "AHLPRSTUVX" and code[1] == "."),
    )
    presets = json.loads(read_text(f"{PRESETS}/presets.json"))
    translated = json.loads(read_text(f"{PRESETS}/translations/en.json"))["en"]["presets"]["presets"]
    named = ((preset, translated.get(preset, {}).get("name")) for preset in sorted(presets))
    write_checked(
        folder / "osm_id_presets.csv",
        "519c8eee9832f606873647e31c279199981ed480164b92c50f53dc4fb78aea76",
        ("preset", "top_key", "label"),
        ((preset, preset.split("/")[0], label) for preset, label in named if label),
    )
    views = dict(line.split() for line in read_text(f"{PLACES}/IO_places365.txt").splitlines())
    paths = [line.split()[0] for line in read_text(f"{PLACES}/categories_places365.txt").splitlines()]
    write_checked(
        folder / "places365.csv",
        "353cb9983eb8356210a5a737b9c7b23757aee491f88586a32e2b693612504279",
        ("id", "path", "label", "indoor_outdoor"),
        ((str(row), path, path[3:].translate(SPACES), VIEWS[views[path]]) for row, path in enumerate(paths)),
    )
    write_checked(
        folder / "wikidata_place_types.csv",
        "565e9421b9bc0d704be11cdf8dfd98b0a56e3e6b3bc54a22916941ad61f6726a",
        ("qid", "label"),
        (line.split(";", 1) for line in read_text(PLACE_TYPES).splitlines()),
    )
    tables = (f"{COMMIT}/walandmarks/data", f"{EARLIER_COMMIT}/data")
    texts = (read_text(f"{REPOSITORY}/{table}/landmarks_washington_full.csv") for table in tables)
    types = dict.fromkeys(row["supercategory"] for text in texts for row in rows(text.encode()) if row["supercategory"])
    write_checked(
        folder / "commons_instance_of_washington.csv",
        "fecf279328da8156d43d4f702e51f0eaacc83d17a609f5c9c322ee6b957349fd",
        ("instance_of",),
        ([name] for name in types),
    )
    nouns = read_text(NOUNS)
    check(NOUNS, nouns.encode(), "ff7206572ae989d1de8acbd6cbd921854fefd32dcdcb50eab11b81e797e28cd1")
    (folder / "wordnet.parent-child.txt").write_text(nouns, encoding="utf-8", newline="")


def fetch_edges(folder: Path) -> None:
    """Classes of Wikidata, what they are subclasses of, and the English labels of both."""
    labels: dict[str, str] = {}
    for name in EDGE_FOLDERS:
        for item, label in columns_of(f"{EDGES}/{name}/labels.en.tsv.gz"):
            labels.setdefault(item, label.rpartition("@")[0][1:-1].replace("\\'", "'"))
    pairs = {pair for name in EDGE_FOLDERS for pair in columns_of(f"{EDGES}/{name}/derived.P279.tsv.gz")}
    classes = sorted((int(child[1:]), int(parent[1:])) for child, parent in pairs if child[0] == parent[0] == "Q")
    write_checked(
        folder / "edges.csv",
        "e08c62045d18b05a8b77e56b762c3e6fee9f53b3f7332499eae52b13b498da78",
        ("child_qid", "child_label", "parent_qid", "parent_label", "source"),
        (
            (f"Q{child}", labels.get(f"Q{child}", ""), f"Q{parent}", labels.get(f"Q{parent}", ""), "1")
            for child, parent in classes
            if child != parent
        ),
    )


def columns_of(path: str) -> Iterator[tuple[str, str]]:
    """The two nodes of each edge of a table of KGTK."""
    for row in csv.DictReader(io.StringIO(read_text(path)), delimiter="\t", quoting=csv.QUOTE_NONE):
        yield row["node1"], row["node2"]


FETCHERS = {
    "omniglot": fetch_omniglot,
    "gldv2_washington": fetch_washington,
    "gldv2_hierarchical": fetch_pairs,
    "place_labels": fetch_place_labels,
    "wikidata_p279": fetch_edges,
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
