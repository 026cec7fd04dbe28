"""``benchmarks/fetch.py``, by which a clone repeats the numbers of the docs."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import tarfile
import urllib.error
from pathlib import Path

import numpy as np
import pytest
from benchmark_files import jpeg
from PIL import Image

from hiertree.datasets.benchmarks.omniglot import read_drawings
from hiertree.errors import MissingResourceError
from hiertree.pipelines.labels.encode.hypernyms import read_hypernyms


@pytest.fixture
def fetch():
    file = Path(__file__).parents[3] / "benchmarks" / "fetch.py"
    spec = importlib.util.spec_from_file_location("fetch", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def repository(fetch, tables_folder, *, photos, cut=False):
    """An archive of the repository with its two tables, and some drawn photos."""
    clean = b"\xef\xbb\xbflandmark_id,image_id,url\n"
    tables = {"landmarks_washington_full.csv": (tables_folder / "landmarks_washington_full.csv").read_bytes()}
    tables["landmarks_washington_clean_images.csv"] = clean + b"161,00aa,http://x/y.jpg\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        images = {f"images/Park/{index:04x}.jpg": jpeg(index) for index in range(photos)}
        for name, packed_bytes in {**tables, **images}.items():
            member = tarfile.TarInfo(f"repository/walandmarks/data/{name}")
            member.size = len(packed_bytes) - (cut and name.endswith(".csv"))
            archive.addfile(member, io.BytesIO(packed_bytes[: member.size]))
    fetch.DIGESTS["landmarks_washington_clean_images.csv"] = fetch.hashlib.sha256(
        tables["landmarks_washington_clean_images.csv"]
    ).hexdigest()
    return packed.getvalue()


def test_landmarks_and_photos_are_joined_and_checked(fetch, shared_data, tmp_path, monkeypatch):
    tables_folder = shared_data / "gldv2_washington"
    monkeypatch.setattr(fetch, "PHOTOS", 171)
    monkeypatch.setattr(fetch, "read", lambda _: repository(fetch, tables_folder, photos=171))
    fetch.fetch_washington(tmp_path)
    lines = (tmp_path / "gldv2_wa_images.csv").read_text(encoding="utf-8").splitlines()
    category = "http://commons.wikimedia.org/wiki/Category:Lime_Kiln_Point_State_Park"
    row = f"00aa,161,Lime Kiln Point State Park,Washington state park,{category},http://x/y.jpg"
    assert lines == ["image_id,landmark_id,name,instance_of,category,image_url", row]
    with fetch.zipfile.ZipFile(tmp_path / "gldv2_wa_112px.zip") as photos:
        assert len(photos.namelist()) == 171
        assert Image.open(photos.open("00aa.jpg")).size == (112, 112)
    monkeypatch.setattr(fetch, "read", lambda _: repository(fetch, tables_folder, photos=171, cut=True))
    with pytest.raises(MissingResourceError, match=r"landmarks_washington_full\.csv: expected SHA-256 2aaf89"):
        fetch.fetch_washington(tmp_path)
    monkeypatch.setattr(fetch, "read", lambda _: repository(fetch, tables_folder, photos=2))
    with pytest.raises(MissingResourceError, match="2 photos: expected 171"):
        fetch.fetch_washington(tmp_path)


def test_without_a_connection_the_error_names_the_address(fetch, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(fetch.urllib.request, "urlopen", refuse)
    with pytest.raises(MissingResourceError, match=r"hierarchical\.csv \(.*no route.*\): expected a connection"):
        fetch.fetch_pairs(tmp_path)
    table = "landmark_id,supercategory,hierarchical_label,natural_or_human_made\n"
    rows = "1,dam,dam,human-made\n2,arch dam,dam,human-made\n3,arch dam,dam,human-made\n4,lake,lake,natural\n"
    monkeypatch.setattr(fetch, "read", lambda _: (table + rows).encode())
    fetch.fetch_pairs(tmp_path)
    assert (tmp_path / "pairs.csv").read_text().splitlines()[1:] == ["arch dam,dam,2,2", "dam,dam,1,1"]


def shared_rows(file):
    with file.open(encoding="utf-8", newline="") as table:
        return list(csv.reader(table))[1:]


def test_place_labels_are_those_that_the_docs_measure(fetch, shared_data, tmp_path, monkeypatch):
    names = ("geonames_feature_codes.csv", "osm_id_presets.csv", "places365.csv", "wikidata_place_types.csv")
    codes, presets, places, types = (shared_rows(shared_data / "place_labels" / name) for name in names)
    translated = {preset: {"name": label} for preset, _, label in presets}
    indoors = {"indoor": 1, "outdoor": 2}
    origins = {
        "featureCodes_en.txt": "".join(f"{code}\t{label}\t{text}\n" for code, _, label, text in codes) + "null\tn\ta\n",
        "presets.json": json.dumps({**translated, "without a name": {}}),
        "en.json": json.dumps({"en": {"presets": {"presets": translated}}}),
        "IO_places365.txt": "".join(f"{path} {indoors[view]}\n" for _, path, _, view in places),
        "categories_places365.txt": "".join(f"{path} {row}\n" for row, path, _, _ in places),
        "wikidata_place_types.txt": "".join(f"{item};{label}\n" for item, label in types),
        "landmarks_washington_full.csv": "landmark_id,supercategory\n1,park\n",
    }
    monkeypatch.setattr(fetch, "read", lambda url: origins[url.rpartition("/")[2]].encode())
    with pytest.raises(MissingResourceError, match=r"^commons_instance_of_washington\.csv: expected SHA-256 fecf"):
        fetch.fetch_place_labels(tmp_path)
    for name in names:
        assert (tmp_path / name).read_bytes() == (shared_data / "place_labels" / name).read_bytes()


def test_edges_are_those_that_the_docs_measure_but_for_those_that_the_package_holds(
    fetch, shared_data, tmp_path, monkeypatch
):
    edges = shared_rows(shared_data / "wikidata_p279" / "edges.csv")
    first = [edge for edge in edges if edge[4] == "1"]
    labels = {item: label for edge in first for item, label in (edge[:2], edge[2:4]) if label}
    assert labels.pop("Q1175522") == "County city (council system)"  # of a table that is not fetched
    nodes = {
        "labels.en.tsv.gz": [(item, "'" + label.replace("'", "\\'") + "'@en") for item, label in labels.items()],
        "derived.P279.tsv.gz": [
            *((child, parent) for child, _, parent, _, _ in reversed(first)),
            ("P1", "Q2"),
            ("Q1", "Q1"),
        ],
    }
    tables = {name: "node1\tnode2\n" + "".join("\t".join(row) + "\n" for row in rows) for name, rows in nodes.items()}
    monkeypatch.setattr(fetch, "read", lambda url: gzip.compress(tables[url.rpartition("/")[2]].encode()))
    fetch.fetch_edges(tmp_path)
    assert len(shared_rows(tmp_path / "edges.csv")) == len(first) == len(edges) - 26
    shipped = read_hypernyms().edges
    assert sum((child, parent) not in shipped for child, _, parent, _, source in edges if source == "2") == 1


def test_the_official_drawings_are_those_that_the_docs_measure(shared_data):
    folder = shared_data / "omniglot"
    (table, drawings), (stored_table, stored_drawings) = (
        read_drawings(folder / name, image_size=28) for name in ("omniglot_full.zip", "omniglot_28x28.npz")
    )
    assert np.array_equal(drawings, stored_drawings)
    assert (table.astype(str) == stored_table.astype(str)).all(axis=None)
