"""Pretrained networks embed as their own libraries do, and are measured like any other embeddings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from tiny_clip import MODEL, save_tiny_clip

import hiertree as ht
from hiertree.errors import MissingResourceError, RecipeError
from hiertree.pipelines.inference.embedding import embed, pretrained_recipe
from hiertree.pipelines.inference.image_inputs import as_image_source
from hiertree.pipelines.networks.loading import preprocessing_of
from hiertree.pipelines.stored_embeddings.embeddings_files import read_embeddings
from hiertree.pipelines.stored_embeddings.evaluating import evaluate_file
from hiertree.pipelines.training.data.batches import BatchKey
from hiertree.pipelines.training.data.views import ImageViews

HERE = ("images.workers=0", "training.device=cpu")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for index in range(8):
        class_folder = folder / f"kind{index // 4}" / f"L{index // 2}"
        class_folder.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(random.integers(0, 255, (7, 9, 3), dtype=np.uint8))
        small.resize((330, 250 + index)).save(class_folder / f"{index}.png")
    return folder


def files(photos):
    return sorted(photos.glob("*/*/*.png"))


VIEWS = {  # a network each of timm's kinds of views: what it asks for
    "resnet18": {"interpolation": "bicubic", "crop_mode": "center", "crop_pct": 0.95},
    "resnet18.tv_in1k": {"interpolation": "bilinear", "crop_mode": "center", "crop_pct": 0.875},
    "vit_tiny_patch16_224": {"interpolation": "bicubic", "crop_mode": "center", "crop_pct": 0.9},
    "tf_efficientnetv2_b3.in21k_ft_in1k": {"interpolation": "bicubic", "crop_mode": "squash", "crop_pct": 0.9},
    "test_vit.r160_in1k": {"interpolation": "bicubic", "crop_mode": "center", "crop_pct": 0.95},
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_network_of_timm_embeds_as_timm_does(name, photos, tmp_path):
    torch.manual_seed(0)
    network = timm.create_model(name)
    config = timm.data.resolve_model_data_config(network)
    assert {key: config[key] for key in VIEWS[name]} == VIEWS[name]
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    overrides = (f"model.pretrained={tmp_path / 'weights.safetensors'}", *HERE)
    embedded = embed(f"timm:{name}", photos, tmp_path / "out", overrides=overrides)
    network.eval().reset_classifier(0)
    view = timm.data.create_transform(**config)
    with torch.inference_mode():
        expected = network(torch.stack([view(Image.open(file)) for file in files(photos)])).numpy()
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = read_embeddings(embedded.folder).queries.embeddings
    assert vectors.shape == expected.shape
    np.testing.assert_allclose(vectors, expected, atol=1e-4)
    model = ht.load_model(f"timm:{name}/{tmp_path / 'weights.safetensors'}", device="cpu")
    np.testing.assert_allclose(model.embed(photos), vectors, atol=1e-6)
    assert evaluate_file(tmp_path / "out", metrics=["H-AP", "AP[1]"]).summary().notna().all()


def test_a_tower_of_open_clip_embeds_as_open_clip_does(photos, tmp_path):
    import open_clip

    save_tiny_clip(tmp_path)
    weights = tmp_path / "open_clip_model.safetensors"
    embedded = embed(f"open_clip:{MODEL}", photos, tmp_path / "out", overrides=(f"model.pretrained={weights}", *HERE))
    model, _, view = open_clip.create_model_and_transforms(MODEL, pretrained=str(weights))
    with torch.inference_mode():
        expected = model.eval().encode_image(torch.stack([view(Image.open(file)) for file in files(photos)])).numpy()
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = read_embeddings(embedded.folder).queries.embeddings
    np.testing.assert_allclose(vectors, expected, atol=1e-4)
    np.testing.assert_allclose(ht.load_model(f"open_clip:{MODEL}/{weights}").embed(photos), vectors, atol=1e-5)


def test_the_crop_follows_the_size():
    images = pretrained_recipe("timm:resnet18").images
    assert (images.size, images.resize) == (224, math.floor(224 / 0.95))
    larger = pretrained_recipe("timm:resnet18", ["images.size=448"]).images
    assert larger.resize == math.floor(448 / 0.95)
    squeezed = pretrained_recipe("open_clip:ViT-B-16-SigLIP/webli").images
    assert (squeezed.size, squeezed.resize, squeezed.interpolation) == (224, (224, 224), "bicubic")


@pytest.mark.parametrize("shape", [(330, 250), (250, 333), (97, 640), (40, 31), (256, 256)])
@pytest.mark.parametrize(
    "name", ["deepseek_vit_412m", "dm_nfnet_f0", "resnet18.tv_in1k", "vit_base_patch16_siglip_224"]
)
def test_views_of_a_pretrained_network_are_its_librarys_pixel_by_pixel(name, shape):
    noise = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    config = timm.data.resolve_data_config(pretrained_cfg=vars(timm.get_pretrained_cfg(name)))
    transform = timm.data.create_transform(**config, normalize=False)
    views = ImageViews(as_image_source(Image.fromarray(noise)), pretrained_recipe(f"timm:{name}").images)
    assert torch.equal(views[BatchKey(0, 0, [0])].images[0], transform(Image.fromarray(noise)))


def test_open_clips_longer_side_with_a_border_is_its_own(photos, tmp_path, monkeypatch):
    import open_clip
    from open_clip.pretrained import _PRETRAINED

    save_tiny_clip(tmp_path)
    weights = {"mean": (0.5,) * 3, "std": (0.2,) * 3, "resize_mode": "longest", "interpolation": "bilinear"}
    monkeypatch.setitem(_PRETRAINED, MODEL, {"wide": weights})
    recipe = pretrained_recipe(f"open_clip:{MODEL}/wide")
    view = open_clip.image_transform(recipe.images.size, is_train=False, **weights)
    preprocessing = preprocessing_of(recipe.images, recipe.model)
    assert (preprocessing.mean, preprocessing.std, preprocessing.border) == ((0.5,) * 3, (0.2,) * 3, (0, 0, 0))
    views = ImageViews(as_image_source(photos), recipe.images)[BatchKey(0, 0, [0])].images
    expected = 255 * (view(Image.open(files(photos)[0])) * 0.2 + 0.5)
    torch.testing.assert_close(views[0].float(), expected, atol=1e-3, rtol=0)


def test_a_network_for_images_that_are_not_square_is_refused():
    with pytest.raises(RecipeError, match="images of 1024 × 768 pixels: expected a network for square images"):
        pretrained_recipe("timm:vit_base_patch16_sapiens2.fb")


def test_weights_out_of_reach_and_names_unknown_are_one_line(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HIERTREE_PROGRESS", "1")
    with pytest.raises(MissingResourceError, match=r"timm\.create_model\('resnet18', pretrained=True\)"):
        embed("timm:resnet18", photos, tmp_path / "out", overrides=HERE)
    with pytest.raises(MissingResourceError, match=r"create_model\('resnet18', pretrained=True\).*timm:NAME/FILE"):
        ht.load_model("timm:resnet18")
    assert capsys.readouterr().err.count("\n") == 1  # what is embedded
    with pytest.raises(RecipeError, match=r"'resnet19': expected .*the name of a timm model"):
        embed("timm:resnet19", photos, tmp_path / "out")
    with pytest.raises(RecipeError, match="openai, laion400m_e31"):
        embed("open_clip:ViT-B-32", photos, tmp_path / "out", overrides=HERE)
    with pytest.raises(MissingResourceError, match=r"nowhere\.pth: expected .* file that exists"):
        ht.load_model("timm:resnet18/nowhere.pth")
    assert not (tmp_path / "out").exists()
