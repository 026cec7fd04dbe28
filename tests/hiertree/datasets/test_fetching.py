"""``benchmarks/fetch.py``, by which a clone repeats the numbers of the docs."""

from __future__ import annotations

import importlib.util
import io
import tarfile
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import jpeg
from PIL import Image

from hiertree.datasets.benchmarks.omniglot import read_drawings
from hiertree.errors import MissingResourceError


@pytest.fixture
def fetch() -> Any:
    file = Path(__file__).parents[3] / "benchmarks" / "fetch.py"
    spec = importlib.util.spec_from_file_location("fetch", file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def repository(fetch: Any, shared: Path, *, photos: int, cut: bool = False) -> bytes:
    """An archive of the repository with its two tables, and some drawn photos."""
    clean = b"\xef\xbb\xbflandmark_id,image_id,url\n"
    tables = {"landmarks_washington_full.csv": (shared / "landmarks_washington_full.csv").read_bytes()}
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


def test_landmarks_and_photos_are_joined_and_checked(
    fetch: Any, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = shared_data / "gldv2_washington"
    monkeypatch.setattr(fetch, "PHOTOS", 171)
    monkeypatch.setattr(fetch, "read", lambda _: repository(fetch, shared, photos=171))
    fetch.fetch_washington(tmp_path)
    lines = (tmp_path / "gldv2_wa_images.csv").read_text(encoding="utf-8").splitlines()
    category = "http://commons.wikimedia.org/wiki/Category:Lime_Kiln_Point_State_Park"
    row = f"00aa,161,Lime Kiln Point State Park,Washington state park,{category},http://x/y.jpg"
    assert lines == ["image_id,landmark_id,name,instance_of,category,image_url", row]
    with fetch.zipfile.ZipFile(tmp_path / "gldv2_wa_112px.zip") as photos:
        assert len(photos.namelist()) == 171
        assert Image.open(photos.open("00aa.jpg")).size == (112, 112)
    monkeypatch.setattr(fetch, "read", lambda _: repository(fetch, shared, photos=171, cut=True))
    with pytest.raises(MissingResourceError, match=r"landmarks_washington_full\.csv: expected SHA-256 2aaf89"):
        fetch.fetch_washington(tmp_path)
    monkeypatch.setattr(fetch, "read", lambda _: repository(fetch, shared, photos=2))
    with pytest.raises(MissingResourceError, match="2 photos: expected 171"):
        fetch.fetch_washington(tmp_path)


def test_without_a_connection_the_error_names_the_address(
    fetch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(fetch.urllib.request, "urlopen", refuse)
    with pytest.raises(MissingResourceError, match=r"hierarchical\.csv \(.*no route.*\): expected a connection"):
        fetch.fetch_pairs(tmp_path)
    table = "landmark_id,supercategory,hierarchical_label,natural_or_human_made\n"
    rows = "1,dam,dam,human-made\n2,arch dam,dam,human-made\n3,arch dam,dam,human-made\n4,lake,lake,natural\n"
    monkeypatch.setattr(fetch, "read", lambda _: (table + rows).encode())
    fetch.fetch_pairs(tmp_path)
    assert (tmp_path / "pairs.csv").read_text().splitlines()[1:] == ["arch dam,dam,2,2", "dam,dam,1,1"]


def test_the_official_drawings_are_those_that_the_docs_measure(shared_data: Path) -> None:
    folder = shared_data / "omniglot"
    (table, drawings), (stored_table, stored_drawings) = (
        read_drawings(folder / name, image_size=28) for name in ("omniglot_full.zip", "omniglot_28x28.npz")
    )
    assert np.array_equal(drawings, stored_drawings)
    assert (table.astype(str) == stored_table.astype(str)).all(axis=None)
