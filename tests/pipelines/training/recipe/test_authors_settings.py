"""Each recipe of a paper's row has its authors' public settings, or says behind the value what theirs is.

``authors_settings.csv`` holds the settings of their public code as our recipes would say them: a configuration, a key,
its value, and the file and line at a commit, with that line's CRC-32. ``authors_recipes.csv`` says which configurations
make each recipe (``HAPPIER:loss/csl`` is of another code), and what its paper, or a later part of the same command,
changes. A key ``said:KEY`` is a fact that no
key can hold: the comment behind KEY contains the words. ``head`` and ``net`` stand for the rate of the authors'
optimizer of that name.
"""

from __future__ import annotations

import csv
import os
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from hiertree.pipelines.networks.backbones import input_statistics
from hiertree.pipelines.training.recipe.reading import BuiltInRecipe, Setting, all_built_in_recipes, load_recipe
from hiertree.pipelines.training.run.optimization import build_loss

HERE = Path(__file__).parent
OURS = ("omniglot", "synthetic", "washington")
COMMITS = {
    "SupRank": "elias-ramzi/SupRank d3d0e3cbceee3e8f295fd411daecbe33c1b881bb",
    "HAPPIER": "elias-ramzi/HAPPIER 5af91b3ac6c216a936232da33b42af7efaba5c6b",
    "ROADMAP": "elias-ramzi/ROADMAP fed37d75f475f636542b2ccd1ffc0c3918498a57",
    "Smooth_AP": "Andrew-Brown1/Smooth_AP 59927ec4c59565bff209301d2c2b449ed1937806",
    "TALR": "kunhe/TALR 9a932966ada9835becb5715bfe9398638bee1e1e",
    "MIHash": "fcakir/deep-mihash b67894220f3dd73d43ba116129d897f91d46564f",
    "DPSH": "jiangqy/DPSH-pytorch 042318182814a03c8bc77a331037f331d988f508",
    "DTSH": "Minione/DTSH 4be070721da871e60023eb4f017ed74bcd171587",
    "HashNet": "thuml/HashNet 85387b814fcf95daff887bd325cbaa0e8def7323",
    "HIER": "tjddus9597/HIER-CVPR23 3986a744a1a54fd357e307d1cb3f2e81910b9ffc",
}
RECIPES = {recipe.name: recipe for recipe in all_built_in_recipes() if recipe.dataset not in OURS}


def rows(name):
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SETTINGS, COMMANDS = rows("authors_settings.csv"), {row["recipe"]: row for row in rows("authors_recipes.csv")}


def theirs(command):
    """The values and the words that the authors' configurations of a recipe make; later values replace earlier ones."""
    facts = {}
    remarks = []
    for config in command["configs"].split():
        code, _, name = config.rpartition(":")
        rows = [row for row in SETTINGS if (row["code"], row["config"]) == (code or command["code"], name)]
        assert rows, config
        said_keys = [row for row in rows if row["key"].startswith("said:")]
        remarks += [(row["key"].removeprefix("said:"), str(yaml.safe_load(row["value"]))) for row in said_keys]
        facts |= {row["key"]: yaml.safe_load(row["value"]) for row in rows if row not in said_keys}
    for change in filter(None, command["changed"].split("; ")):
        key, _, value = change.partition(":")[0].partition("=")
        facts[key] = yaml.safe_load(value)
    return {key: resolved(key, value, facts) for key, value in facts.items()}, remarks


def resolved(key, value, facts):
    """A value that another fact names."""
    if value == "half":
        return facts["model.embedding_size"] // 2
    if value not in ("head", "net"):
        return number(value)
    rate = number(facts["optimizer.head_lr" if value == "head" else "optimizer.lr"])
    if key == "schedule.proxies_final":
        return number(facts["schedule.final"]) * number(facts["optimizer.lr"]) / rate
    return rate if key == "optimizer.proxies_lr" else number(facts["optimizer.weight_decay"])


def number(value):
    """YAML takes 1e-4 for a string."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def place(recipe, key):
    """Where a key stands in the recipe: a loss is inside its memory, if it has one."""
    section, *rest = key.split(".")
    memory = recipe.layer["loss"]["name"].value == "CrossBatchMemory"
    return {"memory": ["loss"], "loss": ["loss"] * (1 + memory)}.get(section, [section]) + rest


def ours(recipe, key):
    """The value that the recipe has, with what null stands for."""
    loaded = load_recipe(recipe.name)
    if key in ("model.mean", "model.std"):
        statistics = input_statistics(loaded.model, channels=loaded.images.channels)
        return list(statistics[key == "model.std"])
    values = loaded.as_dict()
    value = values
    for key_of_section in place(recipe, key):
        value = value[key_of_section]
    optimizer, schedule = values["optimizer"], values["schedule"]
    if key in ("optimizer.head_lr", "optimizer.proxies_lr") and value is None:
        return optimizer["lr"]
    return schedule["final"] if key == "schedule.proxies_final" and value is None else value


def said(recipe, key):
    """The comment behind a key, and the recipe's note."""
    layer = recipe.layer
    for key_of_section in place(recipe, key) if key != "note" else ():
        layer = layer.get(key_of_section, {}) if isinstance(layer, dict) else {}
    return f"{layer.source if isinstance(layer, Setting) else ''} {recipe.note or ''}"


def is_declared(text, value):
    """Whether a comment says that the authors' public code has another value, and which."""
    if "public code" not in text:
        return False
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, float | int):
        return any(float(number) == pytest.approx(value) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text))
    return str(value) in text


def deviations(recipe):
    facts, remarks = theirs(COMMANDS[recipe.name])
    problems = [f"{key}: {word!r} is not said" for key, word in remarks if word not in said(recipe, key)]
    for key, value in facts.items():
        value_of_recipe = ours(recipe, key)
        equal = value_of_recipe == (pytest.approx(value) if isinstance(value, float | list) else value)
        if not equal and not is_declared(said(recipe, key), value):
            problems.append(f"{key}: {value_of_recipe!r} here, {value!r} there")
    return problems


def test_every_recipe_of_a_paper_is_a_command_of_its_authors():
    assert set(RECIPES) == set(COMMANDS)


@pytest.mark.parametrize("name", list(RECIPES))
def test_recipe_has_its_authors_settings_or_says_theirs(name):
    assert not deviations(RECIPES[name])


def test_a_deviation_that_is_not_said_fails(monkeypatch):
    """The test's own test: the same settings under the command of another recipe."""
    other_recipe = RECIPES["sop-happier-f"]
    monkeypatch.setitem(COMMANDS, "other", COMMANDS["sop-happier"])
    renamed = BuiltInRecipe("other", other_recipe.dataset, other_recipe.about, None, other_recipe.layer)
    facts, _ = theirs(COMMANDS["other"])
    assert facts["loss.alpha"] == 1.0
    assert not is_declared(said(renamed, "loss.alpha"), 1.0)
    assert is_declared("[S]; the authors' public code has 1e-4", 1e-4)


@pytest.mark.parametrize("name", list(RECIPES))
def test_proxies_start_where_the_authors_do(name):
    """SupRank's ClusterLoss and CSLLoss draw from ±1/√d, its ProxyNCAppLoss from N(0, 1/64).

    HIER's ancestors are from N(0, 0.9²·2.3²/d), and the proxies of its Proxy-Anchor from N(0, 2/64).
    """
    classes = np.arange(64)
    paths = np.stack([classes // 2**level for level in reversed(range(7))], axis=1)
    recipe = load_recipe(name, ["loss.margins=[1, 1, 1, 1, 1, 1, 1]"] if name.endswith("csl") else [])
    levels = 2 if name.endswith("hap-weighted") else 7
    loss = build_loss(recipe, class_paths=paths[:, -levels:], embedding_size=512)
    for proxies in loss.parameters():
        deviation = 1 / 8 if "nca" in name else (3 * 512) ** -0.5
        if name.endswith("-hier"):
            deviation = 0.9 * 2.3 / 512**0.5 if len(proxies) == 512 else (2 / 64) ** 0.5
        assert proxies.std().item() == pytest.approx(deviation, rel=0.1)
        assert "nca" in name or name.endswith("-hier") or proxies.abs().max().item() <= 512**-0.5


@pytest.mark.skipif("HIERTREE_AUTHORS" not in os.environ, reason="needs checkouts of the authors' code")
def test_every_fact_stands_in_its_line():
    """``HIERTREE_AUTHORS`` is a folder with these repositories, at the commits above."""
    for row in SETTINGS:
        lines = (Path(os.environ["HIERTREE_AUTHORS"]) / row["code"] / row["file"]).read_text(errors="replace")
        remarks = " ".join(lines.splitlines()[int(row["line"]) - 1].split())
        assert f"{zlib.crc32(remarks.encode()):08x}" == row["crc32"], (row, remarks)
    assert {row["code"] for row in SETTINGS} == set(COMMITS)
