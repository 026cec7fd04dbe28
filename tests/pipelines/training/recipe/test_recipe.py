"""Recipes: one file, every key known, every complaint with its place."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import yaml

from hiertree import datasets, losses
from hiertree.datasets import registry
from hiertree.errors import MissingResourceError, RecipeError
from hiertree.pipelines.training.recipe.reading import check_recipe, load_recipe
from hiertree.pipelines.training.recipe.settings import DATA, LOSS, SAMPLER, GlyphAugmentation
from hiertree.pipelines.training.run.optimization import build_loss
from hiertree.pipelines.training.run.run_folder import RunFolder
from hiertree.pipelines.yaml_files import parse_yaml

MINIMAL = """
data: {name: synthetic}
sampler: {name: ClassBalancedSampler, batch_size: 8, images_per_class: 2}
loss: {name: HAPPIER}
training: {epochs: 1}
"""


def write(folder, text):
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_minimal_recipe_takes_its_name_from_the_file_and_defaults_for_the_rest(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL))
    assert recipe.name == "mine"
    assert recipe.optimizer.name == "adam"
    assert recipe.images.augmentation == GlyphAugmentation()


def test_component_defaults_are_those_of_the_class_itself(tmp_path):
    options = load_recipe(write(tmp_path, MINIMAL)).loss.options()
    parameters = inspect.signature(losses.HAPPIER).parameters
    expected = {name: parameters[name].default for name in parameters if name not in ("num_classes", "embedding_size")}
    assert options == expected


def test_every_component_of_the_package_can_be_named():
    assert {"sop", "dyml", "gldv2", "omniglot", "synthetic", "table"} <= set(DATA.names())
    assert SAMPLER.names() == ["ClassBalancedSampler", "RandomSampler", "SuperCategoryPairSampler", "TreeSampler"]
    assert {"HAPPIER", "SmoothAP", "ProxyDecomposability"} <= set(LOSS.names())
    assert "Loss" not in LOSS.names()
    assert all(hasattr(datasets, f"load_{name}") for name in DATA.names())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer.lrr=1", r"optimizer: unknown key 'lrr', did you mean 'lr'\?"),
        ("loss.alhpa=1", r"loss: unknown key 'alhpa', did you mean 'alpha'\?"),
        ("loss.num_classes=3", r"loss: unknown key 'num_classes'"),
        ("loss.name=HAPIER", r"loss: unknown name 'HAPIER', did you mean 'HAPPIER'\?"),
        ("sampler.batchsize=4", r"sampler: unknown key 'batchsize', did you mean 'batch_size'\?"),
        ("data.famlies=2", r"data: unknown key 'famlies', did you mean 'families'\?"),
        ("optimiser.lr=1", r"unknown key 'optimiser', did you mean 'optimizer'\?"),
        ("images.augmentation={name: glyph, flip: true}", r"images.augmentation: unknown key 'flip'"),
        ("optimizer.lr=-1", r"optimizer.lr: .*greater than 0 \(given -1\)"),
        ("optimizer.lr=fast", r"optimizer.lr: .*\(given 'fast'\)"),
        ("training.epochs=-1", r"training.epochs: .*\(given -1\)"),
        ("loss.alpha=much", r"loss.alpha: .*\(given 'much'\)"),
        ("loss={alpha: 1}", r"loss: expected a mapping with a 'name'"),
        ("optimizer.lr=yes", r"optimizer: lr=true: expected a number; YAML reads yes"),
        ("images.size=on", r"images: size=true: expected a number"),
        ("loss.alpha=off", r"loss: alpha=false: expected a number"),
        ("optimizer.clip_norm=no", r"optimizer: clip_norm=false: expected a number"),
        ("model=7", r"model: .*\(given 7\)"),
        *((f"seed={seed}", "seed") for seed in (-1, 4294967296)),
        *((f"images.{name}=1000000", f"images.{name}") for name in ("size", "cache_size", "resize")),
        ("loss={name: CrossBatchMemory, loss: {name: HAPPIER, alhpa: 3}}", r"loss\.loss: unknown key 'alhpa', did you"),
    ],
)
def test_wrong_setting_is_refused_with_its_place(tmp_path, override, message):
    with pytest.raises(RecipeError, match=message) as caught:
        load_recipe(write(tmp_path, MINIMAL), [override])
    assert str(caught.value).startswith(f"mine.yaml --set {override}: ")


def test_settings_that_are_true_or_false_or_a_text_take_a_truth(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL), ["images.cache=off", "model.pretrained=yes", "loss.include_self=on"])
    assert (recipe.images.cache, recipe.model.pretrained, recipe.loss.options()["include_self"]) == (False, True, True)


def test_one_text_where_a_list_belongs_is_told_how_lists_are_written(tmp_path):
    recipe = write(tmp_path, MINIMAL)
    table = ["data.name=table", "data.path=a.csv", "data.root=.", "data.image=file"]
    with pytest.raises(RecipeError, match=r"data\.levels: expected a list, as in \[a, b\] \(given 'kind,id'\)"):
        load_recipe(recipe, [*table, "data.levels=kind,id"])


def test_missing_section_is_named(tmp_path):
    with pytest.raises(RecipeError, match=r"mine\.yaml: training: Field required"):
        load_recipe(write(tmp_path, MINIMAL.replace("training: {epochs: 1}", "")))


@pytest.mark.parametrize("text", ["[1, 2]", "", "a: [", "loss: {alpha: 1, alpha: 2}", "seed: 1\nseed: 2", "? [a]\n: b"])
def test_file_that_is_no_recipe_is_refused(tmp_path, text):
    with pytest.raises(RecipeError, match=r"mine\.yaml"):
        load_recipe(write(tmp_path, text))


def test_duplicate_key_is_named_with_its_line(tmp_path):
    with pytest.raises(RecipeError, match=r"key 'seed' is given twice(.|\n)*line 2"):
        load_recipe(write(tmp_path, "seed: 1\nseed: 2\n"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5e1", 5.0),
        ("1.5", 1.5),
        ("3", 3),
        ("e4", "e4"),
        ("", None),
    ],
)
def test_numbers_are_read_as_yaml_1_2_reads_them(text, value):
    assert parse_yaml(f"key: {text}", source="test") == {"key": value}


def test_yaml_cannot_construct_python_objects():
    with pytest.raises(RecipeError):
        parse_yaml("!!python/object/apply:os.getcwd []", source="test")


def test_overrides_reach_any_depth_and_the_last_one_wins(tmp_path):
    recipe = load_recipe(
        write(tmp_path, MINIMAL),
        ["optimizer.lr=1e-4", "optimizer.lr=2e-4", "images.augmentation.name=photo", "images.augmentation.flip=false"],
    )
    assert recipe.optimizer.lr == 2e-4
    assert recipe.images.augmentation.model_dump()["flip"] is False


def test_override_can_replace_a_whole_section(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL), ["loss={name: SmoothAP, tau: 0.1}"])
    assert (recipe.loss.name, recipe.loss.options()["tau"]) == ("SmoothAP", 0.1)


def test_losses_that_wrap_others_are_built_for_the_tree(tmp_path):
    class_paths = np.array([[0, 0], [0, 1], [1, 2]])
    nested = "loss={name: CrossBatchMemory, size: 30, loss: {name: HAPPIER, alpha: 3}}"
    recipe = load_recipe(write(tmp_path, MINIMAL), [nested, "loss.loss.eta=0.1"])
    memory = build_loss(recipe, class_paths=class_paths, embedding_size=128)
    assert isinstance(memory, losses.CrossBatchMemory)
    assert memory.paths.shape == (30, 2)
    assert memory.weights == losses.HAPPIER(3, 2).weights
    assert recipe.as_dict()["loss"]["loss"]["eta"] == 0.1
    summed = load_recipe(write(tmp_path, MINIMAL), ["loss={name: LevelSum, loss: {name: ProxyDecomposability}}"])
    loss = build_loss(summed, class_paths=class_paths, embedding_size=128)
    assert [tuple(parameter.shape) for parameter in loss.parameters()] == [(2, 128), (3, 128)]


@pytest.mark.parametrize("override", ["optimizer.lr", "=3", ".lr=1", "seed.deep.er=1", "a..b=1"])
def test_malformed_override_is_refused(tmp_path, override):
    with pytest.raises(RecipeError, match="--set"):
        load_recipe(write(tmp_path, MINIMAL), [override])


def test_unknown_built_in_recipe_suggests_the_right_one():
    with pytest.raises(RecipeError, match=r"did you mean 'synthetic-happier' or ") as caught:
        load_recipe("synthetic-hapier")
    assert str(caught.value).count("'") <= 2 * 4  # what was given, and three suggestions at most


def test_recipe_survives_a_round_trip_through_yaml(tmp_path):
    recipe = load_recipe(
        write(tmp_path, MINIMAL),
        ["data={name: table, path: i.csv, root: ., image: file, levels: [kind, leaf], split: part}"],
    )
    assert recipe.data.options()["split_column"] == "part"
    reloaded = check_recipe(yaml.safe_load(yaml.safe_dump(recipe.as_dict())))
    assert reloaded == recipe
    assert reloaded.fingerprint() == recipe.fingerprint()


def test_fingerprint_changes_with_any_setting(tmp_path):
    path = write(tmp_path, MINIMAL)
    changes = ["seed=1", "loss.alpha=2", "data.kinds=3", "images.size=16", "training.epochs=2", "schedule.final=0.1"]
    prints = [load_recipe(path, [change]).fingerprint() for change in changes]
    assert len({load_recipe(path).fingerprint(), *prints}) == len(changes) + 1


def test_fingerprint_is_of_what_changes_the_numbers(tmp_path):
    path = write(tmp_path, MINIMAL)
    overrides = ["name=mine", "evaluation.batch_size=8", "evaluation.every=3", "training.checkpoint_every_steps=5"]
    overrides += ["training.device=cpu", "training.on_nan=skip", "training.chunk_size=2", "images.cache=false"]
    assert {load_recipe(path, [change]).fingerprint() for change in overrides} == {load_recipe(path).fingerprint()}
    for overrides in (
        ["training.accumulate=two_pass", "training.chunk_size=2"],  # dropout is drawn chunk by chunk
        ["images.augmentation={name: photo}", "images.cache=false"],  # crops of the original, not of the square
        ["images.cache_size=64"],
    ):
        assert load_recipe(path, overrides).fingerprint() != load_recipe(path, overrides[:-1]).fingerprint()
    kinds = [f"images.augmentation={{name: {name}}}" for name in ("glyph", "photo", "none")]
    assert len({load_recipe(path, [kind]).fingerprint() for kind in kinds}) == 3
    table = "data={name: table, path: i.csv, root: %s, image: file, levels: [kind, leaf]}"
    assert len({load_recipe(path, [table % root]).fingerprint() for root in ("here", "there")}) == 1


RECORDED = {  # without the later keys sampler.small_supers, model.backbone_options, .mean and .std, training.start_from
    "synthetic-happier": "de581c6bd3d7666a758e164a06be8c417123b431cac99b3a5f8c4560edb867b3",
    "sop-happier": "16099bc116e9d57deeaccb8a4497389e4055d104eb89855b08088bb28b16e232",
    "h-gldv2-happier": "49732db28ea41b784527097d1229542ee293d37c6656fbc2611cdcc1fe38196f",
    "inat-full-smooth-ap": "aa445710d28d59404e3b3aaa843d3745527763a5a39b445b32969699ff7668fe",
    "dyml-vehicle-happier": "51b1eecc3b8cc88e91610b55834a3fb0ebfd44456a3ff09bd8e7862b1df9f98b",
}


@pytest.mark.parametrize("name", RECORDED)
def test_runs_of_earlier_versions_resume(name):
    assert load_recipe(name).fingerprint() == RECORDED[name]


@pytest.mark.parametrize(
    "change", ["model.mean=[0.5, 0.5, 0.5]", "model.backbone_options={a: 1}", "sampler.small_supers=drop"]
)
def test_later_keys_count_where_they_change_something(change):
    std = ["model.std=[0.5, 0.5, 0.5]"] if "mean" in change else []
    assert load_recipe("sop-happier", [change, *std]).fingerprint() != RECORDED["sop-happier"]


EXTENDING = """
extends: sop-happier
optimizer: {lr: 1e-4}
loss: {name: SmoothAP}
"""


def test_extending_recipe_changes_what_it_says_and_keeps_the_rest(tmp_path):
    recipe, base = load_recipe(write(tmp_path, EXTENDING)), load_recipe("sop-happier")
    assert recipe.name == "mine"
    assert recipe.optimizer == base.optimizer.model_copy(update={"lr": 1e-4})
    assert recipe.loss.options() == load_recipe(write(tmp_path, MINIMAL), ["loss={name: SmoothAP}"]).loss.options()
    assert (recipe.data, recipe.images, recipe.training) == (base.data, base.images, base.training)


def test_another_name_replaces_the_whole_section(tmp_path):
    recipe = load_recipe(write(tmp_path, "extends: sop-happier\noptimizer: {name: sgd}"))
    assert (
        recipe.optimizer
        == check_recipe({**load_recipe("sop-happier").as_dict(), "optimizer": {"name": "sgd"}}).optimizer
    )
    replaced = load_recipe(write(tmp_path, "extends: sop-happier\nloss: {name: HAPPIER, alpha: 2.0}"))
    assert replaced.loss.options() == {**load_recipe("sop-happier").loss.options(), "alpha": 2.0}


def test_recipe_extends_a_file_relative_to_its_own_folder(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "theirs.yaml").write_text(f"name: theirs\nseed: 5\n{MINIMAL}", encoding="utf-8")
    recipe = load_recipe(write(tmp_path, "extends: shared/theirs.yaml\ntraining: {epochs: 7}"))
    assert (recipe.name, recipe.seed, recipe.training.epochs) == ("mine", 5, 7)


def test_recipes_that_extend_each_other_are_refused(tmp_path):
    (tmp_path / "other.yaml").write_text("extends: mine.yaml", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"mine\.yaml extends other\.yaml extends mine\.yaml"):
        load_recipe(write(tmp_path, "extends: other.yaml"))


@pytest.mark.parametrize("extends", ["sop-hapier", "[sop-happier]", "{a: b}", "3", "missing.yaml"])
def test_impossible_extends_is_refused_with_its_file(tmp_path, extends):
    with pytest.raises(RecipeError, match=r"^mine\.yaml: extends"):
        load_recipe(write(tmp_path, f"extends: {extends}"))


DOUBLING = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: \xe9".encode("latin-1"), "mine.yaml, line 1: bytes that are not UTF-8"),
        (b"a: " + b"[" * 5000, "mine.yaml: nested too deeply"),
        (b"a: {" * 3000, "mine.yaml: nested too deeply"),
        (b"seed: 2001-99-99", "mine.yaml: month must be in 1..12"),
        (b"seed: !!int much", "mine.yaml: invalid literal"),
        (DOUBLING.encode(), "mine.yaml: more than 20 aliases: expected valid YAML"),
    ],
)
def test_unreadable_file_is_one_line_of_complaint(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("values", [None, 3, "name: a", [1]])
def test_values_that_are_no_mapping_are_refused(values):
    with pytest.raises(RecipeError):
        check_recipe(values)


@pytest.mark.parametrize("text", [b"\xff", b"a: [", b"3", b"name: x", b"loss: {name: HAPPIER"])
def test_run_whose_recipe_is_broken_is_refused(tmp_path, text):
    (tmp_path / "recipe.yaml").write_bytes(text)
    with pytest.raises(RecipeError, match=r"recipe\.yaml"):
        RunFolder(tmp_path).require_usable(load_recipe("synthetic-happier"), fresh=False)


def test_overrides_of_one_recipe_do_not_reach_the_next():
    recipe = load_recipe("synthetic-happier")
    load_recipe("synthetic-happier", ["model.width=4", "data.families=2", "training.precision=bf16-mixed"])
    assert load_recipe("synthetic-happier") == recipe


def test_a_data_set_of_the_registry_is_a_name_for_load_and_for_recipes(tmp_path):
    assert set(datasets.available()) <= set(registry.LOADERS)
    assert {"table", "folder", "synthetic"} <= set(registry.LOADERS)
    recipe = load_recipe(write(tmp_path, MINIMAL.replace("name: synthetic", "name: dyml-animal, root: here"))).data
    assert recipe.options() == {"root": "here", "verify": "published"}
    with pytest.raises(MissingResourceError, match="DyML-Animal"):
        recipe.build(split="train")
