"""docs/tutorials/images.md runs from its first line to its last, on drawn images in the folders of its photos."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from printed_commands import printed_by
from project import ROOT

import hiertree as ht

pytest.importorskip("onnxruntime")
pytest.importorskip("faiss")
PAGE = (ROOT / "docs" / "tutorials" / "images.md").read_text(encoding="utf-8")
SMALL = """extends: washington-happier
images: {size: 16}
sampler: {batch_size: 16}
model: {width: 4, embedding_size: 8}
training: {epochs: 1}
"""
CHANGES = {
    "extends: washington-happier-pretrained": SMALL,
    "batch_size: 40": "batch_size: 16",
    "embedding_size: 64": "embedding_size: 4",
    "0,1,2": "0",
    "train/Fruit/Apple/Granny-Smith/Granny-Smith_001.jpg": "train/disc/striped/0.jpg",
}


def follow(page):
    """Do what each block says, in order."""
    names = {}
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(compile(block, "images.md", "exec"), names)
        elif language == "yaml":
            Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
        elif language == "sh":
            for line in block.splitlines():
                run(line)


def run(line):
    """One line of a shell; a page that is served until Ctrl-C is opened and left."""
    if line.startswith("hiertree browse"):
        command = [sys.executable, "-m", *line.split(), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
            assert "http://127.0.0.1" in served.stdout.readline()
            served.terminate()
    elif line.startswith("hiertree"):
        printed_by(line)


def draw_groceries(folder):
    """Images with the lists and the table of classes of the Grocery Store data set, and a table of one's own photos."""
    dataset = ht.datasets.load_synthetic("test", families=2, kinds=2, instances=8, images=4)
    labels = [dataset.tree.labels_of(path) for path in dataset.paths]
    varieties = dict.fromkeys((kind, variety) for _, kind, variety in labels)
    products = list(dict.fromkeys(kind for kind, _ in varieties))
    lines = {"train": [], "val": [], "test": []}
    for index, (family, kind, variety) in enumerate(labels):
        split = list(lines)[index % 3]
        file = f"{split}/{family}/{kind}/{index}.jpg"
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        dataset.images[index].save(folder / file)
        lines[split].append(f"{file}, {list(varieties).index((kind, variety))}, {products.index(kind)}\n")
    for split, rows in lines.items():
        (folder / f"{split}.txt").write_text("".join(rows))
    classes = [(variety, i, kind, products.index(kind), "", "") for i, (kind, variety) in enumerate(varieties)]
    header = "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int),Iconic Image Path (str)"
    columns = [*header.split(","), "Product Description Path (str)"]
    pd.DataFrame(classes, columns=columns).to_csv(folder / "classes.csv", index=False)
    files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.jpg"))
    photo_rows = [(file, file.split("/")[1], f"{file.split('/')[1:3]} {index % 4}") for index, file in enumerate(files)]
    pd.DataFrame(photo_rows, columns=["file", "kind", "landmark"]).to_csv("photos.csv", index=False)
    Path("photos").symlink_to(folder)


def test_its_recipes_are_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow("\n".join(re.findall(r"^```yaml\n.*?^```$", PAGE, flags=re.DOTALL | re.MULTILINE)))
    printed = printed_by("hiertree recipes show mine.yaml")
    assert "levels: [kind, landmark]" in printed
    assert "pretrained: efficientnet-lite0-57934424.pth" in printed


@pytest.mark.nightly
def test_every_line_runs_on_drawn_images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIERTREE_PROGRESS", "0")
    draw_groceries(tmp_path / "GroceryStoreDataset" / "dataset")
    page = PAGE
    for old, new in CHANGES.items():
        assert old in page
        page = page.replace(old, new)
    follow(page)
    assert Path("report.html").stat().st_size > 0
    assert Path("exported/model.onnx").stat().st_size > 0
    table = pd.read_csv("images.csv")
    assert table["image"].map(lambda file: Path("photos", file).is_file()).all()
    assert table[["department", "product"]].drop_duplicates()["department"].tolist() == ["disc", "disc", "star", "star"]
    compared = pd.read_csv("runs/compared/comparison.csv")
    assert compared["recipe"].tolist() == ["happier", "smooth-ap", "frozen"]
