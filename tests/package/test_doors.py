"""Lines of the documentation by which a person goes in with a folder of images and a table, run as they stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from printed_commands import printed_by
from project import ROOT
from tiny_clip import MODEL, save_tiny_clip

import hiertree as ht
from hiertree.pipelines.browse.embedded_images import read_embedded
from hiertree.pipelines.inference import GalleryIndex
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings

timm = pytest.importorskip("timm")
pytest.importorskip("open_clip")
SMALL = {
    "backbone: resnet50, pretrained: true, pooling: gem, embedding_size: 512": "width: 4, embedding_size: 8",
    "size: 112": "size: 24",
    "batch_size: 128": "batch_size: 8",
    "epochs: 30, device: auto, precision: bf16-mixed": "epochs: 2, device: cpu",
}
LEVELS = ["kind", "supercategory", "landmark_id"]
Lines = Callable[[str, str], str]


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    """Photos in folders of their labels, images.csv, and weights of small networks in place of those of the pages."""
    import torch
    from safetensors.torch import save_file

    folder, random, rows = tmp_path_factory.mktemp("home"), np.random.default_rng(0), []
    for kind, group, label, image in product(("lake", "tower"), "ab", range(6), range(2)):
        file = Path(kind, f"{kind} {group}", f"{kind} {group} {label}", f"{kind}-{group}{label}-{image}.png")
        (folder / "photos" / file).parent.mkdir(parents=True, exist_ok=True)
        shades = random.integers(0, 255, (3, 3, 3), dtype=np.uint8)
        Image.fromarray(shades).resize((32, 28)).save(folder / "photos" / file)
        rows.append((file.as_posix(), *file.parts[:3], ("train", "val", "test")[label % 3]))
    pd.DataFrame(rows, columns=["file", *LEVELS, "split"]).to_csv(folder / "images.csv", index=False)
    torch.manual_seed(0)
    save_file(timm.create_model("resnet18").state_dict(), folder / "resnet18.safetensors")
    save_tiny_clip(folder)
    return folder


@pytest.fixture
def folder(shared_folder, monkeypatch):
    monkeypatch.chdir(shared_folder)
    return shared_folder


def block(page, kind, beginning):
    """The block of a page that begins so."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (match,) = (candidate for candidate in blocks if beginning in candidate)
    return str(match)


def replaced(text, changes):
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def line(page, beginning, **changes):
    """A command of a page, without what stands behind it there, run; what it prints."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (match,) = re.findall(rf"^{re.escape(beginning)}[^#\n]*", text, flags=re.MULTILINE)
    names = {"timm:resnet50": "timm:resnet18/resnet18.safetensors"} if "timm:" in match else {}
    return printed_by(replaced(match, {**names, **changes}))


@pytest.fixture(scope="module")
def run(shared_folder):
    """The run of the page on training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shared_folder)
        Path("my-recipe.yaml").write_text(replaced(block("training.md", "yaml", "name: my-landmarks"), SMALL))
        printed = line("training.md", "hiertree train my-recipe.yaml --out runs/mine --set optimizer.lr")
        assert "H-AP" in printed
    return shared_folder / "runs" / "mine"


def test_a_pretrained_network_is_measured_without_recipe_or_training(folder):
    printed = line("training.md", "hiertree embed timm:resnet50")
    assert "embedded/resnet50 holds " in printed
    assert "H-AP" in line("training.md", "hiertree evaluate embedded/resnet50")
    model = ht.load_model("timm:resnet18/resnet18.safetensors")
    embedded = read_embeddings("embedded/resnet50").queries.embeddings
    np.testing.assert_allclose(model.embed("photos/"), embedded, atol=1e-5)


def test_networks_are_compared_on_photos(folder):
    line("training.md", "hiertree embed timm:resnet50")
    printed_by(f"hiertree embed open_clip:{MODEL}/open_clip_model.safetensors photos --out embedded/clip")
    line("training.md", "hiertree compare embedded/resnet50")
    rows = pd.read_csv("compared/comparison.csv")
    assert rows["recipe"].tolist() == ["embedded/resnet50", "embedded/clip"]
    assert set(pd.read_csv("compared/comparison-tests.csv")["queries"]) == {48}
    assert "Not tested" not in Path("compared/comparison.md").read_text()
    printed_by("hiertree report compared --out compared.html")
    assert "embedded/clip" in Path("compared.html").read_text()


def test_the_same_commands_take_a_run_its_best_a_folder_and_a_file(run, folder):
    printed_by("hiertree embed runs/mine/best photos --out embedded/mine")
    tables = []
    for index, source in enumerate(("runs/mine", "runs/mine/best", "embedded/mine", "runs/mine/embeddings.npz")):
        assert "H-AP" in printed_by(f"hiertree evaluate {source}")
        printed_by(f"hiertree report {source} --out {index}.html --queries 1 --hits 2")
        embedded = read_embedded([source])
        assert len(embedded.names) == 16
        assert embedded.tree is not None
        assert (embedded.images is not None) is (index < 3)
        assert ('class="asked">\n      <img' in Path(f"{index}.html").read_text()) is (index < 3)
        tables.append(GalleryIndex.load(source).table)
    assert [list(table.columns) for table in tables] == 4 * [["image", *LEVELS]]
    assert [len(table) for table in tables] == 4 * [16]  # embed reads the table of the run, whose images they are


def test_a_table_without_splits_is_split(run, folder):
    pd.read_csv("images.csv").drop(columns="split").to_csv("whole.csv", index=False)
    command = re.search(r"`(hiertree split images\.csv [^`]*)`", (ROOT / "docs" / "faq.md").read_text())
    changes = {"images.csv --levels kind,landmark": f"whole.csv --levels {','.join(LEVELS)}"}
    printed_by(replaced(" ".join(command[1].split()), changes))
    table = pd.read_csv("images-split.csv")
    assert set(table["split"]) == {"train", "val", "test"}
    assert (table.groupby("landmark_id")["split"].nunique() == 1).all()


@pytest.mark.parametrize("kind", ["folder", "table", "archives", "huggingface"])
def test_a_recipe_takes_images_where_they_are(kind, run, folder):
    page = block("datasets.md", "yaml", "extends: sop-happier")
    (data,) = (yaml.safe_load(section) for section in re.findall(r"\{name:.*?\}", page) if f"name: {kind}," in section)
    recipe = yaml.safe_load(Path("my-recipe.yaml").read_text()) | {"data": data | {"levels": LEVELS}, "name": kind}
    del recipe["validation"]
    Path(f"{kind}.yaml").write_text(yaml.safe_dump(recipe))
    WRITERS.get(kind, lambda: None)()
    printed_by(f"hiertree train {kind}.yaml --out runs/{kind}")
    images = np.load(f"runs/{kind}/embeddings.npz")["names"]
    assert len(images) == 24
    trusted = "--set data.name=huggingface" if kind == "huggingface" else ""  # of the hub, it may download
    printed_by(f"hiertree report runs/{kind} --out {kind}.html --queries 1 --hits 2 {trusted}")
    assert "<img" in Path(f"{kind}.html").read_text()


def halves():
    """The rows of a training and a test split, of other classes."""
    table = pd.read_csv("images.csv")
    is_test = table["landmark_id"].str[-1].isin(list("345"))
    return {"train": table[~is_test], "test": table[is_test]}


def write_archives():
    """WebDataset's tars of both splits, made by tarfile."""
    import io
    import tarfile

    Path("shards").mkdir()
    for split, rows in halves().items():
        with tarfile.open(f"shards/{split}-000.tar", "w") as archive:
            for index, row in enumerate(rows.to_dict("records")):
                labels = json.dumps({level: row[level] for level in LEVELS}).encode()
                for suffix, data in (("png", Path("photos", row["file"]).read_bytes()), ("json", labels)):
                    member = tarfile.TarInfo(f"{index:04}.{suffix}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))


def write_huggingface():
    """Both splits, saved to disk by datasets."""
    datasets = pytest.importorskip("datasets")
    splits = {}
    for split, rows in halves().items():
        columns = {level: rows[level].tolist() for level in LEVELS}
        files = [f"photos/{file}" for file in rows["file"]]
        splits[split] = datasets.Dataset.from_dict({"image": files, **columns}).cast_column("image", datasets.Image())
    datasets.DatasetDict(splits).save_to_disk("saved")


WRITERS = {"archives": write_archives, "huggingface": write_huggingface}
