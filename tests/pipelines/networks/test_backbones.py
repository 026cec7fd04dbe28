"""Backbones of every source: at other image sizes, from the hub's cache, of open_clip, and of one's own."""

from __future__ import annotations

import json
import sys

import pytest
import timm
import torch
from safetensors.torch import save_file
from tiny_clip import MODEL, save_tiny_clip

import hiertree as ht
from hiertree.errors import MissingResourceError, RecipeError
from hiertree.pipelines.networks.embedder import Embedder
from hiertree.pipelines.networks.loading import load_embedder
from hiertree.pipelines.networks.settings import ModelSettings
from hiertree.pipelines.training.run.experiment import train

PLAIN = ("model.mean=[0, 0, 0]", "model.std=[1, 1, 1]", "training.epochs=1")
NETWORKS = """
from torch import nn

def tower(width=4):
    return nn.Sequential(nn.Conv2d(3, width, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def maps():
    return nn.Conv2d(3, 5, 3)

def wrong():
    return "no network"


class Failing(nn.Module):
    def forward(self, images):
        raise KeyError("no such layer")
"""


@pytest.fixture
def own_networks(tmp_path, monkeypatch):
    """A module ``my_networks`` on the Python path."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "my_networks.py").write_text(NETWORKS)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    return folder


def trained(recipe, out):
    """The network of a run, embedding as the run did."""
    train(recipe, out)
    name = recipe.model.backbone
    return load_embedder(out, backbone=name if name.startswith("my_networks:") else None)


def test_pretrained_transformer_at_another_size_has_its_positions_interpolated(tiny_recipe, tmp_path):
    source = timm.create_model("test_vit", num_classes=0)
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    settings = ("model.backbone=test_vit", "model.pooling=backbone", "images.size=64", "training.epochs=1")
    weights = f"model.pretrained={tmp_path / 'weights.safetensors'}"
    network = trained(tiny_recipe(*settings, weights, "model.freeze_backbone_epochs=1"), tmp_path / "run").backbone
    positions = timm.layers.resample_abs_pos_embed(source.pos_embed, new_size=[4, 4], num_prefix_tokens=1)
    torch.testing.assert_close(network.network.pos_embed, positions)
    assert torch.equal(network.network.blocks[0].attn.qkv.weight, source.blocks[0].attn.qkv.weight)


def test_network_of_the_hub_is_built_from_its_cache_and_needs_no_hub_afterwards(tiny_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    recipe = ("model.backbone=hf-hub:someone/small", "model.pretrained=true", "images.size=32", "training.epochs=1")
    with pytest.raises(MissingResourceError, match=r"timm\.create_model\('hf-hub:someone/small'"):
        train(tiny_recipe(*recipe), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    snapshot = tmp_path / "cache" / "models--someone--small" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123")
    source = timm.create_model("test_resnet", num_classes=7, stem_width=24)
    save_file(source.state_dict(), snapshot / "model.safetensors")
    config = {"architecture": "test_resnet", "num_classes": 7, "model_args": {"stem_width": 24}}
    statistics = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "input_size": [3, 160, 160], "classifier": "fc"}
    (snapshot / "config.json").write_text(json.dumps({**config, "pretrained_cfg": statistics}))
    network = trained(tiny_recipe(*recipe, "model.freeze_backbone_epochs=1"), tmp_path / "run")
    assert torch.equal(network.backbone.network.conv1[0].weight, source.conv1[0].weight)
    assert network.mean.flatten().tolist() == pytest.approx([25.5, 51, 76.5])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert ht.load_model(tmp_path / "run").preprocessing.mean == (0.1, 0.2, 0.3)


def test_image_tower_of_open_clip_is_the_one_of_the_whole_model(tiny_recipe, tmp_path):
    import open_clip

    save_tiny_clip(tmp_path)
    settings = (f"model.backbone=open_clip:{MODEL}", "model.pooling=backbone", "images.size=32", "training.epochs=1")
    weights = f"model.pretrained={tmp_path / 'open_clip_model.safetensors'}"
    network = trained(tiny_recipe(*settings, weights, "model.freeze_backbone_epochs=1"), tmp_path / "run")
    model = open_clip.create_model(MODEL, pretrained=str(tmp_path / "open_clip_model.safetensors")).eval()
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    with torch.inference_mode():
        pixels = (images / 255 - torch.tensor(open_clip.OPENAI_DATASET_MEAN).view(3, 1, 1)) / torch.tensor(
            open_clip.OPENAI_DATASET_STD
        ).view(3, 1, 1)
        torch.testing.assert_close(network.backbone(pixels), model.encode_image(pixels))
        torch.testing.assert_close(network.pooled(images), network.head[0](model.encode_image(pixels)))
    larger = Embedder(ModelSettings(backbone=f"open_clip:{MODEL}", pooling="backbone"), channels=3, size=64)
    assert larger(torch.zeros(1, 3, 64, 64)).shape == (1, 128)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": "open_clip:ViT-B-33"}, "ViT-B-3"),
        ({"backbone": "open_clip:ViT-B-32", "pretrained": True}, "one of openai, "),
        ({"backbone": "open_clip:ViT-B-32", "pretrained": "mine"}, "an existing file or one of"),
        ({"backbone": "resnet18", "backbone_options": {"depth": 3}}, "'depth'"),
        ({"backbone": "small_cnn", "backbone_options": {"depth": 3}}, "no options"),
    ],
    ids=str,
)
def test_what_a_source_does_not_have_is_one_error(settings, message):
    with pytest.raises(RecipeError, match=message) as refused:
        Embedder(ModelSettings.model_validate({"pooling": "backbone", **settings}), channels=3, size=224)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("definition", ["tower, width: 6, backbone", "maps, , gem"])
def test_network_of_ones_own_is_trained_saved_and_loaded(tiny_recipe, tmp_path, own_networks, definition):
    attribute, options, pooling = definition.split(", ")
    name = f"my_networks:{attribute}"
    backbone = [f"model.backbone={name}", f"model.backbone_options={{{options}}}"]
    network = trained(tiny_recipe(*backbone, f"model.pooling={pooling}", *PLAIN), tmp_path / "run")
    model = ht.load_model(tmp_path / "run", device="cpu", backbone=name)
    assert next(network.backbone.parameters()).shape[0] == (6 if attribute == "tower" else 5)
    assert model.preprocessing.mean == (0, 0, 0)
    assert model.embed(torch.zeros(1, 3, 16, 16)).shape == (1, 8)


def test_network_of_ones_own_without_its_statistics_is_refused(tiny_recipe, own_networks):
    with pytest.raises(RecipeError, match=r"without model\.mean and model\.std"):
        train(tiny_recipe("model.backbone=my_networks:tower", "model.pooling=backbone"), own_networks / "run")


@pytest.mark.parametrize(
    ("name", "pooling", "error", "message"),
    [
        ("absent_networks:tower", "backbone", MissingResourceError, "PYTHONPATH=FOLDER"),
        ("my_networks:towre", "backbone", RecipeError, r"my_networks\.py\) has no callable towre"),
        ("my_networks:wrong", "backbone", RecipeError, "returns str: expected a torch.nn.Module"),
        (
            "my_networks:Failing",
            "gem",
            RecipeError,
            r"the network fails \(KeyError: 'no such layer'\): expected one that",
        ),
        ("my_networks:tower", "gem", RecipeError, r"set model\.pooling=backbone"),
        ("my_networks:maps", "backbone", RecipeError, r"set model\.pooling=gem"),
        ("C:/networks:tower", "backbone", RecipeError, "module:attribute"),
    ],
)
def test_module_that_gives_no_network_is_one_error(tiny_recipe, own_networks, name, pooling, error, message):
    with pytest.raises(error, match=message):
        train(tiny_recipe(f"model.backbone={name}", f"model.pooling={pooling}", *PLAIN), own_networks / "run")
    assert not (own_networks / "run").exists()
