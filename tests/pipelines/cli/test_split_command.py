"""``hiertree split`` writes a column of splits, which a recipe reads as it would hold out itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from printed_commands import status_of

from hiertree.datasets.splits import draw_splits
from hiertree.io.tables import read_table

LANDMARKS = ("built,tower", "built,bridge", "natural,lake", "natural,peak")
TABLE = ["file,kind,landmark", *(f"{row}.jpg,{LANDMARKS[row % 4]}" for row in range(16))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("images.csv").write_text("\n".join(TABLE))
    return tmp_path


def run(typed):
    return status_of(*f"split images.csv --levels kind,landmark {typed}".split())


def test_no_class_is_in_two_splits(folder, capsys):
    assert run("--val 0.25 --seed 3 --out split.csv") == 0
    counts = ["train: 4 images of 1 classes", "val: 4 images of 1 classes", "test: 8 images of 2 classes"]
    assert capsys.readouterr().out.splitlines()[-3:] == counts
    table = read_table("split.csv", required=["file", "kind", "landmark", "split"])
    classes = list(zip(table["kind"], table["landmark"], strict=True))
    assert len(set(zip(classes, table["split"], strict=True))) == 4
    held_out = [split == "test" for split in table["split"]]
    assert held_out == [split == "holdout" for split in draw_splits(classes, {"holdout": 0.5}, seed=3)]


def test_labels_that_training_refuses_are_refused(folder, capsys):
    Path("images.csv").write_text("\n".join([*TABLE, "16.jpg,built, ", "17.jpg,natural,"]))
    assert run("--out split.csv") == 2
    assert "images.csv, line 18: the label of level 2 is ' '" in capsys.readouterr().err
    assert run("--uneven pad --out split.csv") == 0


def test_every_class_is_divided_by_images(folder, capsys):
    assert run("--by images --test 0.25 --column part --out split.csv") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["train: 12 images of 4 classes", "test: 4 images of 4 classes"]
    assert run("--by images --test 0.25 --column part --out again.csv") == 0
    assert Path("split.csv").read_bytes() == Path("again.csv").read_bytes()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("--column kind --out split.csv", "choose another with --column"),
        ("--test 0.01 --out split.csv", "test=0.01 of 4 classes"),
        ("--test 0.75 --val 0.5 --out split.csv", "test=0.75 and val=0.5 of 4 classes"),
        ("--out split.txt", "ends in .csv"),
    ],
)
def test_what_cannot_be_divided_is_refused(typed, message, folder, capsys):
    assert run(typed) == 2
    assert message in capsys.readouterr().err
    assert not Path("split.csv").exists()
