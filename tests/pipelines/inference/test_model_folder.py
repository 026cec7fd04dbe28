"""A model as a folder to hand on: saved, described by its card, and put on the hub and taken from it again."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from loopback_hub import serving_hub
from PIL import Image

import hiertree as ht
from hiertree.errors import MissingResourceError, OptionError, RecipeError
from hiertree.pipelines.inference import TrainedModel
from hiertree.pipelines.inference.embedding import embed
from hiertree.pipelines.training.run.experiment import train

IMAGES = torch.randint(0, 256, (3, 3, 20, 20), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def run(tiny_recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(tiny_recipe("training.epochs=1"), folder)
    return folder


@pytest.fixture(scope="module")
def model(run):
    return ht.load_model(run, device="cpu")


def test_saved_model_is_the_same_model_and_needs_no_run(model, run, tmp_path):
    model.save(tmp_path / "model")
    saved_model = ht.load_model(tmp_path / "model", device="cpu")
    assert np.array_equal(saved_model.embed(IMAGES, progress=False), model.embed(IMAGES, progress=False))
    assert (saved_model.tree, saved_model.preprocessing, saved_model.record) == (
        model.tree,
        model.preprocessing,
        model.record,
    )
    saved_model.save(tmp_path / "model")
    (tmp_path / "photos").mkdir()
    photo = Image.fromarray(IMAGES[0].permute(1, 2, 0).numpy())
    photo.save(tmp_path / "photos" / "a.png")
    assert embed(tmp_path / "model", tmp_path / "photos", tmp_path / "embedded", labeled=False).images == 1


def test_card_tells_metrics_classes_preprocessing_and_recipe_without_the_places_of_this_machine(model, run, tmp_path):
    recipe = {**model.record.recipe, "data": {"name": "sop", "root": "/home/me/Stanford_Online_Products"}}
    TrainedModel(
        model.network, model.preprocessing, tree=model.tree, device="cpu", record=model.record._replace(recipe=recipe)
    ).save(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert header["library_name"] == "hiertree"
    metrics = json.loads((run / "metrics.json").read_text())["metrics"]
    assert f"| H-AP | {100 * metrics['H-AP']:.2f} |" in card
    results = ModelCard.load(tmp_path / "model" / "README.md").data.eval_results
    assert {result.metric_type: result.metric_value for result in results} == metrics
    assert {result.dataset_name for result in results} == {"sop"}
    for name, size in zip(model.tree.level_names, model.tree.level_sizes, strict=True):
        assert f"| {name} | {size} |" in card
    assert "root: Stanford_Online_Products" in card
    assert "size: 16" in card
    assert not any("/home" in path.read_text() for path in (tmp_path / "model").glob("*.[yjm]*"))


def test_folder_of_other_files_is_not_replaced_by_a_model(model, run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "README.md").write_text("mine")
    for folder in (tmp_path, tmp_path / "repository", run):
        with pytest.raises(OptionError, match="holds other files"):
            model.save(folder)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_model_shows_what_it_is(model):
    levels = ", ".join(
        f"{size} {name}" for name, size in zip(model.tree.level_names, model.tree.level_sizes, strict=True)
    )
    assert repr(model) == f"TrainedModel(small_cnn, 3×16×16 → 8, {levels}, on cpu)"


def test_no_images_are_refused_as_such(model):
    with pytest.raises(ValueError, match=r"^no images: .*at least one image"):
        model.embed([])


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with serving_hub(tmp_path / "cache", monkeypatch) as files:
        yield files


def test_model_on_the_hub_is_the_same_model(model, hub):
    model.push_to_hub("someone/model", token="hf_test")
    assert {"README.md", "model.safetensors", "model.json", "tree-train.json"} <= hub.keys()
    loaded = ht.load_model("hf-hub:someone/model", device="cpu")
    assert np.array_equal(loaded.embed(IMAGES, progress=False), model.embed(IMAGES, progress=False))
    assert TrainedModel.from_pretrained("someone/model", device="cpu").tree == model.tree


def test_model_of_the_hub_imports_no_code_by_itself(tiny_recipe, tmp_path, hub):
    overrides = (
        "model.backbone=torchvision.models:squeezenet1_1",
        "model.backbone_options={num_classes: 5}",
        "images.size=32",
    )
    declared = ("model.pooling=backbone", "model.mean=[0, 0, 0]", "model.std=[1, 1, 1]", "training.epochs=1")
    train(tiny_recipe(*overrides, *declared), tmp_path / "run")
    own_model = ht.load_model(tmp_path / "run", device="cpu", backbone="torchvision.models:squeezenet1_1")
    own_model.push_to_hub("someone/model", token="hf_test")
    with pytest.raises(RecipeError, match=r"torchvision\.models:squeezenet1_1, code .*load_model\(…, backbone=…\)"):
        ht.load_model("hf-hub:someone/model")
    from torchvision.models import squeezenet1_1

    assert ht.load_model("hf-hub:someone/model", backbone=squeezenet1_1).embedding_size == 8


def test_model_that_the_hub_does_not_have_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingResourceError, match=r"`hf download someone/absent` brings it"):
        ht.load_model("hf-hub:someone/absent")
