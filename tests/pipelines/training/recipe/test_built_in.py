"""The built-in recipes: their names stay, and each variant says only what differs."""

from __future__ import annotations

import json
import shlex
from itertools import product, takewhile
from pathlib import Path

import pytest
from click.testing import CliRunner

from hiertree.pipelines.cli.application import commands
from hiertree.pipelines.comparison.planned_runs import combinations_of, overrides_of, read_grid
from hiertree.pipelines.training.recipe import published
from hiertree.pipelines.training.recipe.reading import (
    Setting,
    all_built_in_recipes,
    built_in_recipe,
    built_in_recipes,
    check_recipe,
    load_recipe,
    merge,
    parse_layer,
    plain,
    read_layers,
    recipe_datasets,
    recipe_yaml,
)
from hiertree.pipelines.training.recipe.settings import Recipe
from hiertree.pipelines.yaml_files import parse_yaml

BASELINES = "fastap softbin-ap blackbox-ap smooth-ap sup-ap"
TREES = "triplet triplet-sum nsm nsm-sum nca nca-sum csl rod-ndcg happier happier-f"
ABLATIONS = "smooth-recall sup-recall rod-recall smooth-hap sup-hap smooth-ndcg sup-ndcg"
B128 = "fastap-b128 softbin-ap-b128 blackbox-ap-b128 smooth-ap-b128 sup-ap-b128 roadmap-margins-b128 smooth-ap-b384"
DYML = "triplet nsm smooth-ap roadmap csl rod-ndcg happier"
NAMES = {  # in other people's scripts: names are added, never changed
    "cub": f"{BASELINES} roadmap roadmap-deit roadmap-margins roadmap-margins-256px roadmap-margins-deit",
    "dyml": " ".join(
        f"{variant_name}-{loss}" for variant_name in ("vehicle", "animal", "product") for loss in DYML.split()
    ),
    "h-gldv2": "smooth-ap roadmap csl happier happier-f",
    "inat-base": f"{BASELINES} {TREES} {ABLATIONS} {B128} roadmap roadmap-margins roadmap-margins-b384 roadmap-deit "
    "roadmap-margins-deit",
    "inat-full": f"{TREES} smooth-ap roadmap",
    "inshop": "roadmap-margins-256px roadmap-margins-deit",
    "omniglot": f"{BASELINES} {ABLATIONS} {TREES} roadmap proxies recall talr-ap talr-ndcg",
    "sop": f"{BASELINES} {TREES} {ABLATIONS} {B128} roadmap roadmap-deit roadmap-margins roadmap-margins-256px "
    "roadmap-margins-deit fastap-deit softbin-ap-deit blackbox-ap-deit smooth-ap-deit",
    "synthetic": "smooth-ap happier",
    "vehicleid": "smooth-ap-b384",
    "washington": "smooth-ap happier happier-pretrained happier-texts smooth-ap-pretrained rod-ndcg-pretrained "
    "proxies-pretrained",
}
NOT_ON_OMNIGLOT = {"triplet", "nsm", "nca", "happier-f", "smooth-recall", "sup-recall"}


def names_of(dataset):
    left_out = NOT_ON_OMNIGLOT if dataset == "omniglot" else set()
    return {f"{dataset}-{variant}" for variant in NAMES[dataset].split() if variant not in left_out}


def file_of(dataset):
    text = (Path(published.__file__).parents[1] / "recipes" / f"{dataset}.yaml").read_text(encoding="utf-8")
    return parse_layer(text, source=dataset)


def parts_of(file, variant_name):
    """What the part extends and then itself, settings alone."""
    variant = dict(file["variants"].get(variant_name) or file["shared"][variant_name])
    extends = plain(variant.pop("extends")) if "extends" in variant else []
    settings = {key: value for key, value in variant.items() if key not in ("about", "note")}
    parents = [extends] if isinstance(extends, str) else extends
    return [*(layer for parent in parents for layer in parts_of(file, parent)), settings]


def leaves(layer, path=()):
    values = {}
    for key, value in layer.items():
        values |= {(*path, key): value} if isinstance(value, Setting) else leaves(value, (*path, key))
    return values


def repetitions(layer, inherited):
    """Sections of a layer with a setting that is inherited just so, value and source."""
    replaced = {key for key in layer if plain(merge(inherited, layer)[key]) == plain(layer[key])}  # another component
    inherited_values = leaves(inherited)
    return [
        ".".join(at)
        for at, setting in leaves(layer).items()
        if inherited_values.get(at) == setting and at[0] not in replaced
    ]


def test_names_stay():
    assert set(recipe_datasets()) >= set(NAMES)
    missing = {name for dataset in NAMES for name in names_of(dataset)} - set(built_in_recipes())
    assert not missing
    assert len(built_in_recipes()) == len(set(built_in_recipes()))


@pytest.mark.parametrize("dataset", list(NAMES))
def test_base_says_every_section_and_variants_only_what_differs(dataset):
    file = file_of(dataset)
    assert {*file["base"], "name", "loss"} == set(Recipe.model_fields)
    for variant in file["variants"]:
        *parents, variant_part = parts_of(file, variant)
        inherited = file["base"]
        for layer in parents:
            inherited = merge(inherited, layer)
        assert not repetitions(variant_part, inherited), variant


def test_every_recipe_is_described():
    for recipe in all_built_in_recipes():
        assert recipe.about, recipe.name
        assert built_in_recipe(recipe.name) == recipe


@pytest.mark.parametrize("name", built_in_recipes())
def test_printed_recipe_is_the_recipe(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert check_recipe(parse_yaml(recipe_yaml(recipe, read_layers(name)), source=name)) == recipe


def test_printed_recipe_has_the_source_behind_every_value():
    printed = recipe_yaml(
        load_recipe("sop-happier-f", ["optimizer.lr=1"]), read_layers("sop-happier-f", ["optimizer.lr=1"])
    )
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "alpha: 5.0 # [S]" in lines
    assert "pretrained: true # the authors' public code; ImageNet" in lines
    assert "lr: 1.0 # --set" in lines
    assert "weight_decay: 0.0 # default" in lines or "clip_norm: null # default" in lines


def test_every_figure_is_a_command_of_recipes_and_settings_that_exist():
    output = CliRunner().invoke(commands, ["recipes"]).output
    assert len(published.sweeps()) == 20
    for sweep in published.sweeps():
        assert sweep.command in output
        _, command, *arguments = shlex.split(sweep.command)
        names = [argument.removeprefix("runs/") for argument in takewhile(lambda text: text[0] != "-", arguments)]
        options = dict(zip(arguments[len(names) :: 2], arguments[len(names) + 1 :: 2], strict=True))
        assert command in commands.commands
        assert "--out" in options
        grid = read_grid([options["--grid"]] if "--grid" in options else [])
        for name, settings in product(names, combinations_of(grid)):
            load_recipe(name, [*overrides_of(settings), *filter(None, [options.get("--set")])])


def test_list_names_every_recipe_with_what_it_is_for():
    text = CliRunner().invoke(commands, ["recipes"]).output
    assert all(f"  {name} " in text for name in built_in_recipes())
    assert "sop: Stanford Online Products, super-category → product" in text
    entries = json.loads(CliRunner().invoke(commands, ["recipes", "--json"]).output)
    assert [entry["name"] for entry in entries] == built_in_recipes()
    sop_entry = next(entry for entry in entries if entry["name"] == "sop-happier")
    assert (sop_entry["dataset"], sop_entry["about"]) == ("sop", "HAPPIER")
    assert sop_entry["published"][0]["percent"]["H-AP"] == 59.4


def test_shown_recipe_is_json_on_request():
    for arguments in (["--json", "show", "sop-happier"], ["show", "sop-happier", "--json"]):
        sections = json.loads(CliRunner().invoke(commands, ["recipes", *arguments, "--set", "seed=3"]).output)
        assert sections["settings"] == load_recipe("sop-happier", ["seed=3"]).as_dict()
        assert sections["published"][0]["percent"]["H-AP"] == 59.4


def test_shown_recipe_can_be_saved_and_trained(tmp_path):
    output = CliRunner().invoke(commands, ["recipes", "show", "sop-happier", "--set", "seed=3"])
    assert output.exit_code == 0
    assert "# Published, percent: R@1 81.0" in output.output
    assert "# [S] Ramzi et al." in output.output
    file = tmp_path / "saved.yaml"
    file.write_text(output.output, encoding="utf-8")
    assert load_recipe(file) == load_recipe("sop-happier", ["seed=3"])
