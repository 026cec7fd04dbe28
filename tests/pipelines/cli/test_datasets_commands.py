"""``hiertree datasets``: the table of benchmarks, a check that notices every gap, sizes, and how to get one."""

from __future__ import annotations

import json
from functools import partial

import pytest
from benchmark_files import NAMES, write_benchmark
from printed_commands import status_of
from project import ROOT

from hiertree import datasets

run = partial(status_of, "datasets")


def test_list_names_every_benchmark_with_its_sizes(capsys):
    assert run("list") == 0
    table = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{table}" for name in datasets.available())
    assert all(datasets.describe(name).url in table for name in datasets.available())
    assert "1,580,470" in table
    assert run("list", "--json") == 0
    cards = json.loads(capsys.readouterr().out)
    assert [card["name"] for card in cards] == list(datasets.available())
    assert cards[0]["splits"]["train"] == {"images": 59551, "classes": 11318, "within": 0}


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_benchmark_passes_the_check(name, tmp_path, capsys):
    write_benchmark(name, tmp_path)
    assert run("check", name, tmp_path, "--structure", "--decode", "--json") == 0
    reports = json.loads(capsys.readouterr().out)
    assert [report["split"] for report in reports] == list(datasets.describe(name).splits)
    assert all(report["sound"] and report["images"] for report in reports)


def test_check_names_what_is_missing_damaged_or_of_another_size(tmp_path, capsys, monkeypatch):
    write_benchmark("sop", tmp_path)
    assert run("check", "sop", tmp_path) == 1
    printed = capsys.readouterr().out
    assert "12 images instead of 59,551" in printed
    assert "\nremedy: download the lists again, or pass --structure\n" in printed
    image = tmp_path / "chair_final" / "111085122872_1.JPG"
    image.write_bytes(image.read_bytes()[:100])
    assert run("check", "sop", tmp_path, "--structure") == 0
    assert run("check", "sop", tmp_path, "--structure", "--decode", "--split", "train") == 1
    assert "1 images bad: chair_final/111085122872_1.JPG" in capsys.readouterr().out
    image.unlink()
    monkeypatch.setattr("hiertree.datasets.description.LOOKED_FOR", 2)
    assert run("check", "sop", tmp_path, "--structure", "--json") == 1
    bad_images = {report["split"]: report["bad_images"] for report in json.loads(capsys.readouterr().out)}
    assert bad_images == {
        "train": ["chair_final/111085122872_1.JPG"],
        "test": [],
        "info": ["chair_final/111085122872_1.JPG"],
    }
    assert run("check", "sop", tmp_path / "nowhere") == 1
    printed = capsys.readouterr().out
    assert "Ebay_train.txt not in" in printed
    assert printed.count("remedy: get Stanford_Online_Products.zip") == 1


def test_what_may_not_be_fetched_is_told_step_by_step(tmp_path, capsys):
    assert run("download", "inshop", tmp_path / "inshop") == 0
    printed = capsys.readouterr().out
    assert "license: non-commercial research, on agreement" in printed
    assert "\n1. ask for In-shop" in printed
    assert not (tmp_path / "inshop").exists()


def test_the_page_names_every_benchmark():
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert [name for name in datasets.available() if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "spo", "x"], "did you mean 'sop'"),
        (["check", "sop", "x", "--split", "val"], "split='val'"),
        (["download", "cub", "x", "--mirror", "ftp://127.0.0.1"], "http:// or https://"),
    ],
)
def test_wrong_names_and_addresses_end_with_status_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
