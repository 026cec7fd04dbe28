"""The network: what comes out, what is frozen, what is saved."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import timm
import torch
from pydantic import ValidationError
from safetensors.torch import save_file
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import nn

from hiertree.errors import CheckpointError, InputError, MissingResourceError, RecipeError
from hiertree.pipelines.networks.backbones import FeatureBackbone, build_backbone
from hiertree.pipelines.networks.embedder import Embedder, GeM
from hiertree.pipelines.networks.loading import Preprocessing, load_embedder, load_preprocessing, save_embedder
from hiertree.pipelines.networks.settings import ModelSettings

SMALL = ModelSettings(width=4, embedding_size=6)
PREPROCESSING = Preprocessing(
    size=28, channels=1, resize=None, mean=(0.5,), std=(0.5,), scales=(1.0,), precision="32-true"
)


@pytest.mark.parametrize("pooling", ["gem", "average", "max"])
@pytest.mark.parametrize("channels", [1, 3])
def test_embeddings_have_unit_norm(pooling, channels):
    embedder = Embedder(ModelSettings(width=4, embedding_size=6, pooling=pooling), channels=channels)
    embeddings = embedder(torch.randint(0, 256, (5, channels, 28, 28), dtype=torch.uint8))
    assert embeddings.shape == (5, 6)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(5))


def test_black_image_still_has_a_finite_embedding_and_gradient():
    embedder = Embedder(SMALL, channels=1)
    embedder(torch.zeros(3, 1, 28, 28)).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in embedder.parameters())


def test_gem_is_the_mean_at_exponent_one_and_nears_the_maximum_at_large_ones():
    maps = torch.rand(2, 3, 4, 4) + 0.1
    torch.testing.assert_close(GeM(exponent=1.0)(maps), maps.mean(dim=(2, 3)))
    torch.testing.assert_close(GeM(exponent=60.0)(maps), maps.amax(dim=(2, 3)), rtol=0.06, atol=0)


def test_pixel_statistics_travel_with_the_weights():
    assert {"mean", "std"} <= Embedder(SMALL, channels=3).state_dict().keys()


def test_frozen_backbone_keeps_weights_and_statistics():
    embedder = Embedder(SMALL, channels=1)
    weights = {name: tensor.clone() for name, tensor in embedder.backbone.state_dict().items()}
    embedder.set_training(frozen_backbone=True)
    embedder(torch.rand(4, 1, 28, 28) * 255).sum().backward()
    assert all(parameter.grad is None for parameter in embedder.backbone.parameters())
    assert all(parameter.grad is not None for parameter in embedder.head_parameters())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in embedder.backbone.state_dict().items())


def test_thawed_backbone_learns_again():
    embedder = Embedder(SMALL, channels=1)
    embedder.set_training(frozen_backbone=True)
    embedder.set_training(frozen_backbone=False)
    embedder(torch.rand(4, 1, 28, 28) * 255).sum().backward()
    assert all(parameter.grad is not None for parameter in embedder.backbone.parameters())


def test_frozen_batch_norm_keeps_its_statistics_while_its_weights_learn():
    embedder = Embedder(ModelSettings(width=4, embedding_size=6, freeze_batch_norm=True), channels=1)
    embedder.set_training(frozen_backbone=False)
    norms = [module for module in embedder.backbone.modules() if isinstance(module, nn.BatchNorm2d)]
    embedder(torch.rand(4, 1, 28, 28) * 255).sum().backward()
    assert all(int(norm.num_batches_tracked) == 0 for norm in norms)
    assert all(norm.weight.grad is not None for norm in norms)


def test_saved_network_is_the_same_network(tmp_path):
    embedder = Embedder(SMALL, channels=1).eval()
    save_embedder(embedder, tmp_path, PREPROCESSING)
    images = torch.randint(0, 256, (3, 1, 28, 28), dtype=torch.uint8)
    assert torch.equal(load_embedder(tmp_path)(images), embedder(images))
    assert load_preprocessing(tmp_path) == PREPROCESSING


def test_images_in_the_unit_interval_are_refused():
    with pytest.raises(InputError, match=r"pixels from 0 to 255; multiply .* by 255"):
        Embedder(SMALL, channels=1)(torch.rand(2, 1, 28, 28))


def test_folder_without_a_whole_model_is_refused(tmp_path):
    with pytest.raises(CheckpointError):
        load_embedder(tmp_path)
    save_embedder(Embedder(SMALL, channels=1), tmp_path, PREPROCESSING)
    settings = json.loads((tmp_path / "model.json").read_text())
    settings["model"]["width"] = 5
    (tmp_path / "model.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=r"model\.json and model\.safetensors"):
        load_embedder(tmp_path)


@pytest.mark.parametrize(("backbone", "pooling"), [("resnet18", "gem"), ("vit_tiny_patch16_224", "backbone")])
def test_timm_backbones_embed(backbone, pooling):
    embedder = Embedder(ModelSettings(backbone=backbone, pooling=pooling, embedding_size=7), channels=3).eval()
    assert embedder(torch.zeros(1, 3, 224, 224, dtype=torch.uint8)).shape == (1, 7)


def test_transformer_tokens_cannot_be_pooled_as_maps():
    embedder = Embedder(ModelSettings(backbone="vit_tiny_patch16_224", pooling="gem"), channels=3)
    with pytest.raises(RecipeError, match=r"set model\.pooling=backbone"):
        embedder(torch.zeros(1, 3, 224, 224))


@pytest.mark.parametrize(
    "model", [ModelSettings(backbone="resnet_18"), ModelSettings(pretrained=True), ModelSettings(pooling="backbone")]
)
def test_impossible_backbone_is_refused(model):
    with pytest.raises(RecipeError, match="model"):
        build_backbone(model, channels=3)


def test_local_weights_are_used(tmp_path):
    source = build_backbone(ModelSettings(backbone="resnet18"), channels=3)
    assert isinstance(source, FeatureBackbone)
    save_file(source.network.state_dict(), tmp_path / "weights.safetensors")
    loaded = build_backbone(
        ModelSettings(backbone="resnet18", pretrained=str(tmp_path / "weights.safetensors")), channels=3
    )
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in source.state_dict().items())


def test_local_weights_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    model = ModelSettings(backbone="resnet18", pretrained=str(path))
    with pytest.raises(MissingResourceError):
        build_backbone(model, channels=3)
    path.write_bytes(b"PK\x03\x04 a pickle, perhaps")
    with pytest.raises(RecipeError, match=r"a whole \.safetensors, \.pth or \.pt file"):
        build_backbone(model, channels=3)
    save_file({"other": torch.zeros(1)}, path)
    with pytest.raises(RecipeError, match=r"lacks 120 of 120 tensors .*beside them: 'other'.*model\.weights_names"):
        build_backbone(model, channels=3)


NAMES = """
def to_ours(weights, network):
    return {name.replace("layer_", "layer"): tensor for name, tensor in weights.items()}

def to_none(weights, network):
    return None

def to_trouble(weights, network):
    raise KeyError("stem")
"""


@pytest.fixture
def weights_of_other_names(tmp_path, monkeypatch):
    """A ResNet's weights under other names, beside a module with functions that rename them."""
    (tmp_path / "weight_names.py").write_text(NAMES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "weight_names", raising=False)
    source = build_backbone(ModelSettings(backbone="resnet18"), channels=3)
    assert isinstance(source, FeatureBackbone)
    renamed_tensors = {name.replace("layer", "layer_"): tensor for name, tensor in source.network.state_dict().items()}
    torch.save(renamed_tensors, tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


@pytest.mark.parametrize("function", ["weight_names:to_ours", "timm.models:remap_state_dict"])
def test_weights_of_other_names_are_loaded_by_a_function_that_renames_them(weights_of_other_names, function):
    model = ModelSettings(backbone="resnet18", pretrained=str(weights_of_other_names), weights_names=function)
    loaded = build_backbone(model, channels=3).state_dict()
    for name, tensor in torch.load(weights_of_other_names, weights_only=True).items():
        assert torch.equal(loaded[f"network.{name.replace('layer_', 'layer')}"], tensor)


def test_a_filter_of_timms_fits_weights_to_another_size_of_image(tmp_path):
    source = timm.create_model("vit_tiny_patch16_224", num_classes=0)
    torch.save({"model": source.state_dict()}, tmp_path / "vit.pth")
    model = ModelSettings(
        backbone="vit_tiny_patch16_224",
        pretrained=str(tmp_path / "vit.pth"),
        weights_names="timm.models.vision_transformer:checkpoint_filter_fn",
        pooling="backbone",
    )
    network = build_backbone(model, channels=3, size=96).network
    resampled = timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=96)
    resampled.load_state_dict(checkpoint_filter_fn(source.state_dict(), resampled))
    images = torch.rand(2, 3, 96, 96)
    torch.testing.assert_close(network.eval()(images), resampled.eval()(images))


@pytest.mark.parametrize(
    ("function", "refusal"),
    [
        ("weight_names:to_none", "returns NoneType: expected a dictionary of tensors"),
        ("weight_names:to_trouble", r"fails on .*weights\.pth \(KeyError: 'stem'\)"),
        ("weight_names:to_hers", "has no callable to_hers"),
        ("to_ours", "expected module:attribute"),
    ],
)
def test_functions_that_rename_no_weights_are_refused(weights_of_other_names, function, refusal):
    model = ModelSettings(backbone="resnet18", pretrained=str(weights_of_other_names), weights_names=function)
    with pytest.raises(RecipeError, match=refusal):
        build_backbone(model, channels=3)


@pytest.mark.parametrize("options", [{"pretrained": True}, {"backbone": "open_clip:RN50", "pretrained": "a.pt"}])
def test_names_are_of_the_weights_in_a_file(options):
    with pytest.raises(ValidationError, match="weights_names is for a local file"):
        ModelSettings(weights_names="timm.models:remap_state_dict", **options)


def test_a_models_folder_imports_no_function_that_renames_weights(tmp_path):
    model = ModelSettings(backbone="resnet18", pretrained="w.pth", weights_names="not_there:rename", embedding_size=6)
    embedder = Embedder(model, channels=1, load_weights=False)
    save_embedder(embedder, tmp_path, PREPROCESSING)
    assert load_embedder(tmp_path).settings.weights_names == "not_there:rename"


@pytest.mark.parametrize("wrapped", [False, True])
def test_local_pth_file_is_used_whatever_a_training_script_wrapped_it_in(tmp_path, wrapped):
    source = build_backbone(ModelSettings(backbone="resnet18"), channels=3)
    assert isinstance(source, FeatureBackbone)
    weights = {f"module.{name}": tensor for name, tensor in source.network.state_dict().items()}
    weights["module.fc.weight"] = torch.zeros(10, 512)
    torch.save({"state_dict": weights, "epoch": 3} if wrapped else weights, tmp_path / "weights.pth")
    loaded = build_backbone(ModelSettings(backbone="resnet18", pretrained=str(tmp_path / "weights.pth")), channels=3)
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in source.state_dict().items())


@pytest.mark.parametrize("pickled", [b"no pickle", None, {"epoch": 3}], ids=["junk", "code", "no tensors"])
def test_pth_file_that_is_not_tensors_alone_is_refused(tmp_path, pickled):
    path = tmp_path / "weights.pth"
    if isinstance(pickled, bytes):
        path.write_bytes(pickled)
    else:
        torch.save({"a": Path("an object, not a tensor")} if pickled is None else pickled, path)
    with pytest.raises(RecipeError, match=r"weights\.pth") as refused:
        build_backbone(ModelSettings(backbone="resnet18", pretrained=str(path)), channels=3)
    assert not re.search("trust|weights_only|still be loaded|\n", str(refused.value))


@pytest.mark.parametrize(
    ("backbone", "pooling", "features"),
    [
        ("resnet34", "max", 512),
        ("resnet50", "average", 2048),
        ("resnet101", "gem", 2048),
        ("deit_small_patch16_224", "backbone", 384),
        ("vit_base_patch16_224", "backbone", 768),
    ],
)
def test_backbones_of_the_papers_build_offline(backbone, pooling, features):
    model = ModelSettings.model_validate({"backbone": backbone, "pooling": pooling, "projection_bias": False})
    embedder = Embedder(model, channels=3)
    assert [tuple(parameter.shape) for parameter in embedder.head.parameters()] == [(128, features)]
    assert isinstance(embedder.head[0], nn.LayerNorm)
    assert embedder.head[0].weight is None


def test_absent_pretrained_weights_name_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingResourceError, match=r"timm\.create_model\('resnet18', pretrained=True\)"):
        build_backbone(ModelSettings(backbone="resnet18", pretrained=True), channels=3)


def gradients_and_memory(model, images):
    """Of one step: every gradient, and the bytes that the forward pass keeps for the backward pass."""
    torch.manual_seed(0)
    embedder = Embedder(model, channels=3)
    embedder.set_training(frozen_backbone=False)
    memory = 0

    def keep(tensor):
        nonlocal memory
        memory += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        embeddings = embedder(images)
    kept_forward = memory
    (embeddings @ embeddings.T).pow(3).sum().backward()
    return {name: parameter.grad for name, parameter in embedder.named_parameters()}, kept_forward


@pytest.mark.parametrize(
    ("backbone", "pooling", "size"), [("resnet18", "gem", 64), ("vit_tiny_patch16_224", "backbone", 224)]
)
def test_checkpointed_gradients_are_the_same_with_less_memory(backbone, pooling, size):
    images = torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8)
    options = {"backbone": backbone, "pooling": pooling, "freeze_batch_norm": True, "embedding_size": 8}
    gradients_reference, memory = gradients_and_memory(ModelSettings.model_validate(options), images)
    checkpointing = ModelSettings.model_validate({**options, "gradient_checkpointing": True})
    gradients, memory_checkpointed = gradients_and_memory(checkpointing, images)
    assert gradients.keys() == gradients_reference.keys()
    assert all(torch.equal(gradient, gradients[name]) for name, gradient in gradients_reference.items())
    assert memory_checkpointed < 0.5 * memory


@pytest.mark.parametrize(
    ("backbone", "freeze", "problem"),
    [("small_cnn", True, "with small_cnn"), ("dla34", True, "with dla34"), ("resnet18", False, "each batch twice")],
)
def test_checkpointing_that_cannot_be_is_refused(backbone, freeze, problem):
    model = ModelSettings(backbone=backbone, gradient_checkpointing=True, freeze_batch_norm=freeze)
    with pytest.raises(RecipeError, match=problem):
        build_backbone(model, channels=3)
